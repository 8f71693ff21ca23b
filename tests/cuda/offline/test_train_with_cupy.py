"""CuPy itself, unchanged, with a CUDA that the host plays: what `CupyDevice` gives it, it takes.

Needs CuPy and NVRTC, but no GPU: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.offline.shim_device import COMPILER

pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed: the extra cuda13"),
    pytest.mark.skipif(COMPILER is None or shutil.which("nm") is None, reason="g++ and nm are needed"),
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="CuPy's calls are led away on x86-64 alone",
    ),
]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_training(precision, tmp_path):
    """Memory, copies, events, a recorded step, kernels' arguments as CuPy puts them down: the numbers are the CPU's."""
    program = Path(__file__).with_name("train_with_cupy.py")
    done = subprocess.run([sys.executable, program, precision, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "passed" in done.stdout


def test_all_work_is_on_the_streams_of_its_own_gpu(tmp_path):
    """Each launch, copy and event, of models and of tensors, with two GPUs, in several threads: none is on the default
    stream, and none on a stream of a GPU that is not the thread's current one."""
    program = Path(__file__).with_name("streams_with_cupy.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout


def test_the_first_check_on_a_gpu(tmp_path):
    """Every kind of call, as `benchmarks.gpu_calls` makes them: CuPy takes what a step does during a capture, and
    refuses what it must."""
    program = Path(__file__).with_name("calls_with_cupy.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "reading back during a capture: RuntimeError" in done.stdout
    assert "taking memory during a capture: taken" in done.stdout
