"""Recurrent networks as modules: several layers, both directions, packed sequences."""

from __future__ import annotations

import math
from typing import Any

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user
from prototorch.nn import functional as F
from prototorch.nn.arguments import as_sizes, check_dtype, check_input
from prototorch.nn.init import uniform_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter
from prototorch.nn.recurrence import LayerWeights, run_layer
from prototorch.nn.utils.rnn import PackedSequence, check_packed, packed_again, padded_batch
from prototorch.spec import Spec

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """The base of `RNN`, `LSTM` and `GRU`.

    Parameters of layer k: weight_ih_lk [gates * hidden_size, in], weight_hh_lk [gates * hidden_size, hidden_size],
    bias_ih_lk and bias_hh_lk [gates * hidden_size]; those of the backward direction end in _reverse. All are uniform in
    +-1 / sqrt(hidden_size).
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if mode not in _GATES:
            raise UsageError(f"the mode must be one of {', '.join(_GATES)}, got {mode!r:.60}")
        (input_size,), (hidden_size,) = (
            as_sizes(input_size, 1, "input_size", 1),
            as_sizes(hidden_size, 1, "hidden_size", 1),
        )
        (num_layers,) = as_sizes(num_layers, 1, "num_layers", 1)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
            raise UsageError(f"dropout must be a number from 0 to 1, got {dropout!r:.60}")
        if not isinstance(proj_size, int) or not 0 <= proj_size < hidden_size or (proj_size and mode != "LSTM"):
            raise UsageError(
                f"proj_size must be at least 0 and below hidden_size {hidden_size}, and is of LSTM alone; got "
                f"{proj_size!r:.60} of {mode}"
            )
        if dropout and num_layers == 1:
            warn_user("dropout acts between layers, so that it has no effect with num_layers=1", ModelWarning)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for end in self._ends(layer):
                width = input_size if layer == 0 else out * self._directions
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}{end}", new_parameter(shape, device, dtype))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _ends(self, layer: int) -> list[str]:
        """What the names of a layer's parameters end in, for each direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def _layer_weights(self, end: str) -> LayerWeights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return LayerWeights(*(getattr(self, f"{name}{end}", None) for name in names))

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, a list for each layer and direction."""
        weights_of_layers = [self._layer_weights(end) for layer in range(self.num_layers) for end in self._ends(layer)]
        return [[w for w in weights if w is not None] for weights in weights_of_layers]

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: there is no memory that the parameters must share."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """input [time, batch, input_size] (with ``batch_first`` [batch, time, input_size]), [time, input_size] of one
        sequence, or a `PackedSequence`; hx: the first states [num_layers * directions, batch, size], zeros without (of
        an LSTM a pair h, c). Gives the outputs of the last layer in the form of the input, and the last states."""
        if isinstance(input, PackedSequence):
            check_packed(input, type(self).__name__)
            if input.data.ndim != 2:
                raise ShapeError(
                    f"{type(self).__name__}: packed data must be [elements, {self.input_size}], got "
                    f"{list(input.data.shape)}"
                )
            padded, steps = padded_batch(input, len(input.batch_sizes))
            states = self._first_states(padded, hx, input.sorted_indices, False)
            y, last = self._run(padded, states, padded.interpreter.constant(steps))
            if input.unsorted_indices is not None:
                last = [FUNCTIONS["index_select"](s, 1, input.unsorted_indices) for s in last]
            return packed_again(y, input), self._as_hx(last)
        check_input(input, type(self).__name__)
        if input.ndim not in (2, 3):
            raise ShapeError(
                f"{type(self).__name__}: expected [time, batch, {self.input_size}] or [time, {self.input_size}] of one "
                f"sequence, got {list(input.shape)}"
            )
        is_one = input.ndim == 2
        x = ops.expand_dims(input, 0) if is_one else input if self.batch_first else _swap(input)
        states = self._first_states(x, hx, None, is_one)
        y, last = self._run(x, states, None)
        if is_one:
            return ops.squeeze(y, axis=0), self._as_hx([ops.squeeze(s, axis=1) for s in last])
        return (y if self.batch_first else _swap(y)), self._as_hx(last)

    def _run(self, x: Any, states: list[Any], mask: Any) -> tuple[Any, list[Any]]:
        """x [batch, time, n] through all layers: the outputs, and the last states [layers * directions, batch, n]."""
        if x.shape[2] != self.input_size:
            raise ShapeError(f"{type(self).__name__}: input_size is {self.input_size}, but the input has {x.shape[2]}")
        check_dtype(x, self.weight_ih_l0, type(self).__name__)
        if x.shape[1] < 1:
            raise ShapeError(f"{type(self).__name__}: expected at least one time step, got {list(x.shape)}")
        last: list[list[Any]] = [[] for _ in states]
        for layer in range(self.num_layers):
            outputs = []
            for direction, end in enumerate(self._ends(layer)):
                first = [s[layer * self._directions + direction] for s in states]
                y, new = run_layer(self.mode, x, self._layer_weights(end), first, mask, direction == 1)
                outputs.append(y)
                for each, state in zip(last, new, strict=True):
                    each.append(state)
            x = outputs[0] if len(outputs) == 1 else ops.concat(*outputs, axis=2)
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, True)
        return x, [ops.stack(each, axis=0) for each in last]

    def _state_sizes(self) -> tuple[int, ...]:
        out = self.proj_size or self.hidden_size
        return (out, self.hidden_size) if self.mode == "LSTM" else (out,)

    def _first_states(self, x: Any, hx: Any, order: Any, is_one: bool) -> list[Any]:
        """The first states, [layers * directions, batch, size] each, in the order of a packed batch. Raises
        ShapeError."""
        sizes, count = self._state_sizes(), self.num_layers * self._directions
        if hx is None:
            return [x.interpreter.zeros(Spec((count, x.shape[0], n), x.spec.dtype)) for n in sizes]
        first_states = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        name = type(self).__name__
        if len(first_states) != len(sizes) or any(getattr(s, "interpreter", None) is None for s in first_states):
            raise UsageError(
                f"{name}: hx must be {'a pair (h, c) of tensors' if len(sizes) == 2 else 'a tensor'}, got "
                f"{type(hx).__name__}"
            )
        states = []
        for state, size in zip(first_states, sizes, strict=True):
            expected = (count, size) if is_one else (count, x.shape[0], size)
            if tuple(state.shape) != expected:
                raise ShapeError(f"{name}: a first state must be {list(expected)}, got {list(state.shape)}")
            check_dtype(state, self.weight_ih_l0, f"{name}: hx")
            state = ops.expand_dims(state, 1) if is_one else state
            states.append(state if order is None else FUNCTIONS["index_select"](state, 1, order))
        return states

    def _as_hx(self, states: list[Any]) -> Any:
        return tuple(states) if len(states) > 1 else states[0]

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        parts += [f"proj_size={self.proj_size}"] if self.proj_size else []
        parts += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        parts += [f"bias={self.bias}"] if self.bias is not True else []
        parts += [f"batch_first={self.batch_first}"] if self.batch_first is not False else []
        parts += [f"dropout={self.dropout}"] if self.dropout else []
        parts += [f"bidirectional={self.bidirectional}"] if self.bidirectional is not False else []
        return ", ".join(parts)


class RNN(RNNBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh) over the steps (Elman, 1990); nonlinearity: "tanh" or "relu".

    See `RNNBase.forward` for inputs and outputs.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise UsageError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r:.60}")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), gates in the order i, f, g, o.

    proj_size: the output is projected to this size (Sak et al., 2014), by weight_hr_lk [proj_size, hidden_size]. See
    `RNNBase.forward` for inputs and outputs; the states are a pair h, c.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    """The gated recurrent unit (Cho et al., 2014), gates in the order r, z, n; the reset gate acts after the product.

    See `RNNBase.forward` for inputs and outputs.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


def _swap(x: Any) -> Any:
    return ops.transpose(x, order=(1, 0, 2))
