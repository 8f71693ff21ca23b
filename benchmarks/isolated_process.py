"""A command in a process of its own that cannot take others with it: it is ended with all that it has started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WAIT_SECONDS = 2.0  # between two calls of ``on_wait``
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


class ProcessResult(NamedTuple):
    """The output of a command, and its exit code; ``code`` is None where it was ended by the time limit."""

    code: int | None
    out: str
    err: str


def run_isolated(
    command: Sequence[str],
    limit: float,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
    on_wait: Callable[[], None] | None = None,
) -> ProcessResult:
    """Run a command for at most ``limit`` seconds.

    Its output goes into files: processes that it leaves behind (compilers of PyTorch's do stay) may hold a pipe open
    for ever. They are ended with it, and it is ended where this process dies (on Linux).

    environment: default: this process's. output: a file to which both streams are appended as they come; ``out`` and
    ``err`` of the result are empty then. on_wait: called every `WAIT_SECONDS` seconds; what it raises ends the command.
    """
    if output is not None:
        with output.open("ab") as both:
            return ProcessResult(_run(command, limit, environment, both, both, on_wait), "", "")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        code = _run(command, limit, environment, out, err, on_wait)
        out.seek(0)
        err.seek(0)
        return ProcessResult(code, out.read(), err.read())


def _run(
    command: Sequence[str],
    limit: float,
    environment: Mapping[str, str] | None,
    out: object,
    err: object,
    on_wait: Callable[[], None] | None,
) -> int | None:
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=out,
        stderr=err,
        start_new_session=True,  # type: ignore[call-overload]
        preexec_fn=_end_with_parent,  # this process has one thread
    )
    end = time.monotonic() + limit
    try:
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return int(process.wait(timeout=min(left, WAIT_SECONDS if on_wait is not None else left)))
            if on_wait is not None:
                on_wait()
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
