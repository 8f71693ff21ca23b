"""Cells run over sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import steps_mask
from prototorch.layers.recurrent_cell import RecurrentCell
from prototorch.layers.recurrent_steps import run_steps
from prototorch.schema import example, field


class StackedRNNCells(RecurrentCell):
    """Several cells as one (Keras): each reads the output of the one before it.

    Inputs x [batch, n] and the states of all cells, those of the first cell first (zeros if not given); outputs the
    output of the last cell and the new states in the same order. The weights are those of the cells, with ``cell_0/``,
    ``cell_1/``, ... in front.
    """

    cells: tuple[Layer, ...] = field(children=True, doc="The cells, in the order in which they run.")

    examples = [
        example("StackedRNNCells { LSTMCell { units: 2 }  GRUCell { units: 3 } }", inputs=[(4,), (2,), (2,), (3,)]),
    ]

    def check(self) -> None:
        _check_cells(self, self.cells, "cells")

    def state_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(shape for cell in flat_cells(self.cells) for shape in cell.state_shapes())

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        states, new = _split_states(ctx, self.cells, first), []
        x = ops.reshape(x, shape=tuple(x.shape))  # without its mask: one warning is enough
        for name, cell, cell_states in zip(cell_names(self.cells, True), flat_cells(self.cells), states, strict=True):
            x, *last = ctx.sublayer(name, cell, x, *cell_states)
            new += last
        return (x, *new)


class RNN(Layer):
    """A cell, or several after one another, over a sequence (Keras): ``RNN { LSTMCell { units: 8 } }``.

    Input [batch, time, n], output [batch, units], or [batch, time, units] with ``return_sequences``; with
    ``return_state`` also the last states of all cells, those of the first cell first. Further inputs are the first
    states in the same order. Masks are taken as by `LSTM`. The weights are those of the cell with ``cell/`` in front;
    of several, with ``cell_0/``, ``cell_1/``, ... Cells of ours run as the layer that they belong to, all steps in one
    kernel; a cell of your own is recorded step by step, at most 10,000 steps.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    cell: tuple[Layer, ...] = field(children=True, doc="The cell; several are a stack.")
    return_sequences: bool = field(
        default=False, doc="Whether to give the output of every step, not of the last alone."
    )
    return_state: bool = field(default=False, doc="Whether to give the last states as further outputs.")
    go_backwards: bool = field(default=False, doc="Whether to go from the last step to the first.")

    inputs = (1, None)
    mask_policy = "use"
    consumes_features = True
    examples = [
        example("RNN { LSTMCell { units: 3 } }", inputs=[(4, 2)]),
        example("RNN { return_sequences: true  return_state: true  GRUCell { units: 2 }  LSTMCell { units: 3 } }",
                inputs=[(3, 2), (2,), (3,), (3,)], mask=(3, 1, 2)),
        example("RNN { go_backwards: true  StackedRNNCells { SimpleRNNCell { units: 2 }  GRUCell { units: 2 } } }",
                inputs=[(3, 2)], mask=(2, 0, 3)),
    ]  # fmt: skip

    def check(self) -> None:
        _check_cells(self, self.cell, "cell")

    @property
    def states(self) -> int:
        """The number of its states."""
        return sum(len(cell.state_shapes()) for cell in flat_cells(self.cell))

    def output_count(self) -> int:
        return 1 + self.states * self.return_state

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        if x.ndim < 3:
            ctx.fail("the input must be [time, n] (a Reshape before it makes a sequence)")
        if x.shape[1] < 1:
            ctx.fail("the input must have at least one step")
        cells = list(flat_cells(self.cell))
        states, last = _split_states(ctx, self.cell, first), []
        names = cell_names(self.cell, len(cells) > 1)
        for k, (name, cell, cell_states) in enumerate(zip(names, cells, states, strict=True)):
            sequences = self.return_sequences or k < len(cells) - 1
            backwards = self.go_backwards and k == 0
            layer = cell.sequence_layer(sequences, True, backwards)
            if layer is not None:
                x, *new = ctx.sublayer(name, layer, x, *cell_states)
            else:
                cell_states = cell_states or [
                    ops.full(shape=(x.shape[0], *shape), value=0.0, dtype=x.dtype) for shape in cell.state_shapes()
                ]
                step = partial(ctx.sublayer, name, cell)
                x, *new = run_steps(ctx, x, step, cell_states, steps_mask(ctx, x), sequences, backwards)
            last += new
        return (x, *last) if self.return_state else x


def flat_cells(cells: Sequence[Any]) -> Iterator[Any]:
    """The cells, those of a stack one by one."""
    for cell in cells:
        if isinstance(cell, StackedRNNCells):
            yield from flat_cells(cell.cells)
        else:
            yield cell


def cell_names(cells: Sequence[Any], is_stack: bool) -> list[str]:
    """What the names of the cells' weights begin with."""
    return [f"cell_{k}" if is_stack else "cell" for k, _ in enumerate(flat_cells(cells))]


def _check_cells(layer: Layer, cells: Sequence[Layer], name: str) -> None:
    if not cells:
        layer.refuse("it needs a cell", name)
    for cell in cells:
        if not isinstance(cell, RecurrentCell):
            names = ", ".join(RecurrentCell.members())
            layer.refuse(f"{type(cell).__name__} is no cell: cells are {names}", name)


def _split_states(ctx: Context, cells: Sequence[Layer], first: Sequence[ArrayValue]) -> list[Sequence[ArrayValue]]:
    """The first states of each cell. Raises ShapeError for another number than all together have."""
    counts = [len(cell.state_shapes()) for cell in flat_cells(cells)]
    if len(first) not in (0, sum(counts)):
        ctx.fail(f"it takes {sum(counts)} first state{'s' * (sum(counts) > 1)}, not {len(first)}")
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    return [first[end - count : end] for end, count in zip(ends, counts, strict=True)]
