"""The base of recurrent layers: input projection, dropout, masks, initial and final states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer, MaskPolicy
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import steps_mask
from prototorch.ops.recurrent import GATE_ACTIVATIONS
from prototorch.regularizers import Regularizer
from prototorch.schema import field
from prototorch.text.case_conversion import snake_case


class RecurrentLayer(Layer, abstract=True):
    """A recurrent layer over [batch, time, n]; further inputs are the first states, each [batch, units] (zeros else).

    A step that the input's mask leaves out keeps the state; before the first step that counts the output is 0 (Keras).
    With ``go_backwards`` the last step comes first, in the output too. Dropout takes one draw for all steps of a sample
    (Gal and Ghahramani, 2016).
    """

    mask_policy: ClassVar[MaskPolicy] = "use"
    foreign_fields = {**dict.fromkeys(("hidden_size", "num_output"), "units"), "bias": "use_bias"}

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1

    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the input weights.")
    recurrent_initializer: Initializer = field(default="orthogonal", doc="Initializer of the recurrent weights.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the input weights.")
    recurrent_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the recurrent weights.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the bias.")
    kernel_constraint: Constraint | None = field(default=None, doc="Constraint on the input weights.")
    recurrent_constraint: Constraint | None = field(default=None, doc="Constraint on the recurrent weights.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on the bias.")
    dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of input features dropped in training.")
    recurrent_dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of state features dropped in training.")
    return_sequences: bool = field(
        default=False, doc="Whether to give the output of every step, not of the last alone."
    )
    return_state: bool = field(default=False, doc="Whether to give the last states as further outputs.")
    go_backwards: bool = field(default=False, doc="Whether to go from the last step to the first.")

    # declared again by every subclass, so that they come first
    units: Any
    activation: Any
    use_bias: Any

    def output_count(self) -> int:
        return 1 + self.states * self.return_state

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        if x.ndim != 3:
            ctx.fail("the input must be [time, n] (a Reshape before it makes a sequence)")
        if len(first) not in (0, self.states):
            ctx.fail(f"it takes {self.states} first state{'s' * (self.states > 1)}, not {len(first)}")
        batch, time, n = x.shape
        for state in first:
            if tuple(state.shape) != (batch, self.units):
                ctx.fail(f"a first state must have the shape [{self.units}], not {list(state.shape[1:])}")
        if time < 1:
            ctx.fail("the input must have at least one step")
        mask = steps_mask(ctx, x)
        if self.dropout and ctx.training:
            x = ops.dropout(x, ctx.key(), rate=self.dropout, site=ctx.site(), noise_shape=(batch, 1, n))
        wide = self.gates * self.units
        kernel = ctx.weight("kernel", (n, wide), self.kernel_initializer,
                            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)  # fmt: skip
        recurrent = ctx.weight("recurrent_kernel", (self.units, wide), self.recurrent_initializer,
                               regularizer=self.recurrent_regularizer,
                               constraint=self.recurrent_constraint)  # fmt: skip
        projection = ops.matmul(ops.reshape(x, shape=(batch * time, n)), kernel)
        bias, inner = self.biases(ctx)
        if bias is not None:
            projection = projection + bias
        projection = ops.reshape(projection, shape=(batch, time, wide))
        states = list(first) or [ops.full(shape=(batch, self.units), value=0.0, dtype=x.dtype)] * self.states
        sequence, *last = self._run(ctx, projection, recurrent, inner, states, mask)
        y = sequence if self.return_sequences else last[0]
        if mask is not None and first:
            y = self._zeros_before_first_step(y, mask)
        if self.return_sequences and mask is not None:
            ctx.set_mask(y, ops.flip(mask, axis=1) if self.go_backwards else mask)
        return (y, *last) if self.return_state else y

    def _zeros_before_first_step(self, y: ArrayValue, mask: ArrayValue) -> Any:
        """y with zeros where no step has counted yet, as in Keras, not the first state."""
        if self.return_sequences:
            steps = ops.flip(mask, axis=1) if self.go_backwards else mask
            begun = ops.expand_dims(ops.greater(ops.cumsum(ops.cast(steps, dtype=y.dtype), axis=1), 0.5), -1)
        else:
            begun = ops.any(mask, axis=1, keepdims=True)
        return ops.where(begun, y, ops.zeros_like(y))

    def biases(self, ctx: Context) -> tuple[Any, Any]:
        """The bias of the input's projection, and that of the state's; None for none."""
        if not self.use_bias:
            return None, None
        return self.bias(ctx, (self.gates * self.units,)), None

    def bias(self, ctx: Context, shape: tuple[int, ...], initializer: Initializer | None = None) -> Any:
        """The weight ``bias``."""
        return ctx.weight("bias", shape, initializer or self.bias_initializer,
                          regularizer=self.bias_regularizer, constraint=self.bias_constraint)  # fmt: skip

    def sequence(
        self, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        """The op over the whole sequence: the output of every step, and the last states."""
        raise TypeError(f"{type(self).__name__} does not define sequence")

    def step(self, ctx: Context, x: ArrayValue, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        """One step in single ops: the new states. ``product(state, gate)`` is the state's part of a gate."""
        raise TypeError(f"{type(self).__name__} does not define step")

    def _run(self, ctx: Context, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: list[Any], mask: Any) -> Any:
        drops = bool(self.recurrent_dropout) and ctx.training
        names = {
            n: fused_activation_name(getattr(self, n))
            for n in ("activation", "recurrent_activation")
            if hasattr(self, n)
        }
        if drops or None in names.values():
            return self._unroll(ctx, x, recurrent, inner, states, mask, drops)
        masks = () if mask is None else (mask,)
        return self.sequence(x, recurrent, inner, states, masks, masked=mask is not None,
                             reverse=self.go_backwards, **names)  # fmt: skip

    def _unroll(
        self, ctx: Context, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: list[Any], mask: Any, drops: bool
    ) -> Any:
        parts = ops.split(recurrent, self.gates, axis=1)
        masks = [self._state_dropout(ctx, states[0]) for _ in parts] if drops else None

        def product(state: ArrayValue, gate: int) -> Any:
            return ops.matmul(state if masks is None else state * masks[gate], parts[gate])

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

    def _state_dropout(self, ctx: Context, like: ArrayValue) -> Any:
        ones = ops.full(shape=tuple(like.shape), value=1.0, dtype=like.dtype)
        return ops.dropout(ones, ctx.key(), rate=self.recurrent_dropout, site=ctx.site())


def fused_activation_name(layer: ActivationLayer) -> str | None:
    """The name of an activation that the sequence ops support, None for any other."""
    name = snake_case(type(layer).__name__)
    return name if name in GATE_ACTIVATIONS and layer == type(layer)() else None
