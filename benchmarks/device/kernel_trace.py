"""Kernels of a step, from traces of torch.profiler (CUPTI's records as Chrome's trace events). Standard library only.

Two traces are read: one of a run kernel by kernel, in which each launch of the plan lies in a range of its own, so that
its kernels are known; and one of replays of the captured graph, which has the times that count. CUPTI records each
kernel of a replayed graph, all with the correlation id of the graph's launch.
"""

from __future__ import annotations

import json
import statistics
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: before the label of a range of one launch
RANGE = "launch: "
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True)
class TracedKernel:
    """A kernel or copy on the GPU; times in microseconds."""

    name: str
    start: float
    duration: float
    correlation: int
    label: str = ""

    @property
    def end(self) -> float:
        """When it was done."""
        return self.start + self.duration


@dataclass
class Replay:
    """One run of the captured graph."""

    kernels: list[TracedKernel] = field(default_factory=list)

    @property
    def span(self) -> float:
        """Microseconds from the first kernel's start to the last one's end."""
        return max(k.end for k in self.kernels) - self.kernels[0].start

    @property
    def busy(self) -> float:
        """Microseconds in which some kernel runs."""
        return self.span - sum(self.gaps())

    def gaps(self) -> list[float]:
        """Microseconds between kernels in which none runs."""
        found, end = [], self.kernels[0].end
        for one in self.kernels[1:]:
            if one.start > end:
                found.append(one.start - end)
            end = max(end, one.end)
        return found


def read_events(path: Path) -> list[dict[str, Any]]:
    """The complete events of a trace, by their start."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return sorted((e for e in events if e.get("ph") == "X"), key=lambda e: float(e["ts"]))


def read_kernels(events: Iterable[Mapping[str, Any]]) -> list[TracedKernel]:
    """Kernels and copies on the GPU."""
    return [
        TracedKernel(e["name"], float(e["ts"]), float(e["dur"]), int(e["args"].get("correlation", -1)))
        for e in events
        if e.get("cat") in _ON_GPU
    ]


def label_kernels(events: Sequence[Mapping[str, Any]]) -> list[TracedKernel]:
    """The kernels with the label of the range in which they were launched: the range around the call of CUDA's with
    the same correlation id, else the one around the kernel itself (each range waits for its kernels)."""
    ranges = [
        (float(e["ts"]), float(e["ts"]) + float(e["dur"]), e["name"][len(RANGE) :])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith(RANGE)
    ]
    starts = [begin for begin, _, _ in ranges]
    calls = {
        int(e["args"]["correlation"]): float(e["ts"])
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    labelled = []
    for one in read_kernels(events):
        moment = calls.get(one.correlation, one.start)
        index = bisect_right(starts, moment) - 1
        label = ranges[index][2] if index >= 0 and moment <= ranges[index][1] else ""
        labelled.append(TracedKernel(one.name, one.start, one.duration, one.correlation, label))
    return labelled


def split_replays(kernels: Sequence[TracedKernel], count: int) -> list[Replay]:
    """The runs of the graph: by the correlation id of the graph's launch, else ``count`` runs of as many kernels."""
    by_launch: dict[int, Replay] = defaultdict(Replay)
    for one in kernels:
        by_launch[one.correlation].kernels.append(one)
    largest = max((len(r.kernels) for r in by_launch.values()), default=0)
    found = [r for r in by_launch.values() if len(r.kernels) == largest]
    if len(found) == count or not kernels:
        return found
    size = len(kernels) // count
    return [Replay(list(kernels[i * size : (i + 1) * size])) for i in range(count)] if size else []


def median_replay(replays: Sequence[Replay]) -> Replay:
    """The one whose span is the median."""
    spans = [r.span for r in replays]
    return min(replays, key=lambda r: abs(r.span - statistics.median(spans)))


def transfer_labels(replay: Replay, labelled: Iterable[TracedKernel]) -> Replay:
    """The kernels of a replay with the labels of those of the same name in the run kernel by kernel, in its order."""
    queues: dict[str, deque[str]] = defaultdict(deque)
    for one in labelled:
        queues[one.name].append(one.label)
    kernels = []
    for one in replay.kernels:
        label = queues[one.name].popleft() if queues[one.name] else ""
        kernels.append(TracedKernel(one.name, one.start, one.duration, one.correlation, label))
    return Replay(kernels)
