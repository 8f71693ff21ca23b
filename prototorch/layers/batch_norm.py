"""Batch normalisation."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class BatchNormalization(Layer):
    """Each channel brought to mean 0 and variance 1 over the batch, then scaled and shifted (Keras).

    Input [batch, ..., channels, ...], output the same shape; gamma, beta, moving_mean and moving_variance [channels].
    In training the batch's own mean and (biased) variance are used, and the moving ones become
    ``moving * momentum + batch's * (1 - momentum)``; otherwise, and with ``trainable: false``, the moving ones are used.
    """

    axis: int = field(default=1, doc="The axis of the channels, the batch dimension being 0.")
    momentum: float = field(default=0.99, min=0, max=1, doc="How much of the moving mean and variance a step keeps.")
    epsilon: float = field(default=1e-3, min=0, doc="Added to the variance.")
    center: bool = field(default=True, doc="Whether beta is added.")
    scale: bool = field(default=True, doc="Whether gamma multiplies.")
    beta_initializer: Initializer = field(default="zeros", doc="How beta begins.")
    gamma_initializer: Initializer = field(default="ones", doc="How gamma begins.")
    moving_mean_initializer: Initializer = field(default="zeros", doc="How the moving mean begins.")
    moving_variance_initializer: Initializer = field(default="ones", doc="How the moving variance begins.")
    beta_regularizer: Regularizer | None = field(default=None, doc="A penalty on beta.")
    gamma_regularizer: Regularizer | None = field(default=None, doc="A penalty on gamma.")
    beta_constraint: Constraint | None = field(default=None, doc="A constraint on beta.")
    gamma_constraint: Constraint | None = field(default=None, doc="A constraint on gamma.")

    keeps_mask = True
    examples = [
        example("BatchNormalization { }", inputs=[(3, 4, 2)]),
        example("BatchNormalization { momentum: 0.9  epsilon: 1e-5 }", inputs=[(5,)]),
        example("BatchNormalization { axis: -1  scale: false }", inputs=[(4, 3)]),
    ]

    def call(self, ctx: Context, x: Any) -> Any:
        axis = self.axis + x.ndim if self.axis < 0 else self.axis
        if not 1 <= axis < x.ndim:
            ctx.fail(f"axis {self.axis} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        n = x.shape[axis]
        shape = tuple(n if i == axis else 1 for i in range(x.ndim))
        moving_mean = ctx.weight("moving_mean", (n,), self.moving_mean_initializer, trainable=False)
        moving_variance = ctx.weight("moving_variance", (n,), self.moving_variance_initializer, trainable=False)
        if ctx.training and self.trainable:
            over = tuple(i for i in range(x.ndim) if i != axis)
            mean = ops.mean(x, axis=over, keepdims=True)
            variance = ops.mean(ops.square(x - mean), axis=over, keepdims=True)
            self._moved(ctx, moving_mean, mean, "moving_mean")
            self._moved(ctx, moving_variance, variance, "moving_variance")
        else:
            mean, variance = ops.reshape(moving_mean, shape=shape), ops.reshape(moving_variance, shape=shape)
        y = (x - mean) * ops.rsqrt(variance + self.epsilon)
        if self.scale:
            gamma = ctx.weight("gamma", (n,), self.gamma_initializer, regularizer=self.gamma_regularizer,
                               constraint=self.gamma_constraint)  # fmt: skip
            y = y * ops.reshape(gamma, shape=shape)
        if self.center:
            beta = ctx.weight("beta", (n,), self.beta_initializer, regularizer=self.beta_regularizer,
                              constraint=self.beta_constraint)  # fmt: skip
            y = y + ops.reshape(beta, shape=shape)
        return y

    def _moved(self, ctx: Context, moving: Any, now: Any, name: str) -> None:
        now = ops.stop_gradient(ops.reshape(now, shape=tuple(moving.shape)))
        ctx.update(name, moving * self.momentum + now * (1 - self.momentum))
