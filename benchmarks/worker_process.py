"""The other end of a worker: start a contender's process, ask it, end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.contender import UnsupportedError
from benchmarks.peers import PeerEntry
from benchmarks.workloads import Workload

ROOT = Path(__file__).resolve().parent.parent
#: where the libraries keep compiled code, each below one folder: empty for a cold start
CACHES = {
    "PROTOTORCH_CACHE": "prototorch", "JAX_COMPILATION_CACHE_DIR": "jax", "TORCHINDUCTOR_CACHE_DIR": "inductor",
}  # fmt: skip


def environment(threads: int, cache: Path | None = None) -> dict[str, str]:
    """The variables of a contender's process; ``cache`` is a folder for compiled code in place of the usual one."""
    count = str(threads)
    made = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    made.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: no library compiles its modules again at each start
    made |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count)
    if cache is not None:
        made |= {name: str(cache / folder) for name, folder in CACHES.items()}
        made |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    return made


class WorkerProcess:
    """A contender in its own process. ``began``: the moment of its start, by `time.perf_counter`.

    `ask` raises `UnsupportedError` with the reason where the contender cannot, has died, or has not answered after
    ``patience``
    seconds. As a context it is ended on leaving.
    """

    def __init__(
        self, entry: PeerEntry, row: Workload, threads: int, cache: Path | None = None, patience: float = 1800
    ):
        self.entry, self.patience, self.late = entry, patience, False
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        command = [sys.executable, "-m", "benchmarks.worker", entry.name, row.name, "--threads", str(threads)]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(threads, cache),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    def ask(self, do: str, **given: Any) -> Any:
        """The answer to a command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = threading.Timer(self.patience, self._give_up)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, **given}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise UnsupportedError(self._death())
        answer = json.loads(line)
        if "failed" in answer:
            raise UnsupportedError(answer["failed"])
        return answer["ok"]

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        try:
            self.process.communicate(timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def _give_up(self) -> None:
        self.late = True
        self.process.kill()

    def _death(self) -> str:
        code = self.process.wait()
        if self.late:
            return f"no answer within {self.patience:.0f} s"
        self.errors.seek(0)
        error_lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return f"its process ended with {code}{f': {error_lines[-1].strip()[:200]}' if error_lines else ''}"

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
