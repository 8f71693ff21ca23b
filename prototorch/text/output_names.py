"""``x = Layer(...)``: the name of an output, which stands for ``top: "x"``, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.text.expansion_state import NET, ExpansionState, Scope
from prototorch.text.source import Span
from prototorch.text.syntax_tree import BlockDef, Body, Field, If, Repeat, Scalar, Word

__all__ = ["NO_OUTPUT", "add_top", "check_output_name", "name_block_output", "output_spans"]

NO_OUTPUT = "Only outputs of the net's layers and blocks are named by '='."


def output_spans(statements: Sequence[Any]) -> dict[str, list[Span]]:
    """Where the statements, and those in them, give outputs names by ``=``."""
    spans: dict[str, list[Span]] = {}
    waiting = list(statements)
    while waiting:
        s = waiting.pop()
        if isinstance(s, Field):
            if s.output is not None and s.output.span is not None:
                spans.setdefault(s.output.text, []).append(s.output.span)
            if isinstance(s.value, Body):
                waiting.extend(s.value.statements)
        elif isinstance(s, Repeat | BlockDef):
            waiting.extend(s.body.statements)
        elif isinstance(s, If):
            for body in [b for _, b in s.arms] + ([s.else_body] if s.else_body is not None else []):
                waiting.extend(body.statements)
    return spans


def check_output_name(state: ExpansionState, output: Word, scope: Scope) -> Word | None:
    """The name that a statement gives its output; None where it is taken, which is reported."""
    resolver, full = state.name_resolver, scope.prefix + output.text
    if full not in resolver.defined and full not in resolver.aliases:
        return output
    first = resolver.defined.get(full)
    at = f" (first at line {first.line})" if first is not None else ""
    state.report_skipped(f"The output name {full!r} is used twice{at}.", output.span, scope)
    return None


def add_top(state: ExpansionState, statement: Field, output: Word, scope: Scope) -> Field:
    """``x = Layer { ... }`` as ``Layer { ...  top: "x" }``."""
    body: Body = statement.value
    second = next((f for f in body.fields if f.name == "top"), None)
    if second is not None:
        at = f" (first at line {output.span.line})" if output.span is not None else ""
        state.report_skipped(f"{statement.name}.top is given twice{at}.", second.name_span, scope)
        return statement
    top = Field("top", Scalar(output.text, output.span), output.span, output.span)
    return replace(statement, value=replace(body, statements=(*body.statements, top)))


def name_block_output(state: ExpansionState, output: Word, fields: list[Field], scope: Scope) -> None:
    """Give the output of a block's use its name; ``fields`` are its layers, of which one is replaced."""
    if scope.kind != NET:
        state.report_skipped(NO_OUTPUT, output.span, scope)
        return
    new = scope.prefix + output.text
    if scope.last and state.name_resolver.rename_output(fields, scope.last[0], new, output.span):
        scope.last[:] = [new]
    else:
        state.report_skipped("This block has no layer whose output could have a name.", output.span, scope)
