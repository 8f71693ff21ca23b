"""Both ways through a sequence."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import expand_mask, steps_mask
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.layers.rnn import RNN
from prototorch.schema import example, field


class Bidirectional(Layer):
    """A recurrent layer and a second one that goes the other way (Schuster and Paliwal, 1997; Keras):
    ``Bidirectional { merge_mode: concat  LSTM { units: 8 } }``.

    Their outputs are merged step by step, or are two outputs (``merge_mode: none``); states follow, the forward
    layer's first. First states are further inputs in the same order. The outputs of steps that a mask leaves out are
    0. The weights are those of the two layers, with ``forward_layer/`` and ``backward_layer/`` in front.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    keyword_only = ("backward_layer",)
    layer: Layer = field(children=True, doc="The recurrent layer; another like it goes the other way.")
    merge_mode: Literal["concat", "sum", "mul", "ave"] | None = field(
        default="concat", doc="How the two outputs become one; none gives both."
    )
    backward_layer: Layer | None = field(default=None, doc="The layer that goes the other way, where it differs.")

    inputs = (1, None)
    mask_policy = "use"
    consumes_features = True
    examples = [
        example("Bidirectional { LSTM { units: 2 } }", inputs=[(3, 2)]),
        example("Bidirectional { merge_mode: sum  GRU { units: 2  return_sequences: true } }", inputs=[(3, 2)],
                mask=(3, 1, 2)),
        example("Bidirectional { merge_mode: none  SimpleRNN { units: 2  return_state: true } }",
                inputs=[(3, 2), (2,), (2,)]),
        example("Bidirectional { merge_mode: ave  LSTM { units: 2 }  backward_layer: LSTM { units: 2  use_bias: false"
                "  go_backwards: true } }", inputs=[(3, 2)]),
        example("Bidirectional { RNN { return_sequences: true  LSTMCell { units: 2 }  GRUCell { units: 2 } } }",
                inputs=[(3, 2)], mask=(3, 1, 2)),
        example("Bidirectional { merge_mode: mul  GRU { units: 2  return_sequences: true  return_state: true } }",
                inputs=[(3, 2)]),
    ]  # fmt: skip

    def check(self) -> None:
        for name, layer in (("layer", self.layer), ("backward_layer", self.backward_layer)):
            if layer is not None and not isinstance(layer, RecurrentLayer | RNN):
                names = ", ".join((*RecurrentLayer.members(), RNN.__name__))
                self.refuse(f"the layer inside must be a recurrent layer ({names}), not {type(layer).__name__}", name)
        forward, backward = self.directions()
        if forward.go_backwards == backward.go_backwards:
            self.refuse("the two layers must go opposite ways: set go_backwards on one of them", "backward_layer")
        for name in ("return_sequences", "return_state"):
            if getattr(forward, name) != getattr(backward, name):
                self.refuse(f"the two layers differ in {name}", "backward_layer")

    def directions(self) -> tuple[Any, Any]:
        """The layer, and the one that goes the other way."""
        forward: Any = self.layer
        return forward, self.backward_layer or forward.replace(name=None, go_backwards=not forward.go_backwards)

    def output_count(self) -> int:
        forward, backward = self.directions()
        return forward.output_count() + backward.output_count() - (self.merge_mode is not None)

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        forward, backward = self.directions()
        if len(first) not in (0, forward.states + backward.states):
            ctx.fail(f"it takes {forward.states + backward.states} first states, not {len(first)}")
        split = forward.states if first else 0
        a, *after_a = _as_list(ctx.sublayer("forward_layer", forward, x, *first[:split]))
        b, *after_b = _as_list(ctx.sublayer("backward_layer", backward, x, *first[split:]))
        mask = None
        if forward.return_sequences:
            a, b = (ops.flip(y, axis=1) if layer.go_backwards else y for y, layer in ((a, forward), (b, backward)))
            mask = steps_mask(ctx, x)
            if mask is not None:
                a, b = (ops.where(expand_mask(mask, y.ndim), y, ops.zeros_like(y)) for y in (a, b))
        outputs = self._merge(ctx, a, b)
        for y in outputs:
            ctx.set_mask(y, mask)
        results = (*outputs, *after_a, *after_b)
        return results if len(results) > 1 else results[0]

    def _merge(self, ctx: Context, a: ArrayValue, b: ArrayValue) -> tuple[Any, ...]:
        if self.merge_mode is None:
            return a, b
        if self.merge_mode == "concat":
            return (ops.concat(a, b, axis=a.ndim - 1),)
        if a.shape != b.shape:
            ctx.fail(f"outputs {list(a.shape[1:])} and {list(b.shape[1:])} cannot be merged by {self.merge_mode}")
        if self.merge_mode == "mul":
            return (a * b,)
        return ((a + b) * 0.5,) if self.merge_mode == "ave" else (a + b,)


def _as_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]
