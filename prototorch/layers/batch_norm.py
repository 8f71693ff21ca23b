"""Batch normalization."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.affine_norm import AffineNormLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import expand_mask
from prototorch.schema import example, field


class BatchNormalization(AffineNormLayer):
    """Each channel brought to mean 0 and variance 1 over the batch, then scaled and shifted (Keras).

    Input [batch, ..., channels, ...], output the same shape; gamma, beta, moving_mean and moving_variance [channels].
    In training the batch's own mean and (biased) variance are used, and the moving ones become
    ``moving * momentum + batch's * (1 - momentum)``; otherwise, and where the layer is frozen (``trainable: false``,
    ``freeze``), the moving ones are used. Elements that a mask leaves out do not count in the batch's moments.
    """

    positional = ("axis", "momentum", "epsilon", "center", "scale")
    foreign_names = dict.fromkeys(("BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), "BatchNormalization")

    axis: int = field(default=1, doc="The axis of the channels, the batch dimension being 0.")
    momentum: float = field(default=0.99, min=0, max=1, doc="Momentum of the moving mean and variance.")
    epsilon: float = field(default=1e-3, min=0, doc="Added to the variance.")
    center: bool = field(default=True, doc="Whether beta is added.")
    scale: bool = field(default=True, doc="Whether gamma multiplies.")
    moving_mean_initializer: Initializer = field(default="zeros", doc="Initializer of the moving mean.")
    moving_variance_initializer: Initializer = field(default="ones", doc="Initializer of the moving variance.")

    examples = [
        example("BatchNormalization { }", inputs=[(3, 4, 2)]),
        example("BatchNormalization { momentum: 0.9  epsilon: 1e-5 }", inputs=[(5,)]),
        example("BatchNormalization { axis: -1  scale: false }", inputs=[(4, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = self.canonical_axis(ctx, x, self.axis)
        n = x.shape[axis]
        moving_mean = ctx.weight("moving_mean", (n,), self.moving_mean_initializer, trainable=False)
        moving_variance = ctx.weight("moving_variance", (n,), self.moving_variance_initializer, trainable=False)
        gamma, beta = self.scale_param(ctx, "gamma", (n,), x.dtype), self.scale_param(ctx, "beta", (n,), x.dtype)
        if not (ctx.training and ctx.trainable):
            return ops.batch_norm_inference(x, gamma, beta, moving_mean, moving_variance, eps=self.epsilon, axis=axis)
        mask = ctx.mask(x)
        if mask is None:
            y, mean, variance = ops.batch_norm(x, gamma, beta, eps=self.epsilon, axis=axis)
        else:
            mean, variance = _masked_moments(x, expand_mask(mask, x.ndim), axis)
            y = ops.batch_norm_inference(x, gamma, beta, mean, variance, eps=self.epsilon, axis=axis)
        for name, moving, now in (
            ("moving_mean", moving_mean, mean),
            ("moving_variance", moving_variance, variance),
        ):
            ctx.update(name, moving * self.momentum + ops.stop_gradient(now) * (1 - self.momentum))
        return y


def _masked_moments(x: ArrayValue, mask: ArrayValue, axis: int) -> tuple[Any, Any]:
    """Mean and variance [channels] of the elements where the mask is True; 0 where there are none."""
    axes, channels = tuple(i for i in range(x.ndim) if i != axis), (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    x = x if x.dtype == "float64" else ops.cast(x, dtype="float32")
    mask = ops.broadcast_to(mask, shape=tuple(x.shape))
    count = ops.maximum(ops.sum(ops.cast(mask, dtype=x.dtype), axis=axes), 1.0)
    zeros = ops.zeros_like(x)
    mean = ops.sum(ops.where(mask, x, zeros), axis=axes) / count
    deviations = ops.where(mask, x - ops.reshape(mean, shape=channels), zeros)
    return mean, ops.sum(ops.square(deviations), axis=axes) / count
