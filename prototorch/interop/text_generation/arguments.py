"""What varies among the uses of a block becomes its arguments; what follows from another argument, an expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.interop.text_generation.statements import REPEAT, Statement, is_variable, same_number

__all__ = ["Arguments", "Slot", "block_arguments", "is_default", "slots"]

_SHORT_NAMES = {"kernel_size": "kernel", "strides": "stride", "pool_size": "pool", "dilation_rate": "dilation"}
_WINDOWS = ("kernel_size", "pool_size", "kernel", "pool")
_MOST_ARGUMENTS = 10
_MULTIPLES = (2, 3, 4, 6, 8, 16)


@dataclass(frozen=True, slots=True)
class Slot:
    """A number in a statement: whose it is, its field, and the value that may be left out (None: none may)."""

    kind: str
    head: str
    field: str
    default: Any


@dataclass(frozen=True, slots=True)
class Arguments:
    """body: a value or text for each slot of the block. names, defaults: of the arguments. values: for each use."""

    body: list[Any]
    names: list[str]
    defaults: list[Any]
    values: list[list[Any]]


def slots(items: Sequence[Statement], defaults: Mapping[tuple[str, str], Any]) -> list[Slot]:
    """The numbers of some statements, in the order of `Statement.numbers`. defaults: by head and field."""
    return [
        Slot(item.kind, item.head, key, defaults.get((item.head, key)) if item.kind != REPEAT else None)
        for whole in items
        for item in whole.walk()
        for key, value in item.fields
        if is_variable(value)
    ]


def is_default(slot: Slot, value: Any) -> bool:
    """Whether a slot's value may be left out."""
    return slot.default is not None and value == slot.default


def block_arguments(columns: Sequence[Sequence[Any]], members: Sequence[Slot]) -> Arguments | None:
    """The arguments of a block whose slots have these values, a column of one value a use for each slot.

    None where it needs more arguments than a person would write.
    """
    body: list[Any] = [None] * len(columns)
    same: dict[Any, list[int]] = {}
    for number, column in enumerate(columns):
        if all(same_number(value, column[0]) for value in column) and not isinstance(column[0], str):
            body[number] = column[0]
        else:
            same.setdefault(tuple((type(v), v) for v in column), []).append(number)
    groups = sorted(same.values(), key=lambda group: members[group[0]].default is not None)
    bases: list[tuple[list[int], str]] = []  # slots of an argument, its short name
    derived: dict[int, tuple[int, str]] = {}  # group -> base, expression with {} for its name
    for number, group in enumerate(groups):
        for base, (slots_of_base, _) in enumerate(bases):
            text = _derivation(
                columns[slots_of_base[0]], columns[group[0]], members[slots_of_base[0]], members[group[0]]
            )
            if text is not None:
                derived[number] = (base, text)
                break
        else:
            field = members[group[0]].field
            if len(bases) == _MOST_ARGUMENTS:
                return None
            bases.append((group, _SHORT_NAMES.get(field, "depth" if members[group[0]].kind == REPEAT else field)))
    counts = Counter(name for _, name in bases)
    seen: Counter[str] = Counter()
    names = []
    for _, name in bases:
        seen[name] += 1
        bare = name.rstrip("0123456789").rstrip("_")
        names.append(f"{bare}_{seen[name]}" if counts[name] > 1 else name)
    if len(set(names)) < len(names):
        names = [f"n_{i}" for i in range(1, len(names) + 1)]
    for (group, _), name in zip(bases, names, strict=True):
        for slot in group:
            body[slot] = f"${name}"
    for number, (base, text) in derived.items():
        for slot in groups[number]:
            body[slot] = f"$({text.format(names[base])})"
    values = [list(columns[group[0]]) for group, _ in bases]
    defaults = [_default(members[group[0]], column) for (group, _), column in zip(bases, values, strict=True)]
    order = sorted(range(len(names)), key=lambda i: defaults[i] is not None)  # as in Python
    return Arguments(body, [names[i] for i in order], [defaults[i] for i in order], [values[i] for i in order])


def _derivation(base: Sequence[Any], column: Sequence[Any], base_slot: Slot, slot: Slot) -> str | None:
    """An expression that gives a column from another, with ``{}`` for that one's name; None if there is none."""
    pairs = list(zip(base, column, strict=True))
    if slot.field.startswith("padding") and base_slot.field in _WINDOWS:
        return "{} // 2" if all(_is_quotient(b, c, 2) for b, c in pairs) else None
    if slot.field.rstrip("_0123456789") != base_slot.field.rstrip("_0123456789"):
        return None
    for factor in _MULTIPLES:
        if all(_is_product(b, c, factor) for b, c in pairs):
            return f"{factor} * {{}}"
        if all(_is_product(c, b, factor) if isinstance(c, int) else _is_quotient(b, c, factor) for b, c in pairs):
            return f"{{}} // {factor}"
    return None


def _is_product(base: Any, value: Any, factor: int) -> bool:
    """Whether a value is `factor` times another: a number, or the expression of one name."""
    if isinstance(base, str):
        return value == f"$({factor} * {base[1:]})"
    return isinstance(base, int) and isinstance(value, int) and factor * base == value


def _is_quotient(base: Any, value: Any, divisor: int) -> bool:
    """Whether a value is another, divided and rounded down."""
    if isinstance(base, str):
        return value == f"$({base[1:]} // {divisor})"
    return isinstance(base, int) and isinstance(value, int) and base // divisor == value


def _default(slot: Slot, column: Sequence[Any]) -> Any:
    """The default of an argument: its most frequent value, where the layer's field has a default as well."""
    if slot.default is None and slot.field not in _WINDOWS:
        return None
    numbers = Counter(value for value in column if not isinstance(value, str))
    if not numbers:
        return None
    value, count = numbers.most_common(1)[0]
    return value if 2 * count >= len(column) else None
