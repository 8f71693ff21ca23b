"""The arrays that outlive a step: weights, optimiser slots, metric totals; and how weights begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import numpy as np

from prototorch.errors import WeightsError
from prototorch.graph.trace import Weight
from prototorch.spec import Spec

SLOT, METRIC = "optimizer:", "metric:"


class Variables(dict[str, Any]):
    """Arrays by name. Weights bear their plain name (``conv1/kernel``); optimiser slots begin with ``optimizer:``,
    metric totals with ``metric:``. The arrays are changed in place, so that plans stay bound to them."""

    def create(self, name: str, value: np.ndarray) -> None:
        """Enter a new array under a name that is still free; an array that is there stays.

        Raises WeightsError where that one is of another shape or type: it came from a file, and does not fit.
        """
        if name not in self:
            self[name] = np.array(value)
        else:
            self.check(name, Spec(tuple(value.shape), value.dtype.name))

    def check(self, name: str, wanted: Spec) -> None:
        """Raise WeightsError where the array of this name is not of the spec that the model needs."""
        found = Spec(tuple(self[name].shape), str(self[name].dtype))
        if found != wanted:
            raise WeightsError(f"{name}: the model needs {wanted}, but {found} is there, from a file")

    def assign(self, name: str, value: np.ndarray) -> None:
        """Write new elements into an array that is there."""
        self[name][...] = value

    def weights(self) -> dict[str, Any]:
        """The weights alone."""
        return {k: v for k, v in self.items() if not k.startswith((SLOT, METRIC))}

    def beginning(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """The arrays whose names begin like this."""
        return ((k, v) for k, v in self.items() if k.startswith(prefix))

    def drop(self, prefix: str) -> None:
        """Forget the arrays whose names begin like this."""
        for name in [k for k in self if k.startswith(prefix)]:
            del self[name]


def initial(weight: Weight, seed: int) -> np.ndarray:
    """How a weight begins: its own stream of random numbers follows from the seed and its name, not from an order."""
    rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), crc32(weight.name.encode())]))
    values = weight.initializer.values(weight.spec.shape, rng, weight.fans)
    return np.asarray(values, dtype=weight.spec.dtype, order="C")


def nbytes(specs: Iterable[Spec]) -> int:
    """Bytes of all arrays of these specs."""
    return sum(s.nbytes for s in specs)
