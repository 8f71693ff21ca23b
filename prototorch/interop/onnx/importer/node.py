"""A node of an ONNX graph as importers see it: its operands, and attributes as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.interop.onnx.importer.operands import Dim, KnownArray, NetValue, Operand, format_shape
from prototorch.interop.onnx.importer.registry import NoLayerError

__all__ = ["OnnxNode", "read_attributes"]


@dataclass
class OnnxNode:
    """A node. names of inputs: "" for one that is left out. version: of the opset. args: the operands, None for an
    input that is left out; set before its importer is called."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int
    proto: Any = None
    args: Sequence[Operand | None] = field(default_factory=tuple)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attributes.get(name, default)

    def flag(self, name: str, default: int) -> bool:
        """An attribute that is 0 or 1. Raises NoLayerError for another number, which runtimes read differently."""
        value = self.get(name, default)
        if value not in (0, 1):
            raise NoLayerError(f"its attribute {name} is {value}; expected 0 or 1")
        return bool(value)

    def arg(self, number: int) -> Operand | None:
        """An input, None where it is left out."""
        return self.args[number] if number < len(self.args) else None

    def required(self, number: int) -> Operand:
        """An input that must be there."""
        arg = self.arg(number)
        if arg is None:
            raise NoLayerError(f"input {number} is missing")
        return arg

    def value(self, number: int) -> NetValue:
        """An input that is computed by the net."""
        arg = self.required(number)
        if not isinstance(arg, NetValue):
            raise NoLayerError(f"input {number} is a constant, and a value of the net is expected")
        return arg

    def batch_first(self, number: int) -> NetValue:
        """An input that is computed by the net, with the batch dimension first."""
        value = self.value(number)
        if not value.is_plain:
            raise NoLayerError(
                f"input {number} has the shape {format_shape(value.shape)}: the batch alone is not its first dimension"
            )
        return value

    def constant(self, number: int, what: str = "") -> KnownArray | None:
        """An input that must be known, None where it is left out."""
        arg = self.arg(number)
        if isinstance(arg, NetValue):
            raise NoLayerError(f"input {number}{what and f' ({what})'} must be a constant, and the net computes it")
        return arg

    def weight(self, number: int, what: str = "") -> KnownArray:
        """An input that must be known and there."""
        constant = self.constant(number, what)
        if constant is None:
            raise NoLayerError(f"input {number}{what and f' ({what})'} is missing")
        return constant

    def parameter(self, name: str, number: int, default: Any = None) -> Any:
        """Integers that are an attribute in older opsets, an input in newer ones; the default where there are none."""
        if name in self.attributes:
            return self.attributes[name]
        constant = self.constant(number, name)
        if constant is None:
            return default
        return [int(n) for n in self._elements(constant, number, name)]

    def integers(self, number: int, what: str) -> list[Dim]:
        """The elements of an input that must be a known list of integers."""
        return self._elements(self.weight(number, what), number, what)

    def _elements(self, constant: KnownArray, number: int, what: str) -> list[Dim]:
        if constant.ndim != 1:
            raise NoLayerError(f"input {number} ({what}) has {constant.ndim} dimensions; a list of integers has one")
        return constant.integers()


def read_attributes(attributes: Any, tensors: Any, call_attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """AttributeProtos as values by name. call_attributes: of the function's call, to which its nodes may refer."""
    values: dict[str, Any] = {}
    for attribute in attributes:
        if attribute.ref_attr_name:
            if call_attributes is not None and attribute.ref_attr_name in call_attributes:
                values[attribute.name] = call_attributes[attribute.ref_attr_name]
            continue
        values[attribute.name] = _read_attribute(attribute, tensors)
    return values


def _read_attribute(attribute: Any, tensors: Any) -> Any:
    kind = attribute.type or _guess_kind(attribute)
    if kind == 1:
        return float(str(np.float32(attribute.f)))  # 0.9, not 0.8999999761581421
    if kind == 2:
        return attribute.i
    if kind == 3:
        return attribute.s.decode("utf-8", "replace")
    if kind == 4:
        if attribute.t.data_type == 8:
            return [s.decode("utf-8", "replace") for s in attribute.t.string_data]
        return tensors.array(attribute.t, attribute.name)
    if kind == 5:
        return attribute.g
    if kind == 6:
        return [float(str(np.float32(number))) for number in attribute.floats]
    if kind == 7:
        return list(attribute.ints)
    if kind == 8:
        return [s.decode("utf-8", "replace") for s in attribute.strings]
    return attribute


def _guess_kind(attribute: Any) -> int:
    """The kind of an attribute in a file of the first IR version, which does not tell it."""
    return next(
        (n for n, name in ((1, "f"), (2, "i"), (3, "s"), (4, "t"), (5, "g")) if attribute.HasField(name)),
        6 if attribute.floats else 7 if attribute.ints else 8,
    )
