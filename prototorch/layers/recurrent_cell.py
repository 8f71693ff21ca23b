"""Cells: one step of a recurrent layer."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.gated_unit import GatedUnit
from prototorch.layers.recurrent import RecurrentLayer

_SEQUENCE_FIELDS = frozenset({"return_sequences", "return_state", "go_backwards"})


class RecurrentCell(Layer, abstract=True):
    """One step of a recurrent layer, which `RNN` runs over a sequence.

    Inputs x [batch, ...] and the states (zeros if none is given); outputs the output, then the new states. A cell of
    your own defines `state_shapes` and `call`.
    """

    channel_axis_note = "it reads one step [batch, features], as in Keras"
    inputs: ClassVar[int | tuple[int, int | None]] = (1, None)

    def state_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the states, without the batch dimension."""
        raise TypeError(f"{type(self).__name__} does not define state_shapes")

    def output_count(self) -> int:
        return 1 + len(self.state_shapes())

    def sequence_layer(self, return_sequences: bool, return_state: bool, go_backwards: bool) -> Layer | None:
        """The layer that runs this cell over all steps of a sequence at once; None where there is none."""
        return None


class GatedCell(GatedUnit, RecurrentCell, abstract=True):
    """The cell of a recurrent layer of ours."""

    mask_policy = "end"
    layer_class: ClassVar[type[RecurrentLayer]]

    def state_shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.units,),) * self.states

    def sequence_layer(self, return_sequences: bool, return_state: bool, go_backwards: bool) -> Layer:
        fields = {n: getattr(self, n) for n in self.layer_class.specs() if n not in _SEQUENCE_FIELDS}
        return self.layer_class(
            **fields, return_sequences=return_sequences, return_state=return_state, go_backwards=go_backwards
        )

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        if x.ndim != 2:
            ctx.fail(
                f"a cell reads one step [n], not {list(x.shape[1:])}; RNN {{ {type(self).__name__} {{ ... }} }} "
                "runs it over a sequence"
            )
        states = self.first_states(ctx, x, first)
        if self.dropout and ctx.training:
            x = ops.dropout(x, ctx.key(), rate=self.dropout, site=ctx.site())
        kernel, recurrent = self.kernels(ctx, x.shape[1])
        projection = ops.matmul(x, kernel)
        bias, inner = self.biases(ctx)
        if bias is not None:
            projection = projection + bias
        new = self.step(ctx, projection, self.state_product(ctx, recurrent, states[0]), inner, states)
        return (new[0], *new)
