"""The base of recurrent layers: input projection, dropout, masks, initial and final states."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.gated_unit import GatedUnit
from prototorch.layers.mask_shapes import steps_mask
from prototorch.ops.recurrent import GATE_ACTIVATIONS
from prototorch.schema import field
from prototorch.text.case_conversion import snake_case


class RecurrentLayer(GatedUnit, abstract=True):
    """A recurrent layer over [batch, time, n]; further inputs are the first states, each [batch, units] (zeros else).

    A step that the input's mask leaves out keeps the state; before the first step that counts the output is 0 (Keras).
    With ``go_backwards`` the last step comes first, in the output too.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    return_sequences: bool = field(
        default=False, doc="Whether to give the output of every step, not of the last alone."
    )
    return_state: bool = field(default=False, doc="Whether to give the last states as further outputs.")
    go_backwards: bool = field(default=False, doc="Whether to go from the last step to the first.")

    def output_count(self) -> int:
        return 1 + self.states * self.return_state

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        if x.ndim != 3:
            ctx.fail("the input must be [time, n] (a Reshape before it makes a sequence)")
        states, mask = self.first_states(ctx, x, first), steps_mask(ctx, x)
        sequence, *last = self._run_sequence(ctx, x, states, mask)
        y = sequence if self.return_sequences else last[0]
        if mask is not None and first:
            y = self._zeros_before_first_step(y, mask)
        if self.return_sequences and mask is not None:
            ctx.set_mask(y, ops.flip(mask, axis=1) if self.go_backwards else mask)
        return (y, *last) if self.return_state else y

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        x, *first = inputs
        is_possible = self.return_sequences and not self.return_state and not self.go_backwards and x.ndim == 3
        self.check_independent_steps(ctx, is_possible and not any(map(ctx.is_stream, first)), x)
        states = [ctx.state(f"state{i}", s) for i, s in enumerate(self.first_states(ctx, x, tuple(first)))]
        mask = steps_mask(ctx, x)
        count_mask = ctx.given_steps if mask is None else ops.logical_and(ctx.given_steps, mask)
        sequence, *last = self._run_sequence(ctx, x, states, count_mask)
        for i, state in enumerate(last):
            ctx.set_state(f"state{i}", state)
        if mask is None:
            return sequence
        if first:
            had_begun = ctx.state("begun", ops.full(shape=(x.shape[0],), value=False, dtype="bool"))
            has_begun = ops.greater(ops.cumsum(ops.cast(count_mask, dtype="int32"), axis=1), 0)
            has_begun = ops.logical_or(has_begun, ops.expand_dims(had_begun, 1))
            ctx.set_state("begun", ops.any(has_begun, axis=1))
            sequence = ops.where(ops.expand_dims(has_begun, -1), sequence, ops.zeros_like(sequence))
        ctx.set_mask(sequence, mask)
        return sequence

    def _run_sequence(self, ctx: Context, x: ArrayValue, states: list[Any], mask: Any | None) -> Any:
        """The outputs of all steps and the last states."""
        batch, time, n = x.shape
        if time < 1:
            ctx.fail("the input must have at least one step")
        if self.dropout and ctx.training:
            x = ops.dropout(x, ctx.key(), rate=self.dropout, site=ctx.site(), noise_shape=(batch, 1, n))
        kernel, recurrent = self.kernels(ctx, n)
        projection = ops.matmul(ops.reshape(x, shape=(batch * time, n)), kernel)
        bias, inner = self.biases(ctx)
        if bias is not None:
            projection = projection + bias
        projection = ops.reshape(projection, shape=(batch, time, projection.shape[1]))
        return self._run(ctx, projection, recurrent, inner, states, mask)

    def _zeros_before_first_step(self, y: ArrayValue, mask: ArrayValue) -> Any:
        """y with zeros where no step has count_mask yet, as in Keras, not the first state."""
        if self.return_sequences:
            steps = ops.flip(mask, axis=1) if self.go_backwards else mask
            has_begun = ops.expand_dims(ops.greater(ops.cumsum(ops.cast(steps, dtype=y.dtype), axis=1), 0.5), -1)
        else:
            has_begun = ops.any(mask, axis=1, keepdims=True)
        return ops.where(has_begun, y, ops.zeros_like(y))

    def _run(self, ctx: Context, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: list[Any], mask: Any) -> Any:
        drops = bool(self.recurrent_dropout) and ctx.training
        names = {
            n: fused_activation_name(getattr(self, n))
            for n in ("activation", "recurrent_activation")
            if hasattr(self, n)
        }
        if drops or None in names.values():
            return self._unroll(ctx, x, recurrent, inner, states, mask)
        masks = () if mask is None else (mask,)
        return self.sequence(
            x, recurrent, inner, states, masks, masked=mask is not None, reverse=self.go_backwards, **names
        )

    def _unroll(
        self, ctx: Context, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: list[Any], mask: Any
    ) -> Any:
        product = self.state_product(ctx, recurrent, states[0])
        outputs = []
        steps = range(x.shape[1])
        for t in reversed(steps) if self.go_backwards else steps:
            new = self.step(ctx, x[:, t], product, inner, states)
            if mask is not None:
                keep = mask[:, t : t + 1]
                new = [ops.where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = new
            outputs.append(states[0])
        return (ops.stack(outputs, axis=1), *states)


def fused_activation_name(layer: ActivationLayer) -> str | None:
    """The name of an activation that the sequence ops support, None for any other."""
    name = snake_case(type(layer).__name__)
    return name if name in GATE_ACTIVATIONS and layer == type(layer)() else None
