"""cuDNN on one device: the module, a handle on the device's stream, and the cached plans."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

from prototorch.cuda.availability import cudnn_conflict, cudnn_problem, query_driver
from prototorch.cuda.cudart import load_cudart
from prototorch.cuda.cudnn.execution_plan import (
    MAX_WORKSPACE_BYTES,
    ExecutionPlan,
    PlanningError,
    UnsupportedGraphError,
)
from prototorch.cuda.cudnn.graph_desc import GraphDesc
from prototorch.cuda.cudnn.plan_autotuner import PlanAutotuner
from prototorch.cuda.cudnn.planning_log import warn_of_failure, warn_once
from prototorch.cuda.graph_capture import release_later
from prototorch.cuda.packages import cupy_packages
from prototorch.errors import BackendError

__all__ = ["CudnnContext", "get_context", "set_context"]

log = logging.getLogger(__name__)

_FALLBACK_WARNING = "convolutions run by the package's own kernels, which are slower, and attention as products"


class CudnnContext:
    """cuDNN for one device.

    module: the package cudnn. device: that plans run on. graph: a function that returns an empty graph for the types of
    tensors and of arithmetic (default: cuDNN's; tests pass one that plans for a GPU that is not present).

    The handle is destroyed when the device is not used any more, on its GPU, and not while something is captured.
    """

    def __init__(self, module: Any, device: Any, graph: Callable[[Any, Any], Any] | None = None):
        self.module, self._device = module, ref(device)
        self.handle: Any = None
        if graph is None:
            select = getattr(device, "select", nullcontext)
            with select():
                self.handle = module.create_handle()
            module.set_stream(self.handle, device.compute_stream.ptr)
            finalize(device, release_later, partial(_destroy_handle, module, self.handle, select)).atexit = False
        self._graph = graph or self._new_graph
        self.plans: dict[Any, ExecutionPlan | UnsupportedGraphError] = {}
        self.autotuner = PlanAutotuner(self, MAX_WORKSPACE_BYTES)

    @property
    def device(self) -> Any:
        """The device that plans run on; the context does not keep it alive, for it is kept as long as the device is."""
        device = self._device()
        assert device is not None, "a plan of cuDNN is used after its device"
        return device

    @property
    def multiprocessors(self) -> int:
        """The device's number of multiprocessors."""
        return int(self.device.multiprocessors)

    def _new_graph(self, io: Any, compute: Any) -> Any:
        return self.module.pygraph(
            io_data_type=io, intermediate_data_type=compute, compute_data_type=compute, handle=self.handle
        )

    def create_graph(self, io: Any, compute: Any) -> Any:
        """An empty graph."""
        return self._graph(io, compute)

    def get_plan(self, desc: GraphDesc, may_measure: bool = True) -> ExecutionPlan | None:
        """The plan of a graph, cached; None where cuDNN does not support the graph. may_measure: see `ExecutionPlan`; a
        plan that awaits its measurement is made anew once something may be measured."""
        key = desc, self.device.precision, self.device.deterministic
        plan = self.plans.get(key)
        if plan is None or (may_measure and getattr(plan, "awaits_measurement", False)):
            try:
                plan = ExecutionPlan(self, desc, may_measure)
            except PlanningError as failure:
                log.debug("cuDNN failed to plan %s: %s", desc, failure)
                warn_of_failure(desc.kind, failure)
                plan = PlanningError(str(failure))  # anew: the traceback of that one keeps its frames alive
            except UnsupportedGraphError as refusal:
                log.debug("cuDNN has no plan for %s: %s", desc, refusal)
                plan = UnsupportedGraphError(str(refusal))
            self.plans[key] = plan
        return None if isinstance(plan, UnsupportedGraphError) else plan


def _destroy_handle(module: Any, handle: Any, select: Callable[[], AbstractContextManager[Any]]) -> None:
    with select():
        module.destroy_handle(handle)


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
    if getattr(getattr(device, "compute_stream", None), "ptr", None) is None or not device.settings.cudnn:
        return None
    try:
        load_cudart()  # before cuDNN's graph API, which does not find it
    except BackendError as why:
        warn_once("cudart", f"attention runs as products, and stores its weights: {why}")
    conflict = cudnn_conflict(cupy_packages())
    if conflict is not None:
        warn_once("cudnn", f"{conflict.reason}: {_FALLBACK_WARNING}; {conflict.command}")
        return None
    try:
        return CudnnContext(importlib.import_module("cudnn"), device)
    except ImportError as why:
        problem = cudnn_problem(query_driver(), cupy_packages())
        command = "`prototorch devices` lists the versions" if problem is None else f"{problem.command} installs it"
        warn_once("cudnn", f"cuDNN is not installed ({why}): {_FALLBACK_WARNING}; {command}")
    except Exception as why:  # it is installed, but does not work
        reason = f"{type(why).__name__}: {why}"
        warn_once(
            "cudnn", f"cuDNN failed to start ({reason}): {_FALLBACK_WARNING}; `prototorch devices` lists the versions"
        )
    return None
