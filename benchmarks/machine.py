"""What a figure depends on: the processor, its threads, the versions; and a process's own peak of memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np

import prototorch as pt


def peak_memory() -> int:
    """The most bytes this process has held resident.

    From Linux' status file, for the counter of `resource` there begins with what the parent process held.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def available_cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """The processor's name, and the vectors it has."""
    name, flags = platform.processor() or platform.machine(), ""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return name
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        if key.strip() == "flags":
            flags = value
    has = [label for flag, label in (("avx2", "AVX2"), ("avx512f", "AVX512"), ("amx_tile", "AMX")) if flag in flags]
    return f"{name} ({', '.join(has)})" if has else name


def cpu_load(seconds: float = 0.5) -> float:
    """The share of the processors' time, 0 to 1, that is in use over the next moments; NaN where it is not known."""

    def read_counters() -> tuple[int, int]:
        values = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(values), values[3] + values[4]

    try:
        first = read_counters()
        time.sleep(seconds)
        second = read_counters()
    except OSError:
        return float("nan")
    return 1 - (second[1] - first[1]) / max(second[0] - first[0], 1)


def load_average() -> float:
    """The mean number of running processes over the last minute: above the cores, figures are rough."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def versions() -> dict[str, str]:
    """Ours, and what it stands on."""
    return {"prototorch": pt.__version__, "NumPy": np.__version__, "Python": platform.python_version()}
