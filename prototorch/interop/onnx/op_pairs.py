"""The rows of ONNX by what one looks them up: our op, our layer, ONNX' op."""

from __future__ import annotations

from functools import cache

from prototorch.interop.counterparts.onnx.row import OpPair, RecurrentPair, ReductionPair
from prototorch.interop.counterparts.row import counterpart_of, counterpart_rows
from prototorch.layers.base import Layer

__all__ = ["op_pairs", "pair_by_our_op", "pair_of_layer", "pairs_by_op", "recurrent_pair", "reductions_by_our_op"]


@cache
def op_pairs() -> tuple[OpPair, ...]:
    """All rows."""
    return tuple(row for row in counterpart_rows("onnx") if isinstance(row, OpPair))


@cache
def _by_our_op() -> dict[str, OpPair]:
    return {pair.our_op: pair for pair in op_pairs() if pair.our_op}


def pair_by_our_op(name: str) -> OpPair | None:
    """The row of one of our ops."""
    return _by_our_op().get(name)


def pair_of_layer(layer: type[Layer]) -> OpPair | None:
    """The row of a layer class."""
    row = counterpart_of("onnx", layer)
    return row if isinstance(row, OpPair) else None


@cache
def pairs_by_op() -> dict[str, OpPair]:
    """All rows by ONNX' names of the op."""
    return {name: pair for pair in op_pairs() if pair.name for name in (pair.name, *pair.variants)}


def recurrent_pair(op: str) -> RecurrentPair:
    """The row of a recurrent op by ONNX' name. Raises KeyError."""
    pair = pairs_by_op()[op]
    assert isinstance(pair, RecurrentPair)
    return pair


def reductions_by_our_op() -> dict[str, ReductionPair]:
    """The rows of reductions by our op."""
    return {name: pair for name, pair in _by_our_op().items() if isinstance(pair, ReductionPair)}
