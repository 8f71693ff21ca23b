"""One step of a recurrent network, as modules."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from prototorch import ops
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import as_sizes, check_dtype, check_input
from prototorch.nn.init import uniform_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter
from prototorch.nn.recurrence import LayerWeights, run_layer
from prototorch.spec import Spec

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """The base of the cells.

    Parameters: weight_ih [gates * hidden_size, input_size], weight_hh [gates * hidden_size, hidden_size], bias_ih and
    bias_hh [gates * hidden_size], all uniform in +-1 / sqrt(hidden_size).
    """

    states: ClassVar[int] = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ):
        super().__init__()
        (self.input_size,) = as_sizes(input_size, 1, "input_size")
        (self.hidden_size,) = as_sizes(hidden_size, 1, "hidden_size")
        self.bias = bias
        input_size, hidden_size = self.input_size, self.hidden_size
        rows = num_chunks * hidden_size
        self.weight_ih = new_parameter((rows, input_size), device, dtype)
        self.weight_hh = new_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            uniform_(parameter, -bound, bound)

    def _step(self, kind: str, input: Any, hx: Any) -> Any:
        """The new states; x and states with or without a batch dimension."""
        name = type(self).__name__
        check_input(input, name)
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: expected an input [batch, {self.input_size}] or [{self.input_size}], got {list(input.shape)}"
            )
        check_dtype(input, self.weight_ih, name)
        rows = tuple(input.shape[:-1])
        first_states = () if hx is None else tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        if hx is not None and len(first_states) != self.states:
            raise UsageError(f"{name}: hx must be {'a pair (h, c)' if self.states == 2 else 'one tensor'}")
        for state in first_states:
            check_input(state, f"{name}: hx")
            check_dtype(state, self.weight_ih, f"{name}: hx")
            if tuple(state.shape) != (*rows, self.hidden_size):
                raise ShapeError(f"{name}: a state must be {[*rows, self.hidden_size]}, got {list(state.shape)}")
        batch = input.shape[0] if rows else 1
        zeros = Spec((batch, self.hidden_size), input.spec.dtype)
        states = [ops.reshape(s, shape=zeros.shape) for s in first_states]
        states = states or [input.interpreter.zeros(zeros)] * self.states
        weights = LayerWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        x = ops.reshape(input, shape=(batch, 1, self.input_size))
        _, new = run_layer(kind, x, weights, states)
        new = [ops.reshape(s, shape=(*rows, self.hidden_size)) for s in new]
        return tuple(new) if len(new) > 1 else new[0]

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        parts += [f"bias={self.bias}"] if self.bias is not True else []
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        parts += [f"nonlinearity={nonlinearity}"] if nonlinearity != "tanh" else []
        return ", ".join(parts)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh); nonlinearity: "tanh" or "relu"."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise UsageError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r:.60}")
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """input [batch, input_size] or [input_size], hx the state (zeros without); gives the new state."""
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, hx)


class LSTMCell(RNNCellBase):
    """One step of `LSTM`."""

    states = 2

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """input [batch, input_size] or [input_size], hx the pair h, c (zeros without); gives the new pair."""
        return self._step("LSTM", input, hx)


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """input [batch, input_size] or [input_size], hx the state (zeros without); gives the new state."""
        return self._step("GRU", input, hx)
