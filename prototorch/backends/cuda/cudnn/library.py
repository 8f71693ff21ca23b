"""cuDNN on one device: the module, a handle on the device's stream, and the plans that were made."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from prototorch.backends.cuda.cudnn.choice import Choices
from prototorch.backends.cuda.cudnn.plan import Plan, Unsupported
from prototorch.backends.cuda.cudnn.request import Request

log = logging.getLogger(__name__)


class Library:
    """cuDNN for one device.

    module: the package cudnn. device: what plans run on. graph: gives an empty graph for an element type and a type of
    arithmetic; the tests give one that plans for a GPU that is not there.
    """

    def __init__(self, module: Any, device: Any, graph: Callable[[Any, Any], Any] | None = None):
        self.module, self.device = module, device
        self.handle: Any = None
        if graph is None:
            self.handle = module.create_handle()
            module.set_stream(self.handle, device.main.ptr)
        self._graph = graph or self._new_graph
        self.plans: dict[Any, Plan | Unsupported] = {}
        self.choices = Choices(self)

    def _new_graph(self, io: Any, compute: Any) -> Any:
        return self.module.pygraph(
            io_data_type=io, intermediate_data_type=compute, compute_data_type=compute, handle=self.handle
        )

    def graph(self, io: Any, compute: Any) -> Any:
        """An empty graph."""
        return self._graph(io, compute)

    def plan(self, request: Request) -> Plan | None:
        """The plan of a request, made once; None where cuDNN has none for it."""
        key = request, self.device.precision, self.device.deterministic
        found = self.plans.get(key)
        if found is None:
            try:
                found = Plan(self, request)
            except Unsupported as no:
                log.debug("cuDNN has no plan for %s: %s", request, no)
                found = no
            self.plans[key] = found
        return None if isinstance(found, Unsupported) else found


_libraries: WeakKeyDictionary[Any, Library | None] = WeakKeyDictionary()


def use(device: Any, library: Library | None) -> None:
    """Give a device its cuDNN (None: it has none)."""
    _libraries[device] = library


def library_of(device: Any) -> Library | None:
    """A device's cuDNN; None where it is not a GPU or cuDNN is not installed. One that stands for another has its."""
    device = getattr(device, "stands_for", device)
    if device not in _libraries:
        _libraries[device] = _load(device)
    return _libraries[device]


def _load(device: Any) -> Library | None:
    if getattr(getattr(device, "main", None), "ptr", None) is None:
        return None
    try:
        module = importlib.import_module("cudnn")
        return Library(module, device)
    except (ImportError, RuntimeError, OSError) as why:
        log.warning(
            "cuDNN cannot be used (%s): convolutions run by the slow general bodies; "
            "pip install 'prototorch[cuda13]' installs it",
            why,
        )
        return None
