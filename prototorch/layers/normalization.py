"""Normalization of each sample by itself."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.affine_norm import AffineNormLayer
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer, channel_axis_field
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.reductions import sample_axis
from prototorch.schema import example, field


class LayerNormalization(AffineNormLayer):
    """Each sample brought to mean 0 and variance 1 over an axis (or several), then scaled and shifted (Keras).

    Input and output [batch, ...]; gamma and beta have the shape of those axes. The default is the last axis: the
    features of a sequence [steps, features].
    """

    channel_axis_note = "its field `axis` says it: the last one, as in Keras"
    block_word = "norm"
    foreign_names = {"LayerNorm": "LayerNormalization"}

    axis: list[int] = field(default=-1, doc="The axis or axes, the batch dimension being 0.")
    examples = [
        example("LayerNormalization { }", inputs=[(3, 4)]),
        example("LayerNormalization { axis: [1, 2]  epsilon: 1e-5 }", inputs=[(2, 3)]),
        example("LayerNormalization { axis: 1  center: false }", inputs=[(4, 2, 2)]),
    ]

    def check(self) -> None:
        """There is no mean over no axis."""
        super().check()
        if not self.axis:
            self.refuse("axis names one axis or several, such as -1", "axis")

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, all(a % inputs[0].ndim > 1 for a in self.axis), *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        over = tuple(sorted({self.canonical_axis(ctx, x, a) for a in self.axis}))
        shape = tuple(x.shape[a] for a in over)
        gamma, beta = self.scale_param(ctx, "gamma", shape, x.dtype), self.scale_param(ctx, "beta", shape, x.dtype)
        return ops.layer_norm(x, gamma, beta, axis=over, eps=self.epsilon)


class GroupNormalization(ChannelAxisLayer, AffineNormLayer):
    """The channels of each sample in groups, each group brought to mean 0 and variance 1 (Wu and He, 2018; Keras).

    Input and output [batch, ..., channels] of tables and sequences, [batch, channels, ...] of images and volumes; gamma
    and beta [channels]. ``groups: -1`` puts each channel in a group of its own (instance normalization), ``groups: 1``
    all in one.
    """

    block_word = "norm"
    foreign_names = {"GroupNorm": "GroupNormalization"}
    foreign_fields = {"num_groups": "groups"}

    groups: int = field(default=32, min=-1, doc="The number of groups; -1 for as many as channels.")
    axis: int | None = channel_axis_field()
    examples = [
        example("GroupNormalization { groups: 2 }", inputs=[(3, 4)]),
        example("GroupNormalization { groups: -1  epsilon: 1e-5 }", inputs=[(2, 2, 3)]),
        example("GroupNormalization { groups: 1  axis: -1  scale: false }", inputs=[(2, 3)]),
        example("GroupNormalization { groups: 2  data_format: channels_first }", inputs=[(4, 3)]),
    ]

    def check(self) -> None:
        """There is no group of none."""
        if self.groups == 0:
            self.refuse("groups is at least 1, or -1 for one group a channel, not 0", "groups")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = self.canonical_axis(ctx, x, self.channel_axis(x.ndim))
        n = x.shape[axis]
        groups = n if self.groups == -1 else self.groups
        if n % groups:
            ctx.fail(f"{n} channels do not divide into {groups} groups")
        gamma, beta = self.scale_param(ctx, "gamma", (n,), x.dtype), self.scale_param(ctx, "beta", (n,), x.dtype)
        if axis == 1:
            return ops.group_norm(x, gamma, beta, groups=groups, eps=self.epsilon)
        there = (0, axis, *(i for i in range(1, x.ndim) if i != axis))
        y = ops.group_norm(ops.transpose(x, order=there), gamma, beta, groups=groups, eps=self.epsilon)
        return ops.transpose(y, order=tuple(there.index(i) for i in range(x.ndim)))


class RMSNormalization(Layer):
    """Each sample divided by the root of its mean square over an axis (or several), then scaled (Zhang and Sennrich,
    2019; Keras).

    Input and output [batch, ...]; scale has the shape of those axes. The default is the last axis.
    """

    channel_axis_note = "its field `axis` says it: the last one, as in Keras"
    normalizes = True
    foreign_names = {"RMSNorm": "RMSNormalization"}

    axis: list[int] = field(default=-1, doc="The axis or axes, the batch dimension being 0.")
    epsilon: float = field(default=1e-6, min=0, doc="Added to the mean square.")
    examples = [
        example("RMSNormalization { }", inputs=[(3, 4)]),
        example("RMSNormalization { axis: [1, 2]  epsilon: 1e-5 }", inputs=[(2, 3)]),
    ]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, all(a % inputs[0].ndim > 1 for a in self.axis), *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        over = tuple(sorted({sample_axis(ctx, x, a) for a in self.axis}))
        scale = ctx.weight("scale", tuple(x.shape[a] for a in over), "ones")
        normalized = x * ops.rsqrt(ops.mean(ops.square(x), axis=over, keepdims=True) + self.epsilon)
        return normalized * ops.reshape(scale, shape=tuple(n if i in over else 1 for i, n in enumerate(x.shape))[1:])


class MeanVarianceNormalization(Layer):
    """Each sample brought to mean 0 over some axes, and divided by its standard deviation there (ONNX; Caffe's MVN).

    Input and output [batch, ...]; no weights. Over rows and columns it normalizes each channel of each sample, over all
    axes but the batch's each sample. Epsilon is added to the standard deviation, not to the variance.
    """

    channel_axis_note = "its field `axis` says it"
    normalizes = True
    axis: list[int] = field(doc="The axis or axes, the batch dimension being 0; with 0 over the samples, too.")
    normalize_variance: bool = field(default=True, doc="Whether to divide by the standard deviation.")
    epsilon: float = field(default=1e-9, min=0, doc="Added to the standard deviation.")
    epsilon_in_gradient: bool = field(
        default=True,
        doc="Whether the gradient is the derivative; else that of the formula without epsilon, divided by the standard "
        "deviation with it, which is finite where all elements are equal (Caffe).",
    )
    examples = [
        example("MeanVarianceNormalization { axis: [2, 3] }", inputs=[(2, 3, 2)]),
        example("MeanVarianceNormalization { axis: 1  epsilon: 0.5 }", inputs=[(4,)]),
        example("MeanVarianceNormalization { axis: -1  epsilon_in_gradient: false }", inputs=[(2, 4)]),
        example("MeanVarianceNormalization { axis: 1  normalize_variance: false }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        over = tuple(sorted({sample_axis(ctx, x, a, allows_batch=True) for a in self.axis}))
        deviation = x - ops.mean(x, axis=over, keepdims=True)
        if not self.normalize_variance:
            return deviation
        variance = ops.mean(ops.square(deviation), axis=over, keepdims=True)
        if self.epsilon_in_gradient:
            return deviation / (ops.sqrt(variance) + self.epsilon)
        divisor = ops.stop_gradient(ops.sqrt(variance) + self.epsilon)
        # the divisor as the root of the variance plus a constant: its derivative is that without epsilon
        return deviation / ops.sqrt(variance + (ops.square(divisor) - ops.stop_gradient(variance)))
