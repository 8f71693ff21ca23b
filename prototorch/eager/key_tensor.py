"""The key of a random op as a tensor, also in a function that is traced."""

from __future__ import annotations

from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.random_keys import RandomKeys, default_keys
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace

__all__ = ["key_tensor"]


def key_tensor(keys: RandomKeys = default_keys) -> Tensor:
    """The next key, a tensor uint64 [2], as the random ops take it.

    In a function that is traced (`prototorch.compile`) it stands for another key at each call.
    """
    trace = active_trace.get()
    if trace is not None:
        key: Tensor = trace.key(keys)
        return key
    return cpu_interpreter().wrap(keys.next_key())
