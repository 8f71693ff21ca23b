"""Nodes whose op is one layer, as its row says: functions of one value, and of several element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from prototorch.interop.counterparts.onnx.row import OpPair
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import Operand
from prototorch.interop.onnx.importer.registry import Importer, NoLayerError
from prototorch.interop.onnx.op_pairs import pairs_by_op
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS

__all__ = ["import_merge", "row_evaluator", "row_fields", "row_importer"]


def row_importer(op: str) -> Importer | None:
    """The importer of an op that is one layer."""
    pair = pairs_by_op().get(op)
    if pair is None or pair.layer is None:
        return None
    return partial(_import_function, pair) if pair.layer.input_range() == (1, 1) else import_merge


def row_fields(pair: OpPair, node: OnnxNode) -> dict[str, Any]:
    """The fields of the layer for the attributes of a node. Raises NoLayerError for those that no layer has."""
    if not pair.fits(node.attributes):
        raise NoLayerError(
            f"attributes { ({n: node.get(n) for n in pair.fixed_attributes}) } differ from those that the layer has"
        )
    try:
        return pair.layer_fields(node.attributes)
    except KeyError as error:
        raise NoLayerError(f"an attribute has the value {error}, which no layer has") from None


def _import_function(pair: OpPair, b: NetBuilder, node: OnnxNode) -> Operand:
    return b.add(b.make(pair.layers[0], **row_fields(pair, node)), node.value(0))


def import_merge(b: NetBuilder, node: OnnxNode) -> Operand:
    """Several values, element by element; one alone is the result."""
    operands = [a for a in node.args if a is not None]
    if len(operands) == 1:
        return operands[0]
    kind: Any = pairs_by_op()[node.op].layers[0]
    return b.add(kind(), *b.aligned(operands))


def row_evaluator(op: str) -> Callable[..., Any] | None:
    """The function of arrays that computes an op which is a layer, element by element; None for another op.

    Arrays of objects, which hold `BatchSize`s, are computed as well where Python can.
    """
    pair = pairs_by_op().get(op)
    if pair is None or pair.layer is None or pair.fields or pair.fixed_attributes:
        return None
    function: Any = getattr(pair.layer, "function", None) or OPS.get(pair.our_op)
    if function is None or not getattr(OPS.get(pair.our_op), "elementwise", True):
        return None
    takes_any_number = pair.layer.input_range()[1] is None

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        operands = [np.atleast_1d(a) for a in arrays]  # NumPy's functions make no arrays of objects without dimensions
        if takes_any_number:
            result = reduce(lambda a, b: run_on_arrays(function, a, b), operands)
        else:
            result = run_on_arrays(function, *operands)
        return np.reshape(result, shape)

    return evaluate
