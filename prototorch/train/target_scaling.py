"""Targets that are scaled in the loss, and outputs that are scaled back in predictions and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.data.table_columns import TableColumns
from prototorch.errors import ShapeError, UsageError
from prototorch.graph.net import LayerNode, Net
from prototorch.layers import Activation, Layer, Normalization, Rescaling

__all__ = ["TargetScaling", "target_scalings", "with_target_units"]


@dataclass(frozen=True)
class TargetScaling:
    """How the targets of an output are scaled: (f(value) - shift) * factor, f being log(1 + x) or nothing.

    Attributes:
        shifts, factors: one, or one for each element of the last axis; logs: where f is log(1 + x).
    """

    shifts: tuple[float, ...]
    factors: tuple[float, ...]
    logs: tuple[bool, ...]

    def scale(self, value: Any) -> Any:
        """A target in the unit of the loss: [batch, ...]."""
        dtype = self._check(value)
        value = self._where_log(value, ops.log1p)
        return (value - self._array(self.shifts, dtype)) * self._array(self.factors, dtype)

    def unscale(self, value: Any) -> Any:
        """An output in the unit of the target: [batch, ...]."""
        dtype = self._check(value)
        value = value * self._array([1 / f for f in self.factors], dtype) + self._array(self.shifts, dtype)
        return self._where_log(value, ops.expm1)

    @staticmethod
    def _array(values: Any, dtype: str) -> np.ndarray:
        array = np.asarray(values, np.float64).astype(dtype)
        return array.reshape(()) if len(array) == 1 else array

    def _check(self, value: Any) -> str:
        if len(self.shifts) > 1 and value.shape[-1:] != (len(self.shifts),):
            raise ShapeError(
                f"{len(self.shifts)} scaled target columns are learned by an output of shape {list(value.shape[1:])}, "
                f"expected [{len(self.shifts)}]"
            )
        return str(value.dtype)

    def _where_log(self, value: Any, function: Any) -> Any:
        if not any(self.logs):
            return value
        if all(self.logs):
            return function(value)
        of_logs, rest = (self._array([flag == is_log for flag in self.logs], value.dtype) for is_log in (True, False))
        return function(value * of_logs) + value * rest

    def layers(self) -> tuple[Layer, ...]:
        """The layers that do what `unscale` does. Raises UsageError for several columns of which some are ``log``."""
        if any(self.logs) and not all(self.logs):
            raise UsageError("targets of one output of which some have scale: log and others not have no layers")
        variances = [1 / factor**2 for factor in self.factors]
        affine = Normalization(mean=list(self.shifts), variance=variances, axis=-1, invert=True)
        return (
            (affine, Activation(activation="exponential"), Rescaling(scale=1.0, offset=-1.0))
            if any(self.logs)
            else (affine,)
        )


def with_target_units(net: Net, scalings: Mapping[str, TargetScaling]) -> Net:
    """A net whose outputs are scaled back by layers behind them; their names stay. Raises UsageError as
    `TargetScaling.layers`."""
    for output, scaling in scalings.items():
        if output not in net.outputs:
            continue
        inner = f"{output}_scaled"
        nodes = [_rename_value(node, output, inner) for node in net.nodes]
        layers = scaling.layers()
        for at, layer in enumerate(layers):
            top = output if at == len(layers) - 1 else f"{output}_unit_{at}"
            name = f"{output}_unit_{at}"
            nodes.append(LayerNode(name, layer.replace(name=name), (inner,), (top,)))
            inner = top
        net = replace(net, nodes=tuple(nodes))
    return net


def _rename_value(node: LayerNode, value: str, name: str) -> LayerNode:
    """A node with another name for a value that it reads or gives."""
    bottoms, tops = (tuple(name if one == value else one for one in values) for values in (node.bottoms, node.tops))
    return replace(node, bottoms=bottoms, tops=tops)


def target_scalings(table: TableColumns) -> Mapping[str, TargetScaling]:
    """The scalings by output that a training on a table has learned."""
    encodings = () if table.encoding is None else table.encoding.targets
    scalings = {}
    for output in dict.fromkeys(one.output for one in encodings):
        columns = [one for one in encodings if one.output == output]
        if any(one.scale != "none" for one in columns):
            scalings[output] = TargetScaling(
                tuple(one.shift for one in columns),
                tuple(one.factor for one in columns),
                tuple(one.scale == "log" for one in columns),
            )
    return scalings
