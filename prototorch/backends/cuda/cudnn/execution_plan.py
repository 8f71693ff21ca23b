"""A cuDNN execution plan: the engine of a graph, its workspace, and its execution."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from prototorch.backends.cuda.cudnn.graph_builders import BUILDERS, CUDNN_TYPES
from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc

__all__ = ["ExecutionPlan", "UnsupportedGraphError"]

log = logging.getLogger(__name__)

#: the largest workspace of a plan, in bytes
MAX_WORKSPACE_BYTES = 1 << 30


class UnsupportedGraphError(Exception):
    """cuDNN has no engine for a graph."""


class PlanningContext(Protocol):
    """What a plan needs of its context; see `cudnn.context.CudnnContext`."""

    module: Any
    device: Any
    handle: Any
    autotuner: Any

    def create_graph(self, io: Any, compute: Any) -> Any:
        """An empty cuDNN graph with these types of tensors and of arithmetic."""


class ExecutionPlan:
    """A graph planned under the device's settings.

    In fp32 the engines that round inputs to fewer bits are left out, and with ``deterministic`` those whose result
    depends on the order of threads. The engine is cuDNN's first choice, or with ``autotune`` the fastest.

    Raises UnsupportedGraphError where no engine supports the graph.
    """

    def __init__(self, context: PlanningContext, desc: GraphDesc):
        self.context, self.desc = context, desc
        device, module = context.device, context.module
        io = getattr(module.data_type, CUDNN_TYPES[desc.tensors[0][1].dtype])
        compute = module.data_type.DOUBLE if io == module.data_type.DOUBLE else module.data_type.FLOAT
        graph = self.graph = context.create_graph(io, compute)
        try:
            self.tensors = BUILDERS[desc.kind](module, graph, desc)
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
            note = module.numerical_note
            drop = []
            if io == module.data_type.FLOAT and device.precision == "fp32":
                drop += [note.TENSOR_CORE, note.DOWN_CONVERT_INPUTS]
            if device.deterministic:
                drop.append(note.NONDETERMINISTIC)
            if drop:
                graph.deselect_numeric_notes(drop)
            graph.deselect_workspace_greater_than(MAX_WORKSPACE_BYTES)
            graph.check_support()
            self.index = context.autotuner.select_plan(self)
            if self.index is None:
                graph.build_plans()
            else:
                graph.build_plan_at_index(self.index)
        except (RuntimeError, ValueError, NotImplementedError, module.cudnnGraphNotSupportedError) as why:
            raise UnsupportedGraphError(str(why)) from why
        except Exception as why:  # a defect here or in cuDNN: the next kernel is tried, with a warning
            log.warning("cuDNN failed at a graph %s (%s: %s)", desc.kind, type(why).__name__, why)
            raise UnsupportedGraphError(str(why)) from why
        self.uids = {name: tensor.get_uid() for name, tensor in self.tensors.items()}
        self.workspace = int(graph.get_workspace_size())

    def __call__(self, arrays: Mapping[str, int]) -> None:
        """Execute it on the addresses of the tensors."""
        device = self.context.device
        workspace = device.pointer(device.workspace()) if self.workspace else 0
        addresses = {self.uids[name]: address for name, address in arrays.items()}
        self.graph.execute(addresses, workspace, handle=self.context.handle)
