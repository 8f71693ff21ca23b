"""Variables on a device: for each array of the host one there, and which of the two is newer.

A step reads and writes the device's arrays. The host's are brought up to date when somebody asks for them by name, and
count as changed from then on, for whoever got one may write into it: the next step takes them over.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.backends.core import Backend


class DeviceMirror(Mapping[str, Any]):
    """The device's arrays by name, made when they are first asked for. ``host`` are the host's own arrays."""

    def __init__(self, host: Mapping[str, np.ndarray], backend: Backend):
        self.host, self.backend = host, backend
        self._arrays: dict[str, Any] = {}
        self._newer: set[str] = set()  # on the device
        self._changed: set[str] = set()  # on the host, perhaps
        self._written: frozenset[str] | None = None
        #: another number whenever the device's arrays may have changed
        self.version = 0
        #: what the runners of a model share: the check of the loss, which of them ran last, what was warned of
        self.loss_check: Any = None
        self.last_executor: Any = None
        self.reported_failures: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        found = self._arrays.get(name)
        if found is None:
            found = self._arrays[name] = self.backend.asarray(self.host[name])
            self._changed.discard(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.host)

    def __len__(self) -> int:
        return len(self.host)

    @property
    def resident(self) -> Container[str]:
        """The names of the arrays that have been made on the device."""
        return self._arrays.keys()

    def push(self) -> None:
        """Before a step: the device takes over what the host may have changed."""
        if not self._changed:
            return
        self.version += 1
        for name in self._changed & self._arrays.keys():
            self.backend.device.overwrite(self._arrays[name], self.host[name])
        self._changed.clear()

    def mark_written(self, names: frozenset[str]) -> None:
        """After a step: what it has written is newer on the device."""
        self.version += bool(names)
        if names is not self._written:
            self._newer |= names
            self._written = names

    def pull(self, name: str) -> None:
        """Before the host sees an array: it is brought up to date, and counts as changed."""
        if name in self._newer:
            self.host[name][...] = self.backend.to_numpy(self._arrays[name])
            self._newer.discard(name)
            self._written = None
        self._changed.add(name)

    def pull_all(self) -> None:
        """All of the host's arrays are brought up to date."""
        for name in sorted(self._newer):
            self.pull(name)

    def discard(self, name: str) -> None:
        """An array is there no more, or is another one."""
        self._arrays.pop(name, None)
        self._newer.discard(name)
        self._changed.discard(name)
        self._written = None
