"""One planned cuDNN graph: which engine runs it, how much workspace it takes, and running it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prototorch.backends.cuda.cudnn.graph_builders import BUILDERS, CUDNN_TYPES
from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc

if TYPE_CHECKING:
    from prototorch.backends.cuda.cudnn.context import CudnnContext


log = logging.getLogger(__name__)

#: bytes of workspace a plan may ask for
MAX_WORKSPACE_BYTES = 1 << 30


class UnsupportedGraphError(Exception):
    """cuDNN has no engine for a graph."""


class ExecutionPlan:
    """A request planned under the device's settings. Raises Unsupported where no engine takes it.

    In fp32 the engines that round inputs to fewer bits are left out, and with ``deterministic`` those whose result
    depends on the order of threads. The engine is cuDNN's first choice, or with ``autotune`` the fastest.
    """

    def __init__(self, library: CudnnContext, request: GraphDesc):
        self.context, self.desc = library, request
        device, module = library.device, library.module
        io = getattr(module.data_type, CUDNN_TYPES[request.tensors[0][1].dtype])
        compute = module.data_type.DOUBLE if io == module.data_type.DOUBLE else module.data_type.FLOAT
        graph = self.graph = library.create_graph(io, compute)
        try:
            self.tensors = BUILDERS[request.kind](module, graph, request)
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
            self.index = library.autotuner.select_plan(self)
            if self.index is None:
                graph.build_plans()
            else:
                graph.build_plan_at_index(self.index)
        except (RuntimeError, ValueError, NotImplementedError, module.cudnnGraphNotSupportedError) as why:
            raise UnsupportedGraphError(str(why)) from why
        except Exception as why:  # a mistake of ours or of cuDNN's: the next kernel is asked, but not in silence
            log.warning("cuDNN failed at a graph %s (%s: %s)", request.kind, type(why).__name__, why)
            raise UnsupportedGraphError(str(why)) from why
        self.uids = {name: tensor.get_uid() for name, tensor in self.tensors.items()}
        self.workspace = int(graph.get_workspace_size())

    def __call__(self, arrays: Mapping[str, int]) -> None:
        """Run it on the addresses of the tensors."""
        device = self.context.device
        space = device.pointer(device.workspace()) if self.workspace else 0
        given = {self.uids[name]: address for name, address in arrays.items()}
        self.graph.execute(given, space, handle=self.context.handle)
