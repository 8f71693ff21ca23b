"""Batch normalization."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.affine_norm import AffineNormLayer
from prototorch.layers.channels import ChannelAxisLayer, channel_axis_field
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.mask_shapes import expand_mask
from prototorch.schema import example, field


class BatchNormalization(ChannelAxisLayer, AffineNormLayer):
    """Each channel brought to mean 0 and variance 1 over the batch, then scaled and shifted (Keras).

    Input [batch, ..., channels, ...], output the same shape; gamma, beta, moving_mean and moving_variance [channels].
    By default the channels are the last axis of tables and sequences, and that behind the batch of images and volumes.
    In training the batch's own mean and (biased) variance are used, and the moving ones become
    ``moving * momentum + batch's * (1 - momentum)``; otherwise, and where the layer is frozen (``trainable: false``,
    ``freeze``), the moving ones are used. Elements that a mask leaves out do not count in the batch's moments.
    """

    block_word = "bn"
    keeps_positions = True

    positional = ("axis", "momentum", "epsilon", "center", "scale")
    foreign_names = dict.fromkeys(("BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), "BatchNormalization")
    own_fields = frozenset({"batch_statistics", "unbiased_moving_variance", "weighted_sums"})

    axis: int | None = channel_axis_field()
    momentum: float = field(default=0.99, min=0, max=1, doc="Momentum of the moving mean and variance.")
    epsilon: float = field(default=1e-3, min=0, doc="Added to the variance.")
    center: bool = field(default=True, doc="Whether beta is added.")
    scale: bool = field(default=True, doc="Whether gamma multiplies.")
    moving_mean_initializer: Initializer = field(default="zeros", doc="Initializer of the moving mean.")
    moving_variance_initializer: Initializer = field(default="ones", doc="Initializer of the moving variance.")
    batch_statistics: Literal["training", "always", "never"] = field(
        default="training",
        doc="When the batch's own mean and variance are used; else the moving ones are (Caffe's use_global_stats).",
    )
    unbiased_moving_variance: bool = field(
        default=False,
        doc="Whether the moving variance is of the batch's times n / (n - 1), n elements a channel (PyTorch, Caffe).",
    )
    weighted_sums: bool = field(
        default=False,
        doc="Whether moving_mean and moving_variance are sums, ``sum * momentum + batch's``, and a further weight, "
        "moving_weight [1], is the same sum of ones, by which they are divided; 0 / 0 is 0 (Caffe).",
    )

    examples = [
        example("BatchNormalization { }", inputs=[(3, 4, 2)]),
        example("BatchNormalization { momentum: 0.9  epsilon: 1e-5 }", inputs=[(5,)]),
        example("BatchNormalization { axis: 1  scale: false }", inputs=[(4, 3)]),
        example(
            "BatchNormalization { scale: false  momentum: 0.95  epsilon: 0.1  weighted_sums: true }", inputs=[(3, 2)]
        ),
        example("BatchNormalization { scale: false  unbiased_moving_variance: true }", inputs=[(3, 2)]),
        example("BatchNormalization { batch_statistics: always }", inputs=[(2, 3)], batched=False),
        example("BatchNormalization { batch_statistics: never }", inputs=[(2, 3)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, self.batch_statistics != "always", *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = self.canonical_axis(ctx, x, self.channel_axis(x.ndim))
        n = x.shape[axis]
        moving = {
            "moving_mean": ctx.weight("moving_mean", (n,), self.moving_mean_initializer, trainable=False),
            "moving_variance": ctx.weight("moving_variance", (n,), self.moving_variance_initializer, trainable=False),
        }
        if self.weighted_sums:
            moving["moving_weight"] = ctx.weight("moving_weight", (1,), "zeros", trainable=False)
        dtype = moving["moving_mean"].dtype
        gamma, beta = self.scale_param(ctx, "gamma", (n,), dtype), self.scale_param(ctx, "beta", (n,), dtype)
        in_training = ctx.training and ctx.trainable and self.batch_statistics == "training"
        if not in_training and self.batch_statistics != "always":
            mean, variance = self._moving_statistics(moving)
            return ops.batch_norm_inference(x, gamma, beta, mean, variance, eps=self.epsilon, axis=axis)
        mask = ctx.mask(x)
        if mask is None:
            y, mean, variance = ops.batch_norm(x, gamma, beta, eps=self.epsilon, axis=axis)
            count: Any = float(prod(x.shape) // n)
        else:
            mask = ops.broadcast_to(expand_mask(mask, x.ndim), shape=tuple(x.shape))
            mean, variance, count = _masked_moments(x, mask, axis)
            y = ops.batch_norm_inference(x, gamma, beta, mean, variance, eps=self.epsilon, axis=axis)
        for name, old in moving.items():
            new = old * self.momentum + self._added(name, mean, variance, count)
            ctx.update(name, new, always=self.batch_statistics == "always")
        return y

    def _added(self, name: str, mean: Any, variance: Any, count: Any) -> Any:
        """What a step adds to the weight of that name."""
        if name == "moving_weight":
            return 1.0
        value = ops.stop_gradient(mean if name == "moving_mean" else variance)
        if name == "moving_variance" and self.unbiased_moving_variance:
            value = value * _bessel_correction(count)
        return value if self.weighted_sums else value * (1 - self.momentum)

    def _moving_statistics(self, moving: dict[str, Any]) -> tuple[Any, Any]:
        """The mean and the variance that the weights hold."""
        mean, variance = moving["moving_mean"], moving["moving_variance"]
        if not self.weighted_sums:
            return mean, variance
        weight = moving["moving_weight"]
        is_zero = ops.equal(weight, ops.zeros_like(weight))
        factor = ops.where(is_zero, ops.zeros_like(weight), 1.0 / ops.where(is_zero, ops.ones_like(weight), weight))
        return ops.stop_gradient(mean * factor), ops.stop_gradient(variance * factor)


def _bessel_correction(count: Any) -> Any:
    """count / (count - 1), and 1 where the count is not above 1."""
    if isinstance(count, float):
        return count / (count - 1) if count > 1 else 1.0
    return ops.where(ops.greater(count, 1.0), count / ops.maximum(count - 1.0, 1.0), ops.ones_like(count))


def _masked_moments(x: ArrayValue, mask: ArrayValue, axis: int) -> tuple[Any, Any, Any]:
    """Mean, variance and number [channels] of the elements where the mask is True; 0, 0 and 1 where there are none."""
    axes, channels = tuple(i for i in range(x.ndim) if i != axis), (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    x = x if x.dtype == "float64" else ops.cast(x, dtype="float32")
    count = ops.maximum(ops.sum(ops.cast(mask, dtype=x.dtype), axis=axes), 1.0)
    zeros = ops.zeros_like(x)
    mean = ops.sum(ops.where(mask, x, zeros), axis=axes) / count
    deviations = ops.where(mask, x - ops.reshape(mean, shape=channels), zeros)
    return mean, ops.sum(ops.square(deviations), axis=axes) / count, count
