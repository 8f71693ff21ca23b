"""A command in a process of its own that cannot take others with it: it is ended with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class ProcessResult(NamedTuple):
    """The output of a command, and its exit code; ``code`` is None where it was ended by the time limit."""

    code: int | None
    out: str
    err: str


def run_isolated(command: Sequence[str], limit: float) -> ProcessResult:
    """Run a command for at most ``limit`` seconds.

    Its output goes into files: processes that it leaves behind (compilers of PyTorch's do stay) may hold a pipe open
    for ever. They are ended with it.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err, start_new_session=True)
        code: int | None = None
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return ProcessResult(code, out.read(), err.read())
