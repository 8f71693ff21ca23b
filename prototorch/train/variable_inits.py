"""Initial values of the variables that a plan needs, and their creation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from prototorch.runtime.variables import Variables
from prototorch.spec import Spec

__all__ = ["VariableInits", "initial_slot"]

_LARGE_VARIABLE = 1 << 20  # bytes; a variable from this size on is initialized in parallel with others


class VariableInits(dict[str, tuple[Spec, Callable[[], np.ndarray]]]):
    """The variables that a plan needs: name -> spec, and a function that makes the initial array."""

    def create_missing(self, variables: Variables, threads: int) -> None:
        """Create the variables that do not exist yet, the large ones in parallel.

        Raises WeightsError where an existing variable has another shape or dtype.
        """
        missing: dict[str, Callable[[], np.ndarray]] = {}
        for name, (spec, make) in self.items():
            if name in variables:
                variables.check_spec(name, spec)
            else:
                missing[name] = make
        large = [name for name in missing if self[name][0].nbytes >= _LARGE_VARIABLE]
        large.sort(key=lambda name: -self[name][0].nbytes)
        with ThreadPoolExecutor(max(min(threads, len(large)), 1)) as pool:
            futures = {name: pool.submit(missing[name]) for name in large}  # each has a random stream of its own
            for name, make in missing.items():
                variables.create(name, futures.pop(name).result() if name in futures else make(), own=True)


def initial_slot(start: np.ndarray) -> np.ndarray:
    """The initial value of an optimizer slot as a new array; zeros touch no memory before the first step."""
    return np.array(start, order="C") if start.any() else np.zeros(start.shape, start.dtype)
