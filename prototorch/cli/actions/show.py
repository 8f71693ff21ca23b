"""What `prototorch show` does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.graph_printer import describe_graph, format_graph, format_passes
from prototorch.graph.ir import Graph
from prototorch.graph.pipeline import PIPELINE, PassRecord, observe_passes
from prototorch.model.diagnose import describe_plan, plan_phases
from prototorch.model.load import check_text_file, find_model_file, is_saved
from prototorch.text.dialects import find_dialect
from prototorch.text.reader import parse, read_file


def run(
    file: str,
    overrides: tuple[str, ...],
    expanded: bool,
    plan: bool,
    after: str | None,
    passes: bool,
    phase: str | None,
    batch: int | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.show`."""
    if plan:
        if expanded:
            raise UsageError("--plan and --expanded show two things: take one of them")
        _check_pass(after)
        records: list[PassRecord] = []
        graphs: dict[str, dict[str, Any]] = {}

        def observe(record: PassRecord, graph: Graph) -> None:
            records.append(record)
            if record.name == after:
                graphs[record.name] = describe_graph(graph)

        model = open_model(file, add_device_overrides(overrides, threads))
        outputs: list[tuple[Any, list[str]]] = []
        for one in plan_phases(model, phase):
            records.clear()
            graphs.clear()
            with observe_passes(observe):
                plan_description = describe_plan(model, one, batch)
            title = plan_description.title
            if after is not None:
                if after not in graphs:
                    raise UsageError(f"the pass {after} does not run for {title}; see --passes")
                outputs.append((graphs[after], [f"{title}, after {after}", *format_graph(graphs[after])]))
            elif passes:
                outputs.append(([asdict(r) for r in records], [title, *format_passes(records)]))
            else:
                outputs.append((plan_description.as_dict(), list(plan_description.lines())))
        data = outputs[0][0] if len(outputs) == 1 else [data for data, _ in outputs]
        _print(
            data, ["\n".join(lines) + "\n" * (i + 1 < len(outputs)) for i, (_, lines) in enumerate(outputs)], as_json
        )
        return
    for name, option in (
        ("after", after),
        ("passes", passes or None),
        ("phase", phase),
        ("batch", batch),
        ("threads", threads),
        ("json", as_json or None),
    ):
        if option is not None:
            raise UsageError(f"--{name} belongs to --plan")
    path = find_model_file(file)
    if expanded or overrides or is_saved(path):
        click.echo(open_model(file, overrides).to_text(), nl=False)
    else:
        text = read_file(check_text_file(path))
        dialect = find_dialect(text)
        if dialect is not None:
            dialect[0].check_syntax(text, dialect[1], path)
        else:
            parse(text, path)  # raises TextError: what is no model text is not printed
        click.echo(text, nl=False)


def _check_pass(name: str | None) -> None:
    names = [step.name for step in PIPELINE]
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or f" The passes are {', '.join(names)}."
        raise UsageError(f"there is no pass {name!r}.{hint}")


def _print(data: Any, lines: Iterable[str], as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo("\n".join(lines))
