"""The arrays that outlive a step: weights, optimizer slots, metric totals; and the initial values of weights."""

from __future__ import annotations

import weakref
from collections.abc import Container, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any
from zlib import crc32

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import ExecutablePlan
from prototorch.engine.backends.executor import StateMirror
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers import Initializer
from prototorch.runtime.constant_tensor_cache import ConstantTensorCache
from prototorch.runtime.state_binding import TrackedStates
from prototorch.runtime.versions import VersionTracker
from prototorch.spec import Spec

__all__ = ["METRIC_PREFIX", "SLOT_PREFIX", "NamedWeights", "Variables", "initial_value", "total_bytes"]

SLOT_PREFIX, METRIC_PREFIX = "optimizer:", "metric:"


class Variables(dict[str, Any]):
    """Arrays by name. A weight has its plain name (``conv1/kernel``); the names of optimizer slots begin with
    ``optimizer:``, those of metric totals with ``metric:``. The arrays are changed in place, so that plans stay bound
    to them.

    An array that is read by its name may be written to: for as long as it, or a view of it, is alive, nothing that was
    computed from it earlier is used again (see `VersionTracker`). The arrays are NumPy's, always. While a device
    computes, its own arrays are in ``mirror``, and an array that is read here is copied from the device first: it is
    current until the next step.
    """

    mirror: StateMirror | None = None

    def __init__(self) -> None:
        super().__init__()
        self._host = _HostArrays(self)
        self.versions = VersionTracker(self._host)
        self._shared: list[tuple[str, weakref.ref[Variables], str]] = []
        #: eager tensors of the arrays' memory, by name
        self.tensors: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._seen_changes: dict[tuple[int, str], Any] = {}
        self.constant_cache = ConstantTensorCache(self.versions)

    def on_backend(self, backend: Backend) -> Variables | StateMirror:
        """The arrays where a backend computes: these, or their mirror on its device."""
        if self.mirror is not None and self.mirror.backend is backend:
            return self.mirror
        mirror = backend.mirror_states(self._host)
        if mirror is None:
            return self
        self.move_to_host()
        self.mirror = mirror
        if self._shared:
            mirror.before_push = self.pull_shared
        return mirror

    def share(self, prefix: str, other: Variables, other_prefix: str) -> None:
        """Have the same arrays as other variables, under names with another beginning, those made later included."""
        if other is self or any(p == prefix and reference() is other for p, reference, _ in self._shared):
            return
        other._shared = [link for link in other._shared if link[1]() is not None]
        linked = ((reference(), p) for own, reference, p in other._shared if own == other_prefix)
        members = [(other, other_prefix), *((v, p) for v, p in linked if v is not None)]
        for member, member_prefix in members:
            for a, a_prefix, b, b_prefix in (
                (self, prefix, member, member_prefix),
                (member, member_prefix, self, prefix),
            ):
                a._shared.append((a_prefix, weakref.ref(b), b_prefix))
                if a.mirror is not None:
                    a.mirror.before_push = a.pull_shared
        for name in [n for n in other if n.startswith(other_prefix)]:
            other.borrow(name)  # from the device
            self._adopt(prefix + name[len(other_prefix) :], dict.__getitem__(other, name))

    def _sharers_of(self, name: str) -> Iterator[tuple[Variables, str]]:
        """The variables that have the same array, and its name there."""
        for prefix, reference, other_prefix in self._shared:
            other = reference() if name.startswith(prefix) else None
            if other is not None:
                yield other, other_prefix + name[len(prefix) :]

    def _adopt(self, name: str, array: np.ndarray) -> None:
        """Take an array that others have, too."""
        if self.mirror is not None:
            self.mirror.discard(name)
        super().__setitem__(name, array)
        self.versions.mark_replaced(name)
        for other, other_name in self._sharers_of(name):
            if other_name in other:
                self.versions.link(name, other.versions, other_name)
                other.versions.link(other_name, self.versions, name)

    def pull_shared(self, names: Iterable[str] | None = None) -> None:
        """Bring the arrays that others have, too, up to date, from the devices on which others have changed them."""
        if all(v is None or v.mirror is None for v in (self, *(reference() for _, reference, _ in self._shared))):
            return  # all arrays are the host's
        for name in list(self) if names is None else names:
            for other, other_name in self._sharers_of(name):
                if other_name not in other:
                    continue
                key = id(other), name
                changes = other.versions.change_count(other_name), getattr(other.mirror, "writes", 0)
                if changes[0] is None or self._seen_changes.get(key) != changes:
                    if other.mirror is not None:
                        other.mirror.pull(other_name)
                    if self.mirror is not None:
                        self.mirror.pull(name)
                    self._seen_changes[key] = changes

    def __del__(self) -> None:
        if self.mirror is not None and getattr(self, "_shared", None):
            self.mirror.pull_all()  # others go on with the arrays of the host

    def bind(self, plan: ExecutablePlan, levels: tuple[str, ...]) -> TrackedStates:
        """See `StateStore.bind`."""
        return TrackedStates(self.borrow, self.versions, self.constant_cache, plan, levels, self._before_run)

    def _before_run(self) -> None:
        if self._shared:
            self.pull_shared()

    def resident_names(self, backend: Backend) -> Container[str]:
        """The names of the arrays that are in the memory in which a backend computes."""
        if not backend.has_device_memory:
            return self
        return self.mirror.resident if self.mirror is not None and self.mirror.backend is backend else ()

    def move_to_host(self) -> None:
        """Copy all arrays from the device; from here on only the host has them."""
        if self.mirror is not None:
            self.mirror.pull_all()
            self.mirror = None
            self.versions.mark_all_changed()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        self._pull(name)
        return self.versions.export(name)

    def _pull(self, name: str) -> None:
        """Bring the host's array up to date."""
        if self._shared:
            self.pull_shared((name,))
        if self.mirror is not None:
            self.mirror.pull(name)

    def borrow(self, name: str) -> Any:
        """The array itself, for a caller that either only reads it at once or reports each change (see
        `VersionTracker.register_writer`)."""
        if name in self:
            self._pull(name)
        return super().__getitem__(name)

    def current_arrays(self) -> Iterator[tuple[str, Any]]:
        """All arrays where the last step has left them, on the device or here, for a caller that only reads them."""
        mirror = self.mirror
        for name in list(self):
            on_device = mirror is not None and name in mirror.resident
            yield name, mirror[name] if mirror is not None and on_device else super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._replace(name, np.array(value))

    def _replace(self, name: str, array: np.ndarray) -> None:
        if self.mirror is not None:
            self.mirror.discard(name)
        super().__setitem__(name, array)
        self.versions.mark_replaced(name)
        for other, other_name in self._sharers_of(name):
            other._adopt(other_name, array)

    def __delitem__(self, name: str) -> None:
        if self.mirror is not None:
            self.mirror.discard(name)
        super().__delitem__(name)
        self.versions.mark_replaced(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # defined, so that dict(variables) asks for each array

    def copy(self) -> dict[str, Any]:
        """As `dict.copy`: a plain dict of the arrays."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def pop(self, name: str, *default: Any) -> Any:
        """As `dict.pop`."""
        if name not in self and default:
            return default[0]
        array = self[name]
        del self[name]
        return array

    def get(self, name: str, default: Any = None) -> Any:
        """As `dict.get`."""
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        """As `dict.items`."""
        return ItemsView(self)

    def values(self) -> Any:
        """As `dict.values`."""
        return ValuesView(self)

    def create(self, name: str, value: np.ndarray, own: bool = False) -> None:
        """Add an array under a new name; an existing one stays. With ``own`` the caller gives the array away and keeps
        no reference to it: it is used itself; otherwise a copy.

        Raises WeightsError where the existing array has another shape or dtype: it came from a file and does not fit.
        """
        if name not in self:
            self._replace(name, value if own else np.array(value))
        else:
            self.check_spec(name, Spec(tuple(value.shape), value.dtype.name))

    def check_spec(self, name: str, spec: Spec) -> None:
        """Raise WeightsError where the array of this name has another spec than the model needs."""
        array = super().__getitem__(name)
        actual = Spec(tuple(array.shape), str(array.dtype))
        if actual != spec:
            raise WeightsError(f"{name}: the model needs {spec}, got {actual} from a file")

    def assign(self, name: str, value: np.ndarray) -> None:
        """Write new elements into an existing array."""
        self[name][...] = value

    def weights(self) -> dict[str, Any]:
        """The weights alone."""
        return {k: self[k] for k in self if not k.startswith((SLOT_PREFIX, METRIC_PREFIX))}

    def borrow_prefix(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """The arrays whose names begin with a prefix, as `borrow` gives them."""
        return ((k, self.borrow(k)) for k in list(self) if k.startswith(prefix))

    def zero_prefix(self, prefix: str) -> None:
        """Set all elements of the arrays whose names begin with a prefix to 0."""
        for name, array in self.borrow_prefix(prefix):
            array[...] = 0
            self.versions.mark_changed(name)

    def with_prefix(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """The arrays whose names begin with a prefix."""
        return ((k, self[k]) for k in list(self) if k.startswith(prefix))

    def drop_prefix(self, prefix: str) -> None:
        """Remove the arrays whose names begin with a prefix."""
        for name in [k for k in self if k.startswith(prefix)]:
            del self[name]


class NamedWeights(dict[str, np.ndarray]):
    """Arrays by name. To set one writes its elements: the names, and the arrays themselves, stay."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            raise UsageError(f"there is no weight {name!r}.{did_you_mean(name, self)}")
        array, elements = self[name], np.asarray(value)
        if elements.shape != array.shape:
            raise WeightsError(f"{name}: expected shape {list(array.shape)}, got {list(elements.shape)}")
        array[...] = elements


class _HostArrays(Mapping[str, Any]):
    """The host's arrays themselves: nothing is copied from a device, and no access is recorded."""

    def __init__(self, variables: Variables):
        self._variables = variables

    def __getitem__(self, name: str) -> Any:
        return dict.__getitem__(self._variables, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


def initial_value(weight: WeightSpec, seed: int) -> np.ndarray:
    """The initial elements of a weight, in an array that nobody else refers to. Its random numbers follow from the seed
    and its name, not from the order of the weights."""
    rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), crc32(weight.name.encode())]))
    values = weight.initializer.values(weight.spec.shape, rng, weight.fans)
    usable = isinstance(values, np.ndarray) and values.base is None and values.dtype == weight.spec.dtype
    if usable and values.flags.c_contiguous and values.flags.writeable and _allocates(weight.initializer):
        return values
    return np.array(values, dtype=weight.spec.dtype, order="C")


def _allocates(initializer: Initializer) -> bool:
    """Whether what an initializer returns is a new array of its own: so do all of this package."""
    return type(initializer).__module__.startswith(f"{Initializer.__module__.rsplit('.', 1)[0]}.")


def total_bytes(specs: Iterable[Spec]) -> int:
    """Bytes of all arrays of these specs."""
    return sum(s.nbytes for s in specs)
