"""Generators of random numbers, by PyTorch's name: `Generator`, the default one, and `manual_seed`."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.random_keys import RandomKeys, default_keys
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["Generator", "default_generator", "keys_of", "manual_seed"]


class Generator:
    """The source of random numbers that functions and data loaders take as ``generator``.

    Args:
        device: accepted as in PyTorch; a generator is a seed and a counter, the same ones on each device.

    The numbers are those of counter-based Philox: the same for each device and number of threads, and others than
    PyTorch draws by the same seed. A new generator has the seed 0.
    """

    def __init__(self, device: Any = "cpu", *, keys: RandomKeys | None = None):
        self.device, self.keys = device, RandomKeys() if keys is None else keys

    def manual_seed(self, seed: int) -> Generator:
        """Begin again from a seed, an integer in -2**63 .. 2**64 - 1. Gives the generator itself.

        Raises UsageError for anything else.
        """
        self.keys.restart(check_seed(seed))
        return self

    def seed(self) -> int:
        """Begin again from a seed of the operating system, which is returned."""
        self.keys.restart(secrets.randbits(64))
        return self.keys.seed

    def initial_seed(self) -> int:
        """The seed that the generator began with."""
        return self.keys.seed

    def get_state(self) -> Tensor:
        """The state, a uint8 tensor of 16 elements: the seed and the number of draws so far."""
        return cpu_interpreter().constant(np.array([self.keys.seed, self.keys.count], "<u8").view(np.uint8))

    def set_state(self, new_state: Tensor) -> None:
        """Continue from what `get_state` gave. Raises UsageError for anything else."""
        values = new_state.numpy() if isinstance(new_state, Tensor) else np.asarray(new_state)
        if values.dtype != np.uint8 or values.shape != (16,):
            raise UsageError(
                f"set_state takes what get_state gave, uint8 [16]; got {values.dtype.name} {list(values.shape)} "
                "(the states of PyTorch's generators are others)"
            )
        self.keys.seed, self.keys.count = (int(n) for n in np.ascontiguousarray(values).view("<u8"))

    def __repr__(self) -> str:
        return f"<prototorch.Generator seed={self.keys.seed} draws={self.keys.count}>"


def check_seed(seed: Any) -> int:
    """The seed as an integer. Raises UsageError where it is none, or too large for 64 bits."""
    try:
        number = seed.__index__()
    except (AttributeError, TypeError):
        raise UsageError(f"the seed is an integer, got {seed!r:.60}") from None
    if not -(2**63) <= number < 2**64:
        raise UsageError(f"the seed must lie in -2**63 .. 2**64 - 1, got {number}")
    return int(number)


#: the generator of everything random that gets no other one
default_generator = Generator(keys=default_keys)


def manual_seed(seed: int) -> Generator:
    """Restart the random numbers of tensors, data loaders and weights not created yet from a seed, as in PyTorch.

    Gives the default generator. Raises UsageError where the seed is no integer of 64 bits.
    """
    return default_generator.manual_seed(seed)


def keys_of(generator: Generator | None) -> RandomKeys:
    """The keys of a generator, or of the default one. Raises UsageError for a generator of another kind."""
    if generator is None:
        return default_keys
    if not isinstance(generator, Generator):
        raise UsageError(
            f"generator must be a prototorch.Generator, got {type(generator).__module__}.{type(generator).__name__}"
        )
    return generator.keys
