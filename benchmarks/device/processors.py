"""How many processes may run tests side by side: by processors, a container's share of them, and the GPU's memory."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

MAX_WORKERS = 16
#: of the GPU's memory for each process: CUDA's context, cuDNN, compiled kernels, and the tests' arrays
WORKER_MIB = 2048


def worker_count(has_gpu: bool = True) -> int:
    """At least 1, at most `MAX_WORKERS`."""
    limits = [MAX_WORKERS, len(os.sched_getaffinity(0)), cpu_quota()]
    if has_gpu:
        free = free_gpu_mib()
        limits.append(None if free is None else free // WORKER_MIB)
    return max(1, min(limit for limit in limits if limit is not None))


def cpu_quota(root: Path = Path("/")) -> int | None:
    """The processors whose time the control group of this process may use, rounded up; None without a limit. A
    container sees its own group at the root."""
    base = root / "sys/fs/cgroup"
    groups = [line.split(":", 2) for line in _read_text(root / "proc/self/cgroup").splitlines() if line.count(":") >= 2]
    quotas = []
    for _, controllers, own in groups:
        is_v2 = not controllers
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        top = base if is_v2 else base / "cpu"
        folder = top / own.strip("/")
        while True:
            words = (
                _read_text(folder / "cpu.max")
                if is_v2
                else " ".join(_read_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
            )
            quotas.append(_processors(words))
            if folder == top:
                break
            folder = folder.parent
    return min((n for n in quotas if n is not None), default=None)


def _processors(words: str) -> int | None:
    """Of "QUOTA PERIOD", in microseconds; None for "max" or -1."""
    try:
        quota, period = map(int, words.split())
    except ValueError:
        return None
    return math.ceil(quota / period) if quota > 0 < period else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def free_gpu_mib() -> int | None:
    """MiB of the first GPU's memory that nobody has taken; None where the driver does not tell."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
        return int(done.stdout.split()[0])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
