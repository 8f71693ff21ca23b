"""Values that are drawn: latent vectors of a variational autoencoder, and noise as the source of a generator."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.random_layer import RandomLayer
from prototorch.schema import Dims, example, field


class Sampling(RandomLayer):
    """A sample of a normal distribution with a diagonal covariance, ``mean + exp(log_var / 2) * noise``: the
    reparameterization of a variational autoencoder (Kingma and Welling, 2014).

    Two inputs of one shape [batch, ...], the means and the logarithms of the variances; output of that shape. The noise
    is standard normal, drawn in each step by the seed. Outside training it gives the means, or with ``always:
    true`` samples as in training. `NormalKLDivergence` gives the other term of the loss.
    """

    inputs = 2
    mask_policy = "keep"
    keeps_positions = True
    is_identity_outside_training = False
    always: bool = field(default=False, doc="Whether it draws samples in evaluation and prediction, too.")
    examples = [
        example("Sampling { }", inputs=[(3,), (3,)]),
        example("Sampling { always: true  seed: 2 }", inputs=[(2, 3), (2, 3)], batched=False),
    ]

    def call(self, ctx: Context, mean: ArrayValue, log_var: ArrayValue) -> Any:
        _check_shapes(ctx, mean, log_var)
        if not ctx.training and not self.always:
            return mean
        noise = ops.random_normal(ctx.key(), site=self.random_site(ctx), shape=tuple(mean.shape), dtype=mean.dtype)
        return mean + ops.exp(log_var * 0.5) * noise


class NormalKLDivergence(Layer):
    """The Kullback-Leibler divergence of a normal distribution with a diagonal covariance from the standard normal
    one, ``(exp(log_var) + mean^2 - 1 - log_var) / 2``, added up over all elements of a sample.

    Two inputs of one shape [batch, ...], the means and the logarithms of the variances; output [batch], of at least 0.
    Beside a reconstruction loss it is the loss of a variational autoencoder: ``loss { output: "kl"  type: mean }``.
    (Kingma and Welling, 2014.)
    """

    inputs = 2
    consumes_features = True
    channel_axis_note = "all elements of a sample are added up"
    examples = [
        example("NormalKLDivergence { }", inputs=[(3,), (3,)]),
        example("NormalKLDivergence { }", inputs=[(2, 2), (2, 2)]),
    ]

    def call(self, ctx: Context, mean: ArrayValue, log_var: ArrayValue) -> Any:
        _check_shapes(ctx, mean, log_var)
        values = (ops.exp(log_var) + ops.square(mean) - 1.0 - log_var) * 0.5
        return values if values.ndim == 1 else ops.sum(values, axis=tuple(range(1, values.ndim)))


class Noise(RandomLayer):
    """Random numbers, drawn anew in each step and for each sample: the source of a generator, which no data give.

    Input [batch, ...], of which only the number of samples counts; output [batch, *shape]. It draws in evaluation and
    prediction as well, where the numbers differ by batch; which ones they are depends on the model's seed.
    """

    is_identity_outside_training = False
    channel_axis_note = "its field `shape` says the axes"
    shape: tuple[int, ...] = field(type=Dims(unknown=False, min=1), doc="The shape of the noise of one sample.")
    distribution: Literal["normal", "uniform"] = field(
        default="normal", doc="Standard normal numbers, or uniform ones from 0 to 1."
    )
    examples = [
        example("Noise { shape: [3] }", inputs=[(4,)], gradient=False, batched=False),
        example("Noise { shape: [2, 3]  distribution: uniform }", inputs=[(1,)], gradient=False, batched=False),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        draw = ops.random_normal if self.distribution == "normal" else ops.random_uniform
        dtype = x.dtype if x.dtype.startswith("float") else "float32"
        return draw(ctx.key(), site=self.random_site(ctx), shape=(x.shape[0], *self.shape), dtype=dtype)


def _check_shapes(ctx: Context, mean: ArrayValue, log_var: ArrayValue) -> None:
    if tuple(mean.shape) != tuple(log_var.shape):
        ctx.fail(
            f"its inputs are the means {list(mean.shape[1:])} and the logarithms of the variances "
            f"{list(log_var.shape[1:])}, which must have one shape"
        )
