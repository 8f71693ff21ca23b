"""Starts the processes that read untrusted files: a script of this package, in Python's isolated mode."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ReadingProcess", "ask_reading_process", "start_reading_process"]

ReadingProcess = subprocess.Popen[bytes]

_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
_FIXED_VARIABLES = {
    "HDF5_PLUGIN_PRELOAD": "::",  # no filter plugin is loaded
    "HDF5_USE_FILE_LOCKING": "FALSE",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def start_reading_process(script: str, request: Mapping[str, object]) -> ReadingProcess:
    """Start a script of this folder, which gets the request as one line of JSON on its standard input.

    ``python_path`` is added to the request: the folders of modules, without those next to the file that is read.
    """
    environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | _FIXED_VARIABLES
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(Path(__file__).with_name(script))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
    )
    assert process.stdin is not None
    python_path = [entry for entry in sys.path if os.path.isabs(entry)]
    with contextlib.suppress(BrokenPipeError):  # it ended immediately; its status says why
        process.stdin.write(json.dumps({**request, "python_path": python_path}).encode() + b"\n")
    return process


def ask_reading_process(script: str, request: Mapping[str, object], timeout: float) -> bytes | None:
    """The answer of a script that answers once, with no more than its request; None where it took more than ``timeout``
    seconds. It has ended then."""
    process = start_reading_process(script, request)
    try:
        return process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.communicate()
