"""What the recurrent layers share: projecting the input, dropout, masks, states in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.ops.recurrent import GATE_ACTIVATIONS
from prototorch.regularizers import Regularizer
from prototorch.schema import field
from prototorch.text.case_conversion import snake_case


class RecurrentLayer(Layer, abstract=True):
    """A recurrent layer over [batch, time, n]; further inputs are the first states, each [batch, units] (zeros else).

    A step that the input's mask leaves out keeps the state. With ``go_backwards`` the last step comes first, in the
    output too. Dropout takes one draw for all steps of a sample (Gal and Ghahramani, 2016).
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1

    kernel_initializer: Initializer = field(default="glorot_uniform", doc="How the input's weights begin.")
    recurrent_initializer: Initializer = field(default="orthogonal", doc="How the state's weights begin.")
    bias_initializer: Initializer = field(default="zeros", doc="How the bias begins.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="A penalty on the input's weights.")
    recurrent_regularizer: Regularizer | None = field(default=None, doc="A penalty on the state's weights.")
    bias_regularizer: Regularizer | None = field(default=None, doc="A penalty on the bias.")
    kernel_constraint: Constraint | None = field(default=None, doc="A constraint on the input's weights.")
    recurrent_constraint: Constraint | None = field(default=None, doc="A constraint on the state's weights.")
    bias_constraint: Constraint | None = field(default=None, doc="A constraint on the bias.")
    dropout: float = field(default=0.0, min=0, below=1, doc="The share of input features dropped in training.")
    recurrent_dropout: float = field(
        default=0.0, min=0, below=1, doc="The share of state features dropped in training."
    )
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

    def call(self, ctx: Context, x: Any, *first: Any) -> Any:
        if x.ndim != 3:
            ctx.fail("it wants an input [time, n]")
        if len(first) not in (0, self.states):
            ctx.fail(f"it takes {self.states} first state{'s' * (self.states > 1)}, not {len(first)}")
        batch, time, n = x.shape
        for state in first:
            if tuple(state.shape) != (batch, self.units):
                ctx.fail(f"a first state must have the shape [{self.units}], not {list(state.shape[1:])}")
        if time < 1:
            ctx.fail("it wants at least one step")
        if self.dropout and ctx.training:
            x = ops.dropout(x, ctx.key(), rate=self.dropout, site=ctx.site(), noise_shape=(batch, 1, n))
        wide = self.gates * self.units
        kernel = ctx.weight("kernel", (n, wide), self.kernel_initializer,
                            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)  # fmt: skip
        recurrent = ctx.weight("recurrent_kernel", (self.units, wide), self.recurrent_initializer,
                               regularizer=self.recurrent_regularizer,
                               constraint=self.recurrent_constraint)  # fmt: skip
        projected = ops.matmul(ops.reshape(x, shape=(batch * time, n)), kernel)
        bias, inner = self.biases(ctx)
        if bias is not None:
            projected = projected + bias
        projected = ops.reshape(projected, shape=(batch, time, wide))
        states = list(first) or [ops.full(shape=(batch, self.units), value=0.0, dtype=x.dtype)] * self.states
        whole, *last = self._run(ctx, projected, recurrent, inner, states, ctx.mask(x))
        y = whole if self.return_sequences else last[0]
        if self.return_sequences and ctx.mask(x) is not None:
            ctx.set_mask(y, ops.flip(ctx.mask(x), axis=1) if self.go_backwards else ctx.mask(x))
        return (y, *last) if self.return_state else y

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
        self, x: Any, recurrent: Any, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        """The op over the whole sequence: the output of every step, and the last states."""
        raise TypeError(f"{type(self).__name__} does not define sequence")

    def step(self, ctx: Context, x: Any, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        """One step in single ops: the new states. ``product(state, gate)`` is the state's part of a gate."""
        raise TypeError(f"{type(self).__name__} does not define step")

    def _run(self, ctx: Context, x: Any, recurrent: Any, inner: Any, states: list[Any], mask: Any) -> Any:
        drops = bool(self.recurrent_dropout) and ctx.training
        names = {
            n: fused_activation_name(getattr(self, n))
            for n in ("activation", "recurrent_activation")
            if hasattr(self, n)
        }
        if drops or None in names.values():
            return self._unrolled(ctx, x, recurrent, inner, states, mask, drops)
        masks = () if mask is None else (mask,)
        return self.sequence(x, recurrent, inner, states, masks, masked=mask is not None,
                             reverse=self.go_backwards, **names)  # fmt: skip

    def _unrolled(
        self, ctx: Context, x: Any, recurrent: Any, inner: Any, states: list[Any], mask: Any, drops: bool
    ) -> Any:
        parts = ops.split(recurrent, self.gates, axis=1)
        kept = [self._dropped(ctx, states[0]) for _ in parts] if drops else None

        def product(state: Any, gate: int) -> Any:
            return ops.matmul(state if kept is None else state * kept[gate], parts[gate])

        made = []
        steps = range(x.shape[1])
        for t in reversed(steps) if self.go_backwards else steps:
            new = self.step(ctx, x[:, t], product, inner, states)
            if mask is not None:
                keep = mask[:, t : t + 1]
                new = [ops.where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = new
            made.append(states[0])
        return (ops.stack(made, axis=1), *states)

    def _dropped(self, ctx: Context, like: Any) -> Any:
        ones = ops.full(shape=tuple(like.shape), value=1.0, dtype=like.dtype)
        return ops.dropout(ones, ctx.key(), rate=self.recurrent_dropout, site=ctx.site())


def fused_activation_name(layer: ActivationLayer) -> str | None:
    """The name by which the sequence ops know an activation, None for one they do not know."""
    name = snake_case(type(layer).__name__)
    return name if name in GATE_ACTIVATIONS and layer == type(layer)() else None
