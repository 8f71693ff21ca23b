"""Autotuning of cuDNN graphs: the execution plan that was measured to be the fastest, else cuDNN's own first choice.

Measurements are cached in a file for each device and version, in the user's cache (`prototorch.backends.user_cache`).
"""

from __future__ import annotations

import json
import logging
import re
from functools import cached_property
from typing import Any

from prototorch.backends.user_cache import usable_folder

__all__ = ["PlanAutotuner"]

log = logging.getLogger(__name__)

MAX_CANDIDATES = 12  # of cuDNN's ranking that are timed
TIMED_RUNS = 5


class PlanAutotuner:
    """The fastest plans of one device."""

    def __init__(self, context: Any):
        self.context = context

    @cached_property
    def cache_name(self) -> str:
        """The name of the cache file of this device and cuDNN version."""
        device = re.sub(r"\W+", "-", str(getattr(self.context.device, "name", "device")))
        return f"cudnn-{device}-{self.context.module.backend_version()}.json"

    @cached_property
    def fastest_plans(self) -> dict[str, str]:
        """The name of the fastest plan by the text of the graph; empty where the file cannot be read."""
        folder = usable_folder()
        content = None if folder is None else folder.read(self.cache_name)
        try:
            plans = {} if content is None else json.loads(content)
        except ValueError:
            return {}
        return plans if isinstance(plans, dict) else {}

    def select_plan(self, plan: Any) -> int | None:
        """The index of the plan in cuDNN's ranking; None for the first that works."""
        device = self.context.device
        if not getattr(getattr(device, "settings", None), "autotune", False):
            return None
        key = f"{plan.desc} {device.precision} {device.deterministic}"
        names = [plan.graph.get_plan_name_at_index(i) for i in range(plan.graph.get_execution_plan_count())]
        if self.fastest_plans.get(key) not in names:
            best = self._find_fastest(plan, len(names))
            if best is None:
                return None
            self.fastest_plans[key] = names[best]
            self._save()
        return names.index(self.fastest_plans[key])

    def _find_fastest(self, plan: Any, count: int) -> int | None:
        times: dict[int, float] = {}
        for i in range(min(count, MAX_CANDIDATES)):
            try:
                times[i] = self._time_plan(plan, i)
            except Exception as why:  # it fails after all, or needs more memory than there is
                log.debug("cuDNN's plan %d of %s cannot be timed: %s", i, plan.desc.kind, why)
        return min(times, key=times.__getitem__) if times else None

    def _time_plan(self, plan: Any, index: int) -> float:
        device, graph = self.context.device, plan.graph
        graph.build_plan_at_index(index)
        workspace_bytes = int(graph.get_workspace_size_plan_at_index(index))
        device.reserve(workspace_bytes)
        buffers = {name: device.empty((p.size,), p.dtype) for name, p in plan.desc.tensors}
        addresses = {plan.tensors[name].get_uid(): device.pointer(a) for name, a in buffers.items()}
        address = device.pointer(device.workspace()) if workspace_bytes else 0
        start, end = device.create_event(timing=True), device.create_event(timing=True)
        seconds = []
        for _ in range(TIMED_RUNS):
            device.record_event(start, device.compute_stream)
            graph.execute_plan_at_index(addresses, address, index, handle=self.context.handle)
            device.record_event(end, device.compute_stream)
            device.synchronize_event(end)
            seconds.append(device.elapsed_ms(start, end))
        return min(seconds)

    def _save(self) -> None:
        """Write the cache; where the folder is not writable, the next process measures again."""
        folder = usable_folder()
        if folder is not None:
            folder.write(self.cache_name, json.dumps(self.fastest_plans, indent=0, sort_keys=True).encode())
