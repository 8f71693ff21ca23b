"""What a recurrent layer and its cell have in common: weights, gates, one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer, MaskPolicy
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import field


class RecurrentWeights(Layer, abstract=True):
    """The fields of everything that has input and recurrent weights. Dropout takes one draw for all steps of a sample
    (Gal and Ghahramani, 2016)."""

    consumes_features: ClassVar[bool] = True

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

    def bias(self, ctx: Context, shape: tuple[int, ...], initializer: Initializer | None = None) -> Any:
        """The weight ``bias``."""
        return ctx.weight(
            "bias",
            shape,
            initializer or self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def weight_pair(self, ctx: Context, kernel: tuple[int, ...], recurrent: tuple[int, ...]) -> tuple[Any, Any]:
        """The weights ``kernel`` and ``recurrent_kernel`` of these shapes."""
        return (
            ctx.weight(
                "kernel",
                kernel,
                self.kernel_initializer,
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            ),
            ctx.weight(
                "recurrent_kernel",
                recurrent,
                self.recurrent_initializer,
                regularizer=self.recurrent_regularizer,
                constraint=self.recurrent_constraint,
            ),
        )

    def state_dropout(self, ctx: Context, like: ArrayValue) -> Any:
        """Factors of a state, of its shape."""
        ones = ops.full(shape=tuple(like.shape), value=1.0, dtype=like.dtype)
        return ops.dropout(ones, ctx.key(), rate=self.recurrent_dropout, site=ctx.site())


class GatedUnit(RecurrentWeights, abstract=True):
    """The base of a recurrent layer and of its cell."""

    mask_policy: ClassVar[MaskPolicy] = "use"
    foreign_fields = {**dict.fromkeys(("hidden_size", "num_output"), "units"), "bias": "use_bias"}

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1

    # declared again by every subclass, so that they come first
    units: Any
    activation: Any
    use_bias: Any

    def kernels(self, ctx: Context, features: int) -> tuple[Any, Any]:
        """The weights ``kernel`` [features, gates * units] and ``recurrent_kernel`` [units, gates * units]."""
        wide = self.gates * self.units
        return self.weight_pair(ctx, (features, wide), (self.units, wide))

    def first_states(self, ctx: Context, x: ArrayValue, first: Sequence[ArrayValue]) -> list[Any]:
        """The first states, each [batch, units]: those that are given, else zeros. Raises ShapeError."""
        if len(first) not in (0, self.states):
            ctx.fail(f"it takes {self.states} first state{'s' * (self.states > 1)}, not {len(first)}")
        for state in first:
            if tuple(state.shape) != (x.shape[0], self.units):
                ctx.fail(f"a first state must have the shape [{self.units}], not {list(state.shape[1:])}")
        return list(first) or [ops.full(shape=(x.shape[0], self.units), value=0.0, dtype=x.dtype)] * self.states

    def biases(self, ctx: Context) -> tuple[Any, Any]:
        """The bias of the input's projection, and that of the state's; None for none."""
        if not self.use_bias:
            return None, None
        return self.bias(ctx, (self.gates * self.units,)), None

    def sequence(
        self, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        """The op over the whole sequence: the output of every step, and the last states."""
        raise TypeError(f"{type(self).__name__} does not define sequence")

    def step(self, ctx: Context, x: ArrayValue, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        """One step in single ops: the new states. ``product(state, gate)`` is the state's part of a gate."""
        raise TypeError(f"{type(self).__name__} does not define step")

    def state_product(self, ctx: Context, recurrent: ArrayValue, like: ArrayValue) -> Any:
        """A function ``product(state, gate)``: the state's part of a gate; in training with the dropout of states."""
        parts = ops.split(recurrent, self.gates, axis=1)
        drops = bool(self.recurrent_dropout) and ctx.training
        masks = [self.state_dropout(ctx, like) for _ in parts] if drops else None

        def product(state: ArrayValue, gate: int) -> Any:
            return ops.matmul(state if masks is None else state * masks[gate], parts[gate])

        return product
