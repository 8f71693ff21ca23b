"""Layers that give the same elements another shape or order."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import transpose_with_mask
from prototorch.schema import Dims, example, field


class Flatten(Layer):
    """All dimensions but the batch's as one (Keras). The elements keep the order in which the dimensions are declared.

    Input [batch, ...], output [batch, product of the rest]: channel, row, column of [batch, channels, rows, columns].
    """

    channel_axis_note = (
        "the elements keep the order of the axes: rows, columns, channels of images with their channels "
        "last, as in Keras; channels, rows, columns of others, as in Caffe and PyTorch"
    )
    follows_layer = True
    moves_elements = True
    keeps_bounds = True
    examples = [example("Flatten { }", inputs=[(2, 3, 4)]), example("Flatten { }", inputs=[()])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.reshape(x, shape=(x.shape[0], prod(x.shape[1:])))


class Reshape(Layer):
    """The same elements, in the same order, in another shape (Keras).

    Input [batch, ...], output [batch, *target_shape]. With another ``axis`` the axes before it stay as they are; with
    ``axis: 0`` none does, and the target shape begins with the number of samples.
    """

    channel_axis_note = "the elements keep their order, `target_shape` says the axes"
    moves_elements = True
    keeps_bounds = True
    own_fields = frozenset({"axis"})
    target_shape: tuple[int, ...] = field(
        type=Dims(unknown=False, infer=True),
        doc="The shape without the batch dimension, or from axis on; one size may be -1.",
    )
    axis: int = field(default=1, min=0, doc="The first axis that is replaced, the batch dimension being 0.")
    examples = [
        example("Reshape { target_shape: [3, 4] }", inputs=[(2, 6)]),
        example("Reshape { target_shape: [-1, 2, 1] }", inputs=[(2, 3)]),
        example("Reshape { target_shape: [-1] }", inputs=[(1, 5)]),
        example("Reshape { target_shape: [3, 2]  axis: 2 }", inputs=[(2, 6)]),
        example("Reshape { target_shape: [-1, 2]  axis: 0 }", inputs=[(2, 2)], batch_axis=False, batched=False),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if self.axis > x.ndim:
            ctx.fail(f"axis {self.axis} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        leading, elements = tuple(x.shape[: self.axis]), prod(x.shape[self.axis :])
        size = prod(n for n in self.target_shape if n != -1)
        fits = size > 0 and elements % size == 0 if -1 in self.target_shape else elements == size
        if not fits:
            ctx.fail(f"{elements} elements do not fit into the shape {list(self.target_shape)}")
        return ops.reshape(x, shape=(*leading, *(elements // size if n == -1 else n for n in self.target_shape)))


class Permute(Layer):
    """The dimensions in another order (Keras). ``dims`` counts from 1, the batch dimension stays where it is.

    Input [batch, n1, n2, ...], output [batch, n_dims[0], n_dims[1], ...]. A mask goes with its axis (Keras' ends here).
    """

    channel_axis_note = "`dims` says the order of the axes"
    moves_elements = True
    mask_policy = "use"
    keeps_bounds = True
    consumes_features = True
    dims: list[int] = field(min=1, doc="The order: for each dimension of the output the number of the input's.")
    examples = [
        example("Permute { dims: [2, 1] }", inputs=[(2, 3)]),
        example("Permute { dims: [3, 1, 2] }", inputs=[(2, 3, 4)]),
    ]

    def check(self) -> None:
        """Each number once."""
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            self.refuse(f"dims holds each of 1 to {len(self.dims)} once, not {list(self.dims)}", "dims")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != len(self.dims) + 1:
            ctx.fail(f"dims orders {len(self.dims)} dimensions, the input has {x.ndim - 1}")
        return transpose_with_mask(ctx, x, (0, *self.dims))


class RepeatVector(Layer):
    """A vector, n times one below the other (Keras). Input [batch, features], output [batch, n, features]."""

    channel_axis_note = "the steps are a new axis 1, as in Keras"
    keeps_bounds = True
    consumes_features = True
    n: int = field(min=1, doc="Number of repetitions.")
    examples = [
        example("RepeatVector { n: 3 }", inputs=[(2,)]),
        example("RepeatVector { n: 1 }", inputs=[(1,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.ndim != 2:
            ctx.fail(f"the input must be one vector per sample, got {x.ndim - 1} dimensions")
        row = ops.reshape(x, shape=(x.shape[0], 1, x.shape[1]))
        return ops.broadcast_to(row, shape=(x.shape[0], self.n, x.shape[1]))
