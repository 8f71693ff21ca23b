"""Autotuning of cuDNN graphs: the execution plan that was measured to be the fastest, else cuDNN's own first choice.

Choices are cached in a file for each device, compute capability, and versions of cuDNN and of its frontend, in the
user's cache (`prototorch.engine.backends.user_cache`); in it by the graph, the precision, `deterministic`, and the
limit of the workspace.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from prototorch.cuda.cudnn.candidate_timer import CandidateTimer
from prototorch.cuda.cudnn.graph_desc import GraphDesc
from prototorch.cuda.cudnn.trial_data import make_trial_arrays
from prototorch.engine.backends.user_cache import usable_folder
from prototorch.errors import ResourceError

__all__ = ["PlanAutotuner", "plan_names"]

log = logging.getLogger(__name__)

MAX_CANDIDATES = 12  # of cuDNN's ranking that are timed


def plan_names(graph: Any) -> list[str]:
    """The names of a cuDNN graph's plans (an engine and its knobs), in cuDNN's ranking."""
    return [graph.get_plan_name_at_index(i) for i in range(graph.get_execution_plan_count())]


class PlanAutotuner:
    """The fastest plans of one device. max_workspace_bytes: of a plan."""

    def __init__(self, context: Any, max_workspace_bytes: int = 1 << 30):
        self.context, self.max_workspace_bytes = context, max_workspace_bytes
        self.has_warned = False

    @property
    def is_enabled(self) -> bool:
        """Whether the settings ask for autotuning."""
        return bool(getattr(getattr(self.context.device, "settings", None), "autotune", False))

    @cached_property
    def timer(self) -> CandidateTimer:
        """The timer of the device."""
        return CandidateTimer(self.context.device)

    @cached_property
    def cache_name(self) -> str:
        """The name of the cache file: of the device, its compute capability, and the versions of cuDNN."""
        device, module = self.context.device, self.context.module
        major, minor = getattr(device, "capability", (0, 0))
        name = f"{getattr(device, 'name', 'device')} sm{major}{minor}"
        return f"cudnn-{re.sub(r'[^A-Za-z0-9]+', '-', name)}-{module.backend_version()}-{module.__version__}.json"

    @cached_property
    def fastest_plans(self) -> dict[str, str]:
        """The name of the fastest plan by `_key`; empty where the file cannot be read."""
        return self._load()

    def cached_choice(self, desc: GraphDesc) -> str | None:
        """The name of the plan that was the fastest for a graph; None where it was not measured."""
        return self.fastest_plans.get(self._key(desc)) if self.is_enabled else None

    def measure(self, desc: GraphDesc, graph: Any, uids: dict[str, int], preferred: int | None = None) -> str | None:
        """Time the plans of a graph and cache the choice: the name of the fastest plan, or None where none can be
        timed.

        graph: supported by cuDNN, without built plans; it is not to be used afterwards, for it holds all of its plans.
        uids: of the graph's tensors by name. preferred: the index of a plan that is timed before those of the ranking
        (default: none). The tensors and the workspace are allocated, and freed again. Must not be
        called during a step or a capture.
        """
        names, device = plan_names(graph), self.context.device
        try:
            arrays = make_trial_arrays(device, desc)
            workspace_bytes = self._build_candidates(
                graph, [*([] if preferred is None else [preferred]), *range(len(names))]
            )
            workspace = device.alloc(max(workspace_bytes.values(), default=0))
        except (ResourceError, MemoryError) as error:
            self._warn(desc, f"not enough memory for its tensors: {error}")
            return None
        addresses = {uids[name]: device.pointer(array) for name, array in arrays.items()}
        address = device.pointer(workspace)

        def runner(index: int) -> Callable[[], None]:
            return lambda: device.enqueue(
                desc.kind,
                lambda: graph.execute_plan_at_index(addresses, address, index, handle=self.context.handle),
            )

        fastest = self.timer.choose({index: runner(index) for index in workspace_bytes})
        if fastest is None:
            self._warn(desc, f"none of its {len(names)} plans can be executed")
            return None
        self._save(self._key(desc), names[fastest])
        return names[fastest]

    def _build_candidates(self, graph: Any, ranking: Sequence[int]) -> dict[int, int]:
        """Build the first plans of a ranking: the bytes of workspace by index. What does not build is left out."""
        workspace_bytes: dict[int, int] = {}
        for index in dict.fromkeys(ranking):
            if len(workspace_bytes) == MAX_CANDIDATES:
                break
            try:
                graph.build_plan_at_index(index)
                workspace_bytes[index] = int(graph.get_workspace_size_plan_at_index(index))
            except Exception as error:  # the settings exclude it, or its engine does not support the graph
                log.debug("cuDNN's plan %d cannot be built: %s", index, error)
        return workspace_bytes

    def _warn(self, desc: GraphDesc, reason: str) -> None:
        if not self.has_warned:
            log.warning("autotune: cuDNN's first plan is used for a graph %s: %s", desc.kind, reason)
        self.has_warned = True

    def _key(self, desc: GraphDesc) -> str:
        device = self.context.device
        return f"{desc} {device.precision} deterministic={device.deterministic} workspace={self.max_workspace_bytes}"

    def _load(self) -> dict[str, str]:
        folder = usable_folder()
        content = None if folder is None else folder.read(self.cache_name)
        try:
            plans = {} if content is None else json.loads(content)
        except ValueError:
            return {}
        return {k: v for k, v in plans.items() if isinstance(v, str)} if isinstance(plans, dict) else {}

    def _save(self, key: str, name: str) -> None:
        """Cache a choice. The file is read again before it is replaced, for another process may have added to it; where
        the folder is not writable, the next process measures again."""
        self.fastest_plans.update(self._load())
        self.fastest_plans[key] = name
        folder = usable_folder()
        if folder is not None:
            folder.write(self.cache_name, json.dumps(self.fastest_plans, indent=0, sort_keys=True).encode())
