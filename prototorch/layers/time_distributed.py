"""One layer on every step."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.schema import example, field


class TimeDistributed(Layer):
    """Another layer on every step (Keras): ``TimeDistributed { Dense { units: 4 } }``.

    Input [batch, time, ...], output [batch, time, ...]: the steps are taken as samples of one large batch. The weights
    are those of the layer inside, with ``layer/`` in front.
    """

    channel_axis_note = "the steps are axis 1, as in Keras; the layer inside follows"
    layer: Layer = field(children=True, doc="The layer for each step.")

    inputs = (1, None)
    mask_policy = "use"
    consumes_features = True
    examples = [
        example("TimeDistributed { Dense { units: 4 } }", inputs=[(5, 3)]),
        example("TimeDistributed { Flatten { } }", inputs=[(4, 2, 3)]),
    ]

    def output_count(self) -> int:
        return self.layer.output_count()

    def index_count(self) -> int | None:
        return self.layer.index_count()

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, True, *inputs)
        return self.record(ctx.layer_context, *inputs)

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        for x in inputs:
            if x.ndim < 3:
                ctx.fail("the input must have a time axis and elements at each step")
            if x.shape[1] != inputs[0].shape[1]:
                ctx.fail(f"its inputs have {inputs[0].shape[1]} and {x.shape[1]} steps")
        batch, time = inputs[0].shape[:2]
        flat = [ops.reshape(x, shape=(batch * time, *x.shape[2:])) for x in inputs]
        masks = [ctx.mask(x) for x in inputs]
        for y, mask in zip(flat, masks, strict=True):
            if mask is not None and (mask.ndim > 2 or self.layer.mask_policy != "end"):
                whole = ops.broadcast_to(mask, shape=(batch, time, *mask.shape[2:]))
                ctx.set_mask(y, ops.reshape(whole, shape=(batch * time, *mask.shape[2:])))
        result = ctx.sublayer("layer", self.layer, *flat)
        outputs = result if isinstance(result, tuple) else (result,)
        unfolded = tuple(ops.reshape(y, shape=(batch, time, *y.shape[1:])) for y in outputs)
        for y, part in zip(unfolded, outputs, strict=True):
            ctx.set_mask(y, _unfolded_mask(masks[0], ctx.mask(part), batch, time))
        return unfolded if isinstance(result, tuple) else unfolded[0]


def _unfolded_mask(mask: Any | None, inner: Any | None, batch: int, time: int) -> Any | None:
    """The mask of an output: that of the layer inside where it has one within a step, else that of the steps."""
    if inner is not None and inner.ndim > 1:
        return ops.reshape(inner, shape=(batch, time, *inner.shape[1:]))
    return mask if mask is None or mask.ndim == 2 else ops.any(mask, axis=tuple(range(2, mask.ndim)))
