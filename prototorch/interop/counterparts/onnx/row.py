"""ONNX ops that mean the same as one of our ops or layers, up to the names of their attributes.

One row is read in both directions: the importer makes the layer of the node, the exporter the node of the layer, or of
the op where a layer's `call` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prototorch.interop.counterparts.row import Counterpart, FieldPair, read_fields, write_fields
from prototorch.layers.base import Layer

__all__ = ["OpPair", "RecurrentActivation", "RecurrentPair", "ReductionPair", "axis_field", "missing_ops", "op_pair"]


class RecurrentActivation(NamedTuple):
    """ONNX' name of an activation inside a recurrent op, with its alpha and beta where it has them."""

    name: str
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True, kw_only=True)
class OpPair(Counterpart):
    """An ONNX op with our op and our layer of the same meaning.

    name: ONNX'; "" for an op of ours that ONNX does not have, with the ``reason``. our_op: its name in
    `prototorch.ops`, "" where several ops make it. layers: one class, or those of one, two and three spatial
    dimensions; none where no layer is it. fields: by ONNX' names of the attributes; those of the layer, and attributes
    of our op. fixed_attributes: attributes that must have this value; the value of ONNX where the node does not state
    it is the second of the pair. since: the first opset of the default domain that has the op with this meaning.

    variants: further ops of ONNX with this meaning, which are only read. is_written: whether our op is written as this
    op, and not by a function of the exporter. input_dtype: of the op's inputs, which are converted to it; "" for any.
    in_recurrent: how ONNX' recurrent ops name the activation.
    """

    our_op: str = ""
    fixed_attributes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    since: int = 1
    variants: tuple[str, ...] = ()
    is_written: bool = True
    input_dtype: str = ""
    in_recurrent: RecurrentActivation | None = None

    @property
    def layer(self) -> type[Layer] | None:
        """The layer of a row with one."""
        return self.layers[0] if len(self.layers) == 1 else None

    def layer_fields(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The layer's fields for the attributes that a node states. KeyError for a value that ours does not have."""
        return read_fields(self.fields, attributes)

    def fits(self, attributes: Mapping[str, Any], tolerance: float = 1e-5) -> bool:
        """Whether the fixed attributes of a node have the values that the layer stands for."""
        fixed = self.fixed_attributes.items()
        return all(abs(attributes.get(n, default) - value) <= tolerance for n, (value, default) in fixed)

    def node_attributes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The node's attributes for the fields of the layer, or the attributes of our op; ONNX' defaults left out."""
        fixed = {name: value for name, (value, default) in self.fixed_attributes.items() if value != default}
        return write_fields(self.fields, values) | fixed


@dataclass(frozen=True, kw_only=True)
class ReductionPair(OpPair):
    """A reduction.

    reduction: the layer that reduces, where the op does something before or after it. before, after: the layers that do
    this. axes_input: the first opset in which the axes are an input, not an attribute. pooling: the op over all places
    of each channel, "" where there is none.
    """

    is_written: bool = False
    reduction: type[Layer] | None = None
    before: type[Layer] | None = None
    after: type[Layer] | None = None
    axes_input: int = 18
    pooling: str = ""


@dataclass(frozen=True, kw_only=True)
class RecurrentPair(OpPair):
    """A recurrent layer.

    gates: the number of our gate at each place of ONNX' order. activations: the field of ours, and ONNX' own value, for
    each of its activations.
    """

    gates: tuple[int, ...]
    activations: tuple[tuple[str, str], ...]


def op_pair(name: str, our_op: str = "", *layers: type[Layer], **facts: Any) -> OpPair:
    """A row of an op; facts: further fields of `OpPair`."""
    return OpPair(name=name, our_op=our_op, layers=layers, **facts)


def missing_ops(reason: str, *names: str) -> tuple[OpPair, ...]:
    """The rows of ops of ours that ONNX does not have."""
    return tuple(OpPair(our_op=name, reason=reason, is_written=False) for name in names)


def axis_field(default: int = -1) -> Mapping[str, FieldPair]:
    """The attribute ``axis``."""
    return {"axis": FieldPair("axis", default)}
