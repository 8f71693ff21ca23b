"""Random numbers on GPUs: those of the one generator that all devices share."""

from __future__ import annotations

from typing import Any

from prototorch.eager.generator import default_generator
from prototorch.eager.generator import manual_seed as seed_everything
from prototorch.eager.tensor import Tensor

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"]


def manual_seed(seed: int) -> None:
    """As `prototorch.manual_seed`: random numbers are the same ones on each device."""
    seed_everything(seed)


def manual_seed_all(seed: int) -> None:
    """As `manual_seed`."""
    seed_everything(seed)


def seed() -> None:
    """Begin again with a seed of the operating system."""
    default_generator.seed()


def seed_all() -> None:
    """As `seed`."""
    default_generator.seed()


def initial_seed() -> int:
    """The seed that the random numbers began with."""
    return default_generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Continue from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)
