"""A cuDNN execution plan: the engine of a graph, its workspace, and its execution."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from prototorch.cuda.cudnn.engine import parse_engine
from prototorch.cuda.cudnn.graph_builders import BUILDERS, CUDNN_TYPES
from prototorch.cuda.cudnn.graph_desc import GraphDesc
from prototorch.cuda.cudnn.plan_autotuner import plan_names
from prototorch.cuda.cudnn.planning_log import frontend_log_at_debug, warn_of_engine
from prototorch.cuda.cudnn.split_k import select_split_k_plan
from prototorch.cuda.cudnn.tensor_cores import needs_tensor_cores
from prototorch.cuda.kernels.launch import workspace_address

__all__ = ["ExecutionPlan", "PlanningError", "UnsupportedGraphError"]

log = logging.getLogger(__name__)

#: the largest workspace of a plan, in bytes
MAX_WORKSPACE_BYTES = 1 << 30


class UnsupportedGraphError(Exception):
    """cuDNN has no engine for a graph."""


class PlanningError(UnsupportedGraphError):
    """Planning failed for another reason: a library is missing, or a defect here or in cuDNN."""


class PlanningContext(Protocol):
    """What a plan needs of its context; see `cudnn.context.CudnnContext`."""

    module: Any
    handle: Any
    autotuner: Any

    @property
    def device(self) -> Any:
        """The device that plans run on."""

    def create_graph(self, io: Any, compute: Any) -> Any:
        """An empty cuDNN graph with these types of tensors and of arithmetic."""


class ExecutionPlan:
    """A graph planned under the device's settings.

    In fp32 the engines that round inputs to fewer bits are left out, and with ``deterministic`` those whose result
    depends on the order of threads. The engine is cuDNN's first choice that suits the graph (see
    `needs_tensor_cores`), or that of `select_split_k_plan`, or with ``autotune`` the fastest.

    Attributes:
        preferred: the index of the plan that is taken without autotuning; None for the first of cuDNN's ranking.
        engine: the engine that was built.
        heuristic_engine: that of the plan that is taken without autotuning.
        workspace: the bytes of workspace that it needs.
        awaits_measurement: whether it is not the fastest only because nothing may be measured yet.

    Args:
        may_measure: whether engines may be timed on the device. Where they may not (a summary asks for a plan's
            memory), the choice of an earlier measurement is used, else cuDNN's own.

    Raises UnsupportedGraphError where no engine supports the graph, and PlanningError where planning failed otherwise.
    """

    def __init__(self, context: PlanningContext, desc: GraphDesc, may_measure: bool = True):
        self.context, self.desc = context, desc
        module = context.module
        self.graph: Any = None
        try:
            with frontend_log_at_debug():
                self._plan(may_measure)
        except module.cudnnGraphNotSupportedError as why:
            raise UnsupportedGraphError(str(why)) from why
        except Exception as why:
            raise PlanningError(f"{type(why).__name__}: {why}") from why

    def _plan(self, may_measure: bool) -> None:
        """Create the graph and build the plan that is chosen."""
        tuner = self.context.autotuner
        self._create_graph()
        name = tuner.cached_choice(self.desc)
        if name not in plan_names(self.graph):
            name = None
        self.awaits_measurement = tuner.is_enabled and name is None and not may_measure
        if tuner.is_enabled and name is None and may_measure:
            name = tuner.measure(self.desc, self.graph, self.uids, self.preferred)
            self._create_graph()  # without the plans that were built to be timed
        index = self._build_first() if name is None else plan_names(self.graph).index(name)
        if name is not None:
            self.graph.build_plan_at_index(index)
        self.engine = parse_engine(self.graph.get_plan_name_at_index(index))
        self.workspace = int(self.graph.get_workspace_size())
        untuned = index if name is None else self.preferred or 0
        self.heuristic_engine = parse_engine(self.graph.get_plan_name_at_index(untuned))

    def _build_first(self) -> int:
        """Build the preferred plan, or the first of cuDNN's ranking that can be built and suits the graph; its
        index."""
        count, fallback = self.graph.get_execution_plan_count(), None
        # a convolution with its epilogue is replaced by one without, rather than by an engine of the end of the ranking
        any_engine = not needs_tensor_cores(self.desc) or self.desc.has_tensor("bias")
        for index in ([] if self.preferred is None else [self.preferred]) + list(range(count)):
            try:
                self.graph.build_plan_at_index(index)
            except self.context.module.cudnnGraphNotSupportedError as why:  # the settings leave it out
                log.debug("cuDNN's plan %d of a graph %s cannot be built: %s", index, self.desc.kind, why)
                continue
            except (RuntimeError, ValueError) as why:
                warn_of_engine(self.desc.kind, self.graph.get_plan_name_at_index(index), why)
                continue
            if any_engine or self._has_tensor_cores(index):
                return index
            fallback = index if fallback is None else fallback
        if fallback is not None:
            self.graph.build_plan_at_index(fallback)
            return fallback
        self.graph.build_plans()  # raises, with cuDNN's reasons
        raise self.context.module.cudnnGraphNotSupportedError("none of cuDNN's plans can be built")

    @cached_property
    def uses_tensor_cores(self) -> bool:
        """Whether its engine computes with tensor cores."""
        return self._has_tensor_cores(plan_names(self.graph).index(self.engine.name))

    def _has_tensor_cores(self, index: int) -> bool:
        """Whether the engine of a plan has them: it cannot be built where engines that have them are left out."""
        name = self.graph.get_plan_name_at_index(index)
        if parse_engine(name).has_clusters:
            return True
        if self._without_tensor_cores is None:
            return True
        try:
            self._without_tensor_cores.build_plan_at_index(plan_names(self._without_tensor_cores).index(name))
        except (RuntimeError, ValueError, self.context.module.cudnnGraphNotSupportedError):
            return True
        return False

    @cached_property
    def _without_tensor_cores(self) -> Any:
        """The graph with the engines left out that have tensor cores; None where no other supports it."""
        module = self.context.module
        try:
            with frontend_log_at_debug():
                return self._rank([module.numerical_note.TENSOR_CORE])[0]
        except (RuntimeError, ValueError, module.cudnnGraphNotSupportedError):
            return None

    def _create_graph(self) -> None:
        """Create the graph with its engines ranked, none of them built."""
        self.graph, self.tensors, self.preferred = self._rank([])
        self.uids = {name: tensor.get_uid() for name, tensor in self.tensors.items()}

    def _rank(self, excluded_notes: list[Any]) -> tuple[Any, dict[str, Any], int | None]:
        """A graph with its engines ranked, its tensors by name, and the index of the preferred plan. excluded_notes:
        cuDNN's numerical notes of engines that are left out, in addition to those that the settings exclude."""
        device, module, desc = self.context.device, self.context.module, self.desc
        io = getattr(module.data_type, CUDNN_TYPES[desc.tensors[0][1].dtype])
        compute = module.data_type.DOUBLE if io == module.data_type.DOUBLE else module.data_type.FLOAT
        graph = self.context.create_graph(io, compute)
        tensors = BUILDERS[desc.kind](module, graph, desc)
        graph.validate()
        graph.build_operation_graph()
        self._create_execution_plans(graph)
        note = module.numerical_note
        drop = list(excluded_notes)
        if io == module.data_type.FLOAT and device.precision == "fp32":
            drop += [note.TENSOR_CORE, note.DOWN_CONVERT_INPUTS]
        if device.deterministic:
            drop.append(note.NONDETERMINISTIC)
        if drop:
            graph.deselect_numeric_notes(drop)
        graph.deselect_workspace_greater_than(MAX_WORKSPACE_BYTES)
        graph.check_support()
        return graph, tensors, select_split_k_plan(module, graph, desc)

    def _create_execution_plans(self, graph: Any) -> None:
        module = self.context.module
        try:
            graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
        except module.cudnnGraphNotSupportedError:
            declined = getattr(graph, "_backend_declined", None)  # what the frontend turned into a refusal
            if declined is None or isinstance(declined, module.cudnnGraphNotSupportedError):
                raise
            raise declined from None

    def __call__(self, arrays: Mapping[str, int]) -> None:
        """Execute it on the addresses of the tensors."""
        device = self.context.device
        workspace = workspace_address(device, self.workspace)
        addresses = {self.uids[name]: address for name, address in arrays.items()}
        self.graph.execute(addresses, workspace, handle=self.context.handle)
