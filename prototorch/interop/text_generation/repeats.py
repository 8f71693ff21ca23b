"""Runs of statements become repeats: equal ones, and those whose numbers and names follow the loop variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from prototorch.interop.text_generation.block_search import begins_well
from prototorch.interop.text_generation.name_parts import linear_text, name_template
from prototorch.interop.text_generation.signatures import Signatures, statement_cost
from prototorch.interop.text_generation.statements import (
    REPEAT,
    Statement,
    StatementList,
    all_names,
    same_number,
)

__all__ = ["fold_runs"]

_PERIODS = (1, 2, 3, 4)
_VARIABLES = ("i", "j", "k", "m", "n")
_LONGEST_LIST = 12  # numbers of a list that a loop variable selects from


def fold_runs(
    body: StatementList,
    readings: Counter[int],
    defaults: dict[tuple[str, str], Any],
    signatures: Signatures,
    exact: bool,
) -> bool:
    """Put repeats in the place of runs in one sequence. exact: only runs of statements with equal numbers."""
    key = signatures.exact if exact else signatures.of
    keys = [key(item) for item in body.items]
    numbers = [item.numbers() for item in body.items]
    has_changed = False
    for period in _PERIODS:
        start, end = 0, 0
        while start + 2 * period <= len(keys):
            is_new_run = start + period > end
            end = max(end, start + period)
            while end < len(keys) and keys[end] == keys[end - period]:
                end += 1
            count = (end - start) // period
            repeat = None
            if count > 1 and (period == 1 or begins_well(body.items[start])):
                equal = _equal_iterations(numbers, start, period, count)
                for length in dict.fromkeys((count, equal) if is_new_run else (equal,)):
                    if length > 1 and repeat is None:
                        iterations = [body.items[start + i * period : start + (i + 1) * period] for i in range(length)]
                        repeat, count = _repeat(iterations, readings, defaults, exact), length
            if repeat is not None:
                replaced = slice(start, start + count * period)
                body.items[replaced] = [repeat]
                keys[replaced] = [key(repeat)]
                numbers[replaced] = [repeat.numbers()]
                has_changed = True
                end = 0
            start += 1
    return has_changed


def _equal_iterations(numbers: Sequence[list[Any]], start: int, period: int, count: int) -> int:
    """How many iterations at the beginning have the same numbers."""
    for i in range(1, count):
        if numbers[start + i * period : start + (i + 1) * period] != numbers[start : start + period]:
            return i
    return count


def _repeat(
    iterations: Sequence[Sequence[Statement]],
    readings: Counter[int],
    defaults: dict[tuple[str, str], Any],
    exact: bool,
) -> Statement | None:
    nodes = tuple(node for items in iterations for item in items for node in item.nodes)
    if any(item.references() for items in iterations for item in items) or any(readings[node] for node in nodes):
        return None
    used = {item.head for whole in iterations[0] for item in whole.walk() if item.kind == REPEAT}
    variable = next((v for v in _VARIABLES if v not in used), None)
    if variable is None:
        return None
    body_cost = sum(statement_cost(item, defaults) for item in iterations[0])
    columns = list(zip(*([n for item in items for n in item.numbers()] for items in iterations), strict=True))
    values = [_in_terms_of(variable, column, body_cost) for column in columns]
    if any(value is None for value in values):
        return None
    lists = sum(isinstance(value, str) and "][" in value for value in values)
    names = [all_names(items) for items in iterations]
    templates = [name_template(column, variable) for column in zip(*names, strict=True)]
    if any(template is None for template in templates) or (len(set(map(tuple, names))) == 1 and names[0]):
        return None
    varies = any(isinstance(v, str) for v in values) or bool(names[0])
    saved = (len(iterations) - 1) * body_cost - 3 - (2 * varies) - 3 * lists
    if saved <= 0 or (exact and varies and not names[0]) or lists > (2 if len(iterations[0]) > 1 else 0):
        return None
    numbers, new_names = iter(values), iter([t for t in templates if t is not None])
    body = StatementList([item.substitute(numbers, new_names) for item in iterations[0]])
    head = variable if varies else ""
    return Statement(REPEAT, head, (("count", len(iterations)),), iterations[-1][-1].exit, nodes, bodies=(body,))


def _in_terms_of(variable: str, column: Sequence[Any], body_cost: int) -> Any:
    """A value, or the text of an expression that gives each value in turn; None where no simple one does."""
    first = column[0]
    if all(same_number(value, first) for value in column):
        return first
    if len(column) < 3 or not all(isinstance(value, int) for value in column):
        return _conditional(variable, column, body_cost)
    step = column[1] - first
    if step and all(b - a == step for a, b in pairwise(column)):
        return f"$({linear_text(first, step, variable)})"
    factor = column[1] // first if first > 0 else 0
    if factor > 1 and all(a * factor == b for a, b in pairwise(column)):
        return f"$({first} * {factor} ** {variable})" if first > 1 else f"$({factor} ** {variable})"
    return _conditional(variable, column, body_cost)


def _conditional(variable: str, column: Sequence[Any], body_cost: int) -> Any:
    if not all(isinstance(value, int | float) for value in column) or len(column) < 3 or body_cost < 7:
        return None
    if all(same_number(value, column[1]) for value in column[1:]):
        return f"$({column[0]!r} if {variable} == 0 else {column[1]!r})"
    if len(column) > _LONGEST_LIST:
        return None
    return f"$([{', '.join(map(repr, column))}][{variable}])"
