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

from tests.cuda_offline.shim_device import COMPILER

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
