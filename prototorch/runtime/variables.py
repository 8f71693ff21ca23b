"""The arrays that outlive a step: weights, optimiser slots, metric totals; and how weights begin."""

from __future__ import annotations

import sys
from collections.abc import Container, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from prototorch.backends.core import Backend
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.graph.trace import WeightSpec
from prototorch.runtime.constant_tensor_cache import ConstantTensorCache
from prototorch.runtime.device_mirror import DeviceMirror
from prototorch.runtime.versions import VersionTracker
from prototorch.spec import Spec

SLOT_PREFIX, METRIC_PREFIX = "optimizer:", "metric:"


class Variables(dict[str, Any]):
    """Arrays by name. Weights bear their plain name (``conv1/kernel``); optimiser slots begin with ``optimizer:``,
    metric totals with ``metric:``. The arrays are changed in place, so that plans stay bound to them.

    The arrays are NumPy's, always. While a device computes, its own ones are in ``mirror``, and an array that is asked
    for here is brought up to date first: it is current until the next step.
    """

    mirror: DeviceMirror | None = None

    def __init__(self) -> None:
        super().__init__()
        self.versions = VersionTracker(_HostArrays(self))
        self.constant_cache = ConstantTensorCache(self.versions)

    def on_device(self, backend: Backend) -> DeviceMirror:
        """The arrays on a backend's device."""
        if self.mirror is None or self.mirror.backend is not backend:
            self.move_to_host()
            self.mirror = DeviceMirror(_HostArrays(self), backend)
        return self.mirror

    def resident_names(self, backend: Backend) -> Container[str]:
        """The names of the arrays that lie where a backend computes."""
        if backend.device is None:
            return self
        return self.mirror.resident if self.mirror is not None and self.mirror.backend is backend else ()

    def move_to_host(self) -> None:
        """The arrays are the host's alone from here on."""
        if self.mirror is not None:
            self.mirror.pull_all()
            self.mirror = None
            self.versions.mark_all()

    def __getitem__(self, name: str) -> Any:
        self.versions.mark_accessed(name)
        return self.borrow(name)

    def borrow(self, name: str) -> Any:
        """The array for somebody who tells of each change (see `Changes.register_writer`)."""
        if self.mirror is not None and name in self:
            self.mirror.pull(name)
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if self.mirror is not None:
            self.mirror.discard(name)
        self.versions.mark_accessed(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        if self.mirror is not None:
            self.mirror.discard(name)
        super().__delitem__(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # defined, so that dict(variables) asks for each array

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        """As of a dict."""
        return ItemsView(self)

    def values(self) -> Any:
        """As of a dict."""
        return ValuesView(self)

    def create(self, name: str, value: np.ndarray, own: bool = False) -> None:
        """Enter a new array under a name that is still free; an array that is there stays. With ``own`` nobody else
        holds the array, and it is entered itself; otherwise a copy.

        Raises WeightsError where that one is of another shape or type: it came from a file, and does not fit.
        """
        if name not in self:
            self[name] = value if own else np.array(value)
        else:
            self.check_spec(name, Spec(tuple(value.shape), value.dtype.name))

    def check_spec(self, name: str, wanted: Spec) -> None:
        """Raise WeightsError where the array of this name is not of the spec that the model needs."""
        array = super().__getitem__(name)
        found = Spec(tuple(array.shape), str(array.dtype))
        if found != wanted:
            raise WeightsError(f"{name}: the model needs {wanted}, but {found} is there, from a file")

    def assign(self, name: str, value: np.ndarray) -> None:
        """Write new elements into an array that is there."""
        self[name][...] = value

    def weights(self) -> dict[str, Any]:
        """The weights alone."""
        return {k: self[k] for k in self if not k.startswith((SLOT_PREFIX, METRIC_PREFIX))}

    def with_prefix(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """The arrays whose names begin like this."""
        return ((k, self[k]) for k in list(self) if k.startswith(prefix))

    def drop_prefix(self, prefix: str) -> None:
        """Forget the arrays whose names begin like this."""
        for name in [k for k in self if k.startswith(prefix)]:
            del self[name]


class NamedWeights(dict[str, np.ndarray]):
    """Arrays by name. To set one writes its elements: the names, and the arrays themselves, stay."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            raise UsageError(f"there is no weight {name!r}.{did_you_mean(name, self)}")
        array, given = self[name], np.asarray(value)
        if given.shape != array.shape:
            raise WeightsError(f"{name} has shape {list(array.shape)}; what is written there has {list(given.shape)}")
        array[...] = given


class _HostArrays(Mapping[str, Any]):
    """The host's arrays as they are, with nothing brought up to date."""

    def __init__(self, variables: Variables):
        self._variables = variables
        #: as indexing, and quicker
        self.getter = partial(dict.__getitem__, variables)

    def __getitem__(self, name: str) -> Any:
        return dict.__getitem__(self._variables, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def initial_value(weight: WeightSpec, seed: int) -> np.ndarray:
    """How a weight begins: its own stream of random numbers follows from the seed and its name, not from an order. The
    array is nobody else's."""
    rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), crc32(weight.name.encode())]))
    fresh = np.zeros(0, np.float32)
    alone = sys.getrefcount(fresh)
    values = weight.initializer.values(weight.spec.shape, rng, weight.fans)
    usual = isinstance(values, np.ndarray) and values.base is None and values.dtype == weight.spec.dtype
    if usual and values.flags.c_contiguous and values.flags.writeable and sys.getrefcount(values) <= alone:
        return values
    return np.array(values, dtype=weight.spec.dtype, order="C")


def total_bytes(specs: Iterable[Spec]) -> int:
    """Bytes of all arrays of these specs."""
    return sum(s.nbytes for s in specs)
