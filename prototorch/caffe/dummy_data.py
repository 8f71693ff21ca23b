"""The source of DummyData layers: tops that initializers draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.caffe.data.blob_source import BlobSource
from prototorch.caffe.interop.caffe_net import CaffeLayer
from prototorch.errors import ResourceError
from prototorch.initializers import Initializer
from prototorch.initializers.base import compute_fans
from prototorch.initializers.constant import Constant, Ones, Zeros
from prototorch.runtime.variables import total_bytes
from prototorch.spec import Spec
from prototorch.train.memory_estimate import format_bytes

__all__ = ["DummyDataSource", "check_values_fit"]


def check_values_fit(layer: CaffeLayer, specs: Sequence[Spec], free: int | None) -> None:
    """Raise ResourceError where the tops of a DummyData layer do not fit into the free bytes (None: not known)."""
    need = total_bytes(specs)
    if free is not None and need > free:
        tops = ", ".join(f"{top} {list(spec.shape)}" for top, spec in zip(layer.tops, specs, strict=True))
        raise ResourceError(
            f"layer {layer.name!r} (DummyData): its tops need {format_bytes(need)} of memory, "
            f"{format_bytes(free)} are free: {tops}"
        )


class DummyDataSource(BlobSource):
    """Batches that initializers draw; those of constants are computed once.

    layer: a DummyData layer as it is translated. shapes: of its tops. seed: of the random numbers, which follow from
    it and the number of the batch. dtype: "float32" or "float64".
    """

    prefetch = 0

    def __init__(self, layer: CaffeLayer, shapes: dict[str, tuple[int, ...]], seed: int, dtype: str = "float32"):
        super().__init__()
        self.name, self.shapes = layer.name, shapes
        self._fillers = dict(zip(layer.tops, layer.fillers, strict=True))
        self._seed, self._dtype = seed, dtype
        self._constants: dict[str, np.ndarray] = {}

    def make_batch(self, number: int) -> dict[str, np.ndarray]:
        """See `BlobSource.make_batch`."""
        return {top: self._draw(top, number, position) for position, top in enumerate(self.shapes)}

    def _draw(self, top: str, number: int, position: int) -> np.ndarray:
        filler, shape = self._fillers[top], self.shapes[top]
        if not isinstance(filler, Constant | Ones | Zeros):
            return self._values(filler, shape, number, position)
        if top not in self._constants:
            self._constants[top] = self._values(filler, shape, 0, position)
        return self._constants[top].copy()

    def _values(self, filler: Initializer, shape: tuple[int, ...], number: int, position: int) -> np.ndarray:
        key = np.random.SeedSequence([self._seed, number, position])
        rng = np.random.Generator(np.random.Philox(key))
        return np.array(filler.values(shape, rng, compute_fans(shape)), self._dtype)
