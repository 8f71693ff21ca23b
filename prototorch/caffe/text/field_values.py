"""The value of a field of Caffe from its node in the text, as strict as protobuf's text format."""

from __future__ import annotations

import re
import struct
from typing import Any

from prototorch.caffe.text.message_types import MessageField, enum_type
from prototorch.errors import did_you_mean
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Expression, Scalar, Value, Word

__all__ = ["read_field_value", "round_to_float32"]

_INTEGER_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_BOOLEANS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}
_FLOAT_WORDS = {"inf": float("inf"), "infinity": float("inf"), "nan": float("nan")}
_NOT_DECIMAL = re.compile(r"-?0[xX0-9]")


def round_to_float32(value: float) -> float:
    """The float32 nearest to a number, as a Python float; beyond its range infinity."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def read_field_value(field: MessageField, node: Value, report: Report) -> Any:
    """The value of a field that is no message; None after a mistake, which is reported."""
    if isinstance(node, Expression):
        report.add(f"{_describe(node)} is an expression; a text of Caffe has only plain values.", node.span)
        return None
    if field.is_enum:
        return _read_enum(field, node, report)
    expected, value = _READERS[field.type](field, node)
    if value is None:
        report.add(f"{field.name} is {expected}, not {_describe(node)}.", node.span)
    return value


def _read_enum(field: MessageField, node: Value, report: Report) -> str | None:
    values = enum_type(field.type).values
    if isinstance(node, Word) and node.text in values:
        return node.text
    if isinstance(node, Scalar) and type(node.value) is int:
        names = [name for name, number in values.items() if number == node.value]
        if names:
            return names[0]
    hint = did_you_mean(node.text, values) if isinstance(node, Word) else ""
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value in values:
        hint = f" Write {node.value}, without quotes."
    choice = ", ".join(values)
    report.add(f"{field.name} is one of {choice}, not {_describe(node)}.{hint}", node.span)
    return None


def _read_bool(_: MessageField, node: Value) -> tuple[str, bool | None]:
    value: bool | None = None
    if isinstance(node, Word):
        value = _BOOLEANS.get(node.text)
    elif isinstance(node, Scalar) and type(node.value) in (bool, int) and node.value in (0, 1):
        value = bool(node.value)
    return "true or false", value


def _read_integer(field: MessageField, node: Value) -> tuple[str, int | None]:
    low, high = _INTEGER_RANGES[field.type]
    is_fitting = isinstance(node, Scalar) and type(node.value) is int and low <= node.value <= high
    if low == 0:
        is_fitting = is_fitting and not (node.text or "").startswith("-")
    return f"an integer from {low} to {high}", node.value if is_fitting else None


def _read_float(field: MessageField, node: Value) -> tuple[str, float | None]:
    value: float | None = None
    if isinstance(node, Word):
        value = _FLOAT_WORDS.get(node.text.lower())
    elif isinstance(node, Scalar) and type(node.value) in (int, float) and not _is_octal_or_hex(node):
        value = float(node.value)
    if value is not None and field.type == "float":
        value = round_to_float32(value)
    return "a decimal number", value


def _is_octal_or_hex(node: Scalar) -> bool:
    return type(node.value) is int and _NOT_DECIMAL.match(node.text or "") is not None


def _read_string(_: MessageField, node: Value) -> tuple[str, str | None]:
    return "a string in quotes", node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _read_bytes(field: MessageField, node: Value) -> tuple[str, bytes | None]:
    expected, value = _read_string(field, node)
    return expected, None if value is None else value.encode()


def _describe(node: Value) -> str:
    """The node as messages quote it."""
    text = node.span.text if getattr(node, "span", None) is not None else "another kind of value"
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."


_READERS = {
    "bool": _read_bool,
    "string": _read_string,
    "bytes": _read_bytes,
    "float": _read_float,
    "double": _read_float,
    **dict.fromkeys(_INTEGER_RANGES, _read_integer),
}
