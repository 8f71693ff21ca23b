"""States on a device: a device array for each host array, and which of the two is newer.

A step reads and writes the device's arrays. A host array is brought up to date when it is read by name, and counts as
changed from then on, for whoever got it may write into it: the next step copies it to the device.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executor import StateMirror

__all__ = ["DeviceMirror"]


class DeviceMirror(StateMirror):
    """The device's arrays by name, made when they are first read.

    Attributes:
        host: the host's arrays.
        version: changes whenever the device's arrays may have changed.
        loss_check, last_executor, reported_failures: shared by the executors of a model: the check of the loss, the one
            that ran last, and the reasons that were warned of.
    """

    def __init__(self, host: Mapping[str, np.ndarray], backend: Backend):
        self.host, self.backend = host, backend
        self._arrays: dict[str, Any] = {}
        self._newer_on_device: set[str] = set()
        self._changed_on_host: set[str] = set()  # perhaps
        self._last_written: frozenset[str] | None = None
        self.version = 0
        self.loss_check: Any = None
        self.last_executor: Any = None
        self.reported_failures: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = self.backend.asarray(self.host[name])
            self._changed_on_host.discard(name)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.host)

    def __len__(self) -> int:
        return len(self.host)

    @property
    def resident(self) -> Container[str]:
        """See `StateMirror.resident`."""
        return self._arrays.keys()

    def mark_changed(self) -> None:
        """Others than executors may have changed the device's arrays."""
        self.version += 1

    def push(self) -> None:
        """Before a step: copy to the device what may have changed on the host."""
        if self.before_push is not None:
            self.before_push()
        if not self._changed_on_host:
            return
        self.version += 1
        for name in self._changed_on_host & self._arrays.keys():
            self.backend.device.overwrite(self._arrays[name], self.host[name])
        self._changed_on_host.clear()

    def mark_written(self, names: frozenset[str]) -> None:
        """After a step: the arrays that it has written are newer on the device."""
        self.version += bool(names)
        self.writes += bool(names)
        if names is not self._last_written:
            self._newer_on_device |= names
            self._last_written = names

    def pull(self, name: str) -> None:
        """See `StateMirror.pull`."""
        if name in self._newer_on_device:
            self.host[name][...] = self.backend.to_numpy(self._arrays[name])
            self._newer_on_device.discard(name)
            self._last_written = None
        self._changed_on_host.add(name)

    def pull_all(self) -> None:
        """See `StateMirror.pull_all`."""
        for name in sorted(self._newer_on_device):
            self.pull(name)

    def discard(self, name: str) -> None:
        """See `StateMirror.discard`."""
        self._arrays.pop(name, None)
        self._newer_on_device.discard(name)
        self._changed_on_host.discard(name)
        self._last_written = None
