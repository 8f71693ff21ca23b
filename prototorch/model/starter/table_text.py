"""The first model text for a table."""

from __future__ import annotations

from prototorch.data.tables.table_survey import ColumnSurvey, TableSurvey
from prototorch.text.string_literals import quote

__all__ = ["table_text"]


def table_text(survey: TableSurvey, name: str, source: str, table: str | None = None) -> tuple[str, list[str]]:
    """The text of a model for a table, and the notes on its columns that are printed, a line each.

    The net adds a linear model to a small one of two layers, so that it can be as good as the linear one. source: the
    path that the text names; table: the sheet or table inside.
    """
    notes = [f"{c.name}: left out, {c.reason}" for c in survey.columns if c.type is None]
    notes += [f"{c.name}: {c.gaps:,} of {survey.rows:,} rows have no value" for c in survey.read() if c.gaps]
    target = survey.target
    is_class = survey.kind == "classes"
    count, rarest, most = survey.classes
    units = count if is_class else 1
    width = 64 if survey.rows >= 2000 else 16
    rate, decay, dropout = ("1e-3", "1e-2", "0.2") if survey.rows >= 2000 else ("5e-3", "0.1", "0.4")
    batch = 128 if survey.rows >= 20_000 else 32 if survey.rows >= 500 else 16
    about = f"{count} classes" if is_class else "values"
    lines = [
        f"# A first model for {source.rsplit('/', 1)[-1]}: {survey.rows:,} rows, {len(survey.read())} of "
        f"{len(survey.columns)} columns, the target {_one_line(target.name)} ({about}).",
        "# prototorch check FILE shows what each column becomes; prototorch run FILE trains it.",
        f"name: {quote(name)}",
        "",
        'input { name: "row"  shape: [none] }',
        "",
        "# a linear model, and what two layers add to it",
        "Add {",
        f"  branch {{ Dense {{ units: {units} }} }}",
        "  branch {",
        f"    Dense {{ units: {width}  activation: relu }}",
        f"    Dropout {{ rate: {dropout} }}",
        f"    Dense {{ units: {width}  activation: relu }}",
        f"    Dropout {{ rate: {dropout} }}",
        f"    Dense {{ units: {units}  kernel_initializer: zeros }}",
        "  }",
        "}",
        "",
        "compile {",
        f"  loss: {'sparse_categorical_crossentropy { from_logits: true }' if is_class else 'mse'}",
        f"  optimizer: AdamW {{ learning_rate: {rate}  weight_decay: {decay} }}",
        f"  metrics: [{'accuracy' if is_class else 'mae'}]",
        "}",
        "",
        "fit {",
        "  data {",
        f"    source: {quote(source)}",
        *([f"    table: {quote(table)}"] if table is not None else []),
        f"    label: {quote(target.name)}",
    ]
    if is_class and most > 3 * rarest:
        lines[-1] += f"  # its classes have {rarest:,} to {most:,} rows"
        notes.append(f"{target.name}: its classes have {rarest:,} to {most:,} rows: accuracy alone says little")
    statements = [_target_statement(target, is_class), *(_statement(column) for column in survey.columns)]
    statements = statements if any(statements) else [_declaration(survey.columns[0])]
    lines += [f"    {statement}" for statement in statements if statement]
    lines += [
        "  }",
        "  validation_split: 0.2",
        f"  epochs: {200 if survey.rows < 2000 else 100 if survey.rows < 20_000 else 30}",
        f"  batch_size: {batch}",
        "  callbacks: [EarlyStopping { patience: 30  restore_best_weights: true }]",
        "}",
    ]
    return "\n".join(lines) + "\n", notes


def _target_statement(target: ColumnSurvey, is_class: bool) -> str:
    fields = []
    if is_class and target.type == "number":
        fields.append("type: category")
    if not is_class:
        fields.append(f"scale: {'log' if target.is_skewed else 'standard'}")
    if target.gaps:
        fields.append("missing: drop")
    return _column(target.name, fields, "") if fields else ""


def _statement(column: ColumnSurvey) -> str:
    if column.type is None:
        return _column(column.name, ["type: ignore"], column.reason)
    fields = ["type: text"] if column.type == "text" else []
    if column.is_skewed:
        fields.append("scale: log")
    if column.gaps:
        fields.append('missing: ""' if column.type == "text" else "missing: indicator")
    return _column(column.name, fields, "") if fields else ""


def _declaration(column: ColumnSurvey) -> str:
    """A statement that says nothing new, but that the table is read by type: numbers are scaled."""
    return _column(column.name, [f"type: {column.type or 'ignore'}"], "")


def _column(name: str, fields: list[str], reason: str) -> str:
    text = f"column {{ name: {quote(name)}  {'  '.join(fields)} }}"
    return f"{text}  # {_one_line(reason)}" if reason else text


def _one_line(text: str) -> str:
    return " ".join(text.split())[:100]
