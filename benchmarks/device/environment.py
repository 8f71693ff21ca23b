"""Part 0: what this machine has, and whether the package can be imported on it.

    python -m benchmarks.device.environment

Exit code 1 where prototorch cannot be imported, or a library of the GPU cannot.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from benchmarks.device.state import STAND_IN, installed_versions
from benchmarks.device.wheels import DOWNLOAD

QUERY = "name,driver_version,memory.total,memory.used,compute_cap,clocks.sm,clocks.mem,power.limit,utilization.gpu"
TOOLS = ("nvcc", "ptxas", "ncu", "compute-sanitizer", "g++")
#: what must be there: where it is missing, the package's name and what follows
REQUIRED = {"lark": "the model language's parser", "cupy": "arrays on a GPU", "cudnn": "cuDNN's graphs"}


def machine_lines() -> Iterator[str]:
    """Processor, memory, GPU and tools."""
    yield f"Python {sys.version.split()[0]} at {sys.executable}, {platform.platform()}"
    yield f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}"
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    yield f"memory {facts['MemTotal'].strip()}, available {facts['MemAvailable'].strip()}"
    disk = shutil.disk_usage(".")
    yield f"disk {disk.free / 2**30:.1f} GiB free"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        yield from (done.stdout or done.stderr).strip().splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"nvidia-smi: {error}"
    yield "tools: " + ", ".join(f"{tool} {shutil.which(tool) or 'not found'}" for tool in TOOLS)


def import_lines(names: dict[str, str]) -> Iterator[tuple[bool, str]]:
    """Whether each module can be imported, with a line about it; warnings are printed, not raised."""
    for name, purpose in names.items():
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                module = importlib.import_module(name)
            except Exception as error:  # whatever it is, the other modules are looked at
                yield False, f"import {name} FAILED ({purpose}): {type(error).__name__}: {str(error)[:400]}"
                continue
        version = getattr(module, "__version__", "")
        yield True, f"import {name} {version}: {time.perf_counter() - begin:.1f} s"
        for one in caught:
            yield True, f"    {one.category.__name__}: {str(one.message)[:200]} ({one.filename}:{one.lineno})"


def main() -> int:
    """Print all; 0 where what is needed is there."""
    for line in machine_lines():
        print(line)
    for name, version in installed_versions().items():
        print(f"  {name} {version}")
    required = {} if os.environ.get(STAND_IN) else REQUIRED
    success = True
    for found, line in import_lines({**required, "prototorch": "the package", "prototorch.cli": "the command"}):
        success = success and found
        print(line)
    for _, line in import_lines({"pytest": "part 2", "xdist": "part 2", "torch": "parts 3 and 4"}):
        print(line)
    if not success:
        print(f"what is missing can be carried as wheels: {DOWNLOAD}")
    return 0 if success else 1


if __name__ == "__main__":
    sys.exit(main())
