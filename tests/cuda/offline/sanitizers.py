"""The tests of the kernels' logic again in a process of its own, under one of gcc's sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GCC = shutil.which("gcc")
_LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


def run_sanitized(sanitizer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, under the sanitizer "address" or "thread". Skips where gcc does not have it."""
    assert GCC is not None
    library = _LIBRARIES[sanitizer]
    found = subprocess.run([GCC, f"-print-file-name={library}"], capture_output=True, text=True, check=True).stdout
    if not Path(found.strip()).is_file():
        pytest.skip(f"gcc's {sanitizer} sanitizer is not installed")
    with tempfile.TemporaryDirectory() as folder:
        reports = str(Path(folder) / "report")
        environment = {
            **os.environ, "LD_PRELOAD": found.strip(), "SHIM_SANITIZER": sanitizer, "SHIM_REPORTS": reports,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)]),
            "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": f"log_path={reports}",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parent.parent)


def run_logic_tests(sanitizer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests named by the arguments, under the sanitizer."""
    return run_sanitized(sanitizer, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", *arguments)
