"""The key of a random op as a tensor, also in a function that is traced."""

from __future__ import annotations

from prototorch.eager.interpreter import EagerInterpreter, cpu_interpreter
from prototorch.eager.random_keys import RandomKeys, default_keys
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace

__all__ = ["key_tensor"]


def key_tensor(keys: RandomKeys = default_keys, interpreter: EagerInterpreter | None = None) -> Tensor:
    """The next key, a tensor uint64 [2], as the random ops take it; by default on the CPU.

    In a function that is traced (`prototorch.compile`) it stands for another key at each call.
    """
    trace = active_trace.get()
    if trace is not None:
        key: Tensor = trace.key(keys)
        return key
    return (interpreter or cpu_interpreter()).constant(keys.next_key())
