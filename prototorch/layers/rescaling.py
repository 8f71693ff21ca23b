"""Elementwise rescaling by constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.errors import UsageError
from prototorch.layers.adapted_layer import AdaptedLayer
from prototorch.layers.channels import ChannelAxisLayer, channel_axis_field
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field
from prototorch.spec import FLOAT_DTYPES
from prototorch.text.syntax_tree import Field, ListValue


def as_float(x: ArrayValue) -> Any:
    """x with floating-point elements: integers become float32."""
    return x if x.dtype in FLOAT_DTYPES else ops.cast(x, dtype="float32")


def broadcast_along_axis(ctx: Context, x: ArrayValue, values: Sequence[float], axis: int, what: str) -> Any:
    """One value, or one per position along an axis, as an array that broadcasts to x."""
    with np.errstate(over="ignore"):
        constants = np.asarray(values, dtype=x.dtype)
    if not np.isfinite(constants).all() and np.isfinite(values).all():
        ctx.fail(f"{what} has values that are not finite in {x.dtype}: {max(values, key=abs)}")
    if len(values) == 1:
        return constants.reshape(())
    if x.ndim <= axis or x.shape[axis] != len(values):
        ctx.fail(f"{what} has {len(values)} values, axis {axis} of {list(x.shape[1:])} another size")
    return constants.reshape(-1, *(1,) * (x.ndim - axis - 1))


def _affine_bounds(low: float, high: float, scale: np.ndarray, offset: np.ndarray) -> tuple[float, float]:
    """Bounds of ``x * scale + offset``, one for all or one per channel, for x from ``low`` to ``high``."""
    ends = [np.where(scale == 0, 0.0, scale) * x + offset for x in (low, high)]
    return float(np.min(ends)), float(np.max(ends))


class Rescaling(ChannelAxisLayer):
    """``x * scale + offset`` (Keras). Input and output [batch, ...]; integers become float32.

    A list has one value per channel; by default the channels are the last axis of tables and sequences, and that behind
    the batch of images and volumes.
    """

    scale: list[float] = field(doc="The factor, one for all or one per channel.")
    offset: list[float] = field(default=0.0, doc="What is added, one for all or one per channel.")
    mask_policy = "keep"
    examples = [
        example("Rescaling { scale: 0.5 }", inputs=[(2, 3)]),
        example("Rescaling { scale: [2, 3]  offset: [-1, 0.5] }", inputs=[(2, 2, 3)]),
        example("Rescaling { scale: 0.1  offset: 1 }", inputs=[(4,)], dtype="uint8"),
    ]

    @classmethod
    def format_1_fields(cls, fields: Sequence[Field]) -> Mapping[str, Any]:
        has_lists = any(f.name in ("scale", "offset") and isinstance(f.value, ListValue) for f in fields)
        return {"data_format": "channels_first"} if has_lists else {}

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return _affine_bounds(low, high, np.asarray(self.scale), np.asarray(self.offset))

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = self.channel_axis(x.ndim)
        y = as_float(x) * broadcast_along_axis(ctx, as_float(x), self.scale, axis, "scale")
        return y if self.offset == (0.0,) else y + broadcast_along_axis(ctx, y, self.offset, axis, "offset")


class Normalization(ChannelAxisLayer, AdaptedLayer):
    """``(x - mean) / sqrt(variance)`` with constants (Keras), which are learned from data where they are left out.

    Input and output [batch, ...]; integers become float32. Lists are along the channels by default, the last axis of
    tables and sequences, and that behind the batch of images and volumes. A standard deviation below 1e-7 counts as
    that.
    """

    positional = ()
    learned_fields = ("mean", "variance")
    mean: list[float] | None = field(
        default=None, doc="The mean, one for all or one per position along the axis; none: that of the training data."
    )
    variance: list[float] | None = field(
        default=None, min=0, doc="The variance, one for all or one per position along the axis; none: it is learned."
    )
    axis: int | None = channel_axis_field("The axis of the lists")
    invert: bool = field(default=False, doc="Whether the inverse is applied: x * sqrt(variance) + mean.")
    mask_policy = "keep"
    examples = [
        example("Normalization { mean: 0.5  variance: 0.25 }", inputs=[(2, 3)]),
        example("Normalization { mean: [1, 2, 3]  variance: [1, 4, 0.5] }", inputs=[(2, 3)]),
        example("Normalization { mean: [1, 2]  variance: 4  invert: true }", inputs=[(2, 2, 1)]),
    ]

    def check(self) -> None:
        """Both constants are there, or both are learned."""
        super().check()
        if (self.mean is None) != (self.variance is None):
            self.refuse("write mean and variance, or none of them, so that both are learned", "mean")

    def summarize(self, batch: np.ndarray, summary: Any) -> Any:
        axis = self.channel_axis(batch.ndim) if batch.ndim > 1 else 0
        axis = axis + batch.ndim if axis < 0 else axis
        values = batch.astype(np.float64)
        over = tuple(i for i in range(batch.ndim) if i != axis) if batch.ndim > 1 else None
        count = values.size // (values.shape[axis] if batch.ndim > 1 else 1)
        mean, variance = np.atleast_1d(values.mean(over)), np.atleast_1d(values.var(over))
        if summary is None:
            return count, mean, variance
        before, mean_before, variance_before = summary
        if mean.shape != mean_before.shape:
            raise UsageError(f"Normalization.adapt: batches of {len(mean_before)} and of {len(mean)} positions")
        share = count / (before + count)
        total = mean_before * (1 - share) + mean * share
        pooled_variance = (variance_before + (mean_before - total) ** 2) * (1 - share) + (
            variance + (mean - total) ** 2
        ) * share
        return before + count, total, pooled_variance

    def set_from_summary(self, summary: Any) -> None:
        self.set_field("mean", tuple(map(float, summary[1])))
        self.set_field("variance", tuple(map(float, summary[2])))

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        if self.mean is None or self.variance is None:
            return float("-inf"), float("inf")
        mean, deviation = np.asarray(self.mean), np.maximum(np.sqrt(self.variance), 1e-7)
        scale, offset = (deviation, mean) if self.invert else (1 / deviation, -mean / deviation)
        return _affine_bounds(low, high, scale, offset)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = as_float(x)
        if self.mean is None or self.variance is None:
            return x  # for its shape alone: what runs refuses a layer that is not adapted
        stated = self.channel_axis(x.ndim)
        axis = stated + x.ndim if stated < 0 else stated
        if not 1 <= axis < x.ndim:
            ctx.fail(f"axis {stated} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        mean = broadcast_along_axis(ctx, x, self.mean, axis, "mean")
        deviation = np.maximum(
            np.sqrt(broadcast_along_axis(ctx, x, self.variance, axis, "variance")), np.asarray(1e-7, x.dtype)
        )
        return x * deviation + mean if self.invert else (x - mean) / deviation
