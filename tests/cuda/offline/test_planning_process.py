"""Planning in processes of their own: with nothing loaded before, and with an eye on what is printed.

Needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prototorch.cuda.cudart import CUDART_VARIABLE

HERE = Path(__file__).parent
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}"),
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64") or not LOADER.exists(),
        reason="the loader of x86-64 Linux is run without its cache",
    ),
]


def run(program: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Run a program of this folder; the loader's cache, in which a system's CUDA is listed, is not read."""
    command = [LOADER, "--inhibit-cache", sys.executable, HERE / program, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_attention_is_planned_where_only_pip_installed_cuda(tmp_path):
    """As on a GPU, cuDNN asks CUDA's runtime library for the device. It must be found without PyTorch's help; that it
    sees no device is what it then says here."""
    done = run("plan_without_torch.py", tmp_path, {"PATH": "/usr/bin:/bin"})
    report = json.loads(done.stdout)
    assert not report["torch"]
    assert report["failures"].keys() == {"sdpa", "sdpa_backward"}
    for failure in report["failures"].values():
        assert failure.startswith("PlanningError: RuntimeError: "), failure
        assert "no CUDA-capable device" in failure, failure
    assert len(report["cudarts"]) == 1, "never two versions in a process"
    for kind in report["failures"]:
        assert f"cuDNN failed to plan a graph of the kind {kind} (" in done.stderr


def test_a_missing_library_is_warned_of(tmp_path):
    done = run("plan_without_torch.py", tmp_path, {"PATH": "/usr/bin:/bin", CUDART_VARIABLE: "/gone/libcudart.so.13"})
    assert done.stderr.count("attention runs as products") == 1
    assert f"{CUDART_VARIABLE} names a library that cannot be loaded" in done.stderr


def test_refusals_print_nothing(tmp_path):
    done = run("plan_refused.py", tmp_path)
    assert done.stdout == "6 of 6\n"
    assert done.stderr == ""
