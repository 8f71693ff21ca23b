"""cuDNN on one device: the module, a handle on the device's stream, and the cached plans."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from prototorch.backends.cuda.availability import install_command, query_driver
from prototorch.backends.cuda.cudnn.execution_plan import ExecutionPlan, UnsupportedGraphError
from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc
from prototorch.backends.cuda.cudnn.plan_autotuner import PlanAutotuner

__all__ = ["CudnnContext", "get_context", "set_context"]

log = logging.getLogger(__name__)


class CudnnContext:
    """cuDNN for one device.

    module: the package cudnn. device: that plans run on. graph: a function that returns an empty graph for the types of
    tensors and of arithmetic (default: cuDNN's; tests pass one that plans for a GPU that is not present).
    """

    def __init__(self, module: Any, device: Any, graph: Callable[[Any, Any], Any] | None = None):
        self.module, self.device = module, device
        self.handle: Any = None
        if graph is None:
            self.handle = module.create_handle()
            module.set_stream(self.handle, device.compute_stream.ptr)
        self._graph = graph or self._new_graph
        self.plans: dict[Any, ExecutionPlan | UnsupportedGraphError] = {}
        self.autotuner = PlanAutotuner(self)

    def _new_graph(self, io: Any, compute: Any) -> Any:
        return self.module.pygraph(
            io_data_type=io, intermediate_data_type=compute, compute_data_type=compute, handle=self.handle
        )

    def create_graph(self, io: Any, compute: Any) -> Any:
        """An empty graph."""
        return self._graph(io, compute)

    def get_plan(self, desc: GraphDesc) -> ExecutionPlan | None:
        """The plan of a graph, cached; None where cuDNN does not support the graph."""
        key = desc, self.device.precision, self.device.deterministic
        plan = self.plans.get(key)
        if plan is None:
            try:
                plan = ExecutionPlan(self, desc)
            except UnsupportedGraphError as no:
                log.debug("cuDNN has no plan for %s: %s", desc, no)
                plan = no
            self.plans[key] = plan
        return None if isinstance(plan, UnsupportedGraphError) else plan


_contexts: WeakKeyDictionary[Any, CudnnContext | None] = WeakKeyDictionary()


def set_context(device: Any, library: CudnnContext | None) -> None:
    """Set the context of a device (None: it has no cuDNN)."""
    _contexts[device] = library


def get_context(device: Any) -> CudnnContext | None:
    """The context of a device; None where it is not a GPU or cuDNN is not installed. A dry run uses its target's."""
    device = getattr(device, "target", device)
    if device not in _contexts:
        _contexts[device] = _create_context(device)
    return _contexts[device]


def _create_context(device: Any) -> CudnnContext | None:
    if getattr(getattr(device, "compute_stream", None), "ptr", None) is None:
        return None
    try:
        module = importlib.import_module("cudnn")
        return CudnnContext(module, device)
    except (ImportError, RuntimeError, OSError) as why:
        log.warning(
            "cuDNN cannot be used (%s): convolutions run by their slow reference implementations; %s installs it",
            why,
            install_command(query_driver()),
        )
        return None
