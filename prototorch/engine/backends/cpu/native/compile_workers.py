"""Compiling in several processes at once (see `compiler.py`).

The IR is emitted in this process and sent to the workers meanwhile; when all is emitted, this process compiles as well,
also what a worker failed to compile, so that workers are optional.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import llvmlite

from prototorch.engine.backends.cpu.native import llvm_compiler
from prototorch.engine.backends.cpu.native.llvm_compiler import compile_ir

_MAX_WORKERS = 8  # workers


class CompileWorkers:
    """Up to ``helpers`` worker processes for one batch of kernels.

    background: the workers run at low priority, and this process compiles nothing.
    """

    def __init__(self, helpers: int, name: str, features: str, background: bool = False):
        self.helpers = min(helpers, _MAX_WORKERS) if sys.executable and not getattr(sys, "frozen", False) else 0
        self.name, self.features, self.background = name, features, background
        self._waiting: deque[tuple[str, str]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._objects: dict[str, bytes] = {}

    def compile(self, kernels: Iterable[tuple[str, str]]) -> dict[str, bytes]:
        """The object code of kernels given as symbol and IR, by symbol."""
        running = [worker for _ in range(self.helpers) if (worker := _start_worker(self.background)) is not None]
        threads = [threading.Thread(target=self._feed, args=(one,), daemon=True) for one in running]
        is_finished = False
        try:
            for thread in threads:
                thread.start()
            for kernel in kernels:
                with self._changed:
                    self._waiting.append(kernel)
                    self._changed.notify()
            self._close()
            if not self.background:
                self._compile_here()
            for thread in threads:
                thread.join()
            if not self.background:
                self._compile_here()  # what a worker gave back
            is_finished = True
        finally:
            self._close()
            for one in running:
                _stop_worker(one, is_finished)
        return self._objects

    def _close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _compile_here(self) -> None:
        while (kernel := self._next(wait=False)) is not None:
            symbol, ir = kernel
            self._objects[symbol] = compile_ir(ir, self.name, self.features)

    def _next(self, wait: bool) -> tuple[str, str] | None:
        with self._changed:
            while wait and not self._waiting and not self._closed:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Have a worker compile until nothing is left; where it fails, its kernel is put back."""
        assert process.stdin is not None
        assert process.stdout is not None
        while (kernel := self._next(wait=True)) is not None:
            symbol, ir = kernel
            try:
                process.stdin.write(llvm_compiler.encode_request(ir, self.name, self.features))
                process.stdin.flush()
                length = llvm_compiler.LENGTH.unpack(
                    llvm_compiler.read_exactly(process.stdout, llvm_compiler.LENGTH.size)
                )[0]
                code = llvm_compiler.read_exactly(process.stdout, length)
            except (OSError, EOFError, ValueError):
                with self._changed:
                    self._waiting.append(kernel)
                return
            self._objects[symbol] = code


def _start_worker(background: bool = False) -> subprocess.Popen[bytes] | None:
    home = str(Path(llvmlite.__file__).parents[1])
    # Nothing but llvmlite is imported there, whatever the environment says: no site packages' start-up code, no user's.
    command = [
        sys.executable,
        "-I",
        "-S",
        str(Path(llvm_compiler.__file__)),
        home,
        *(["background"] if background else []),
    ]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            close_fds=True,
        )
    except OSError:
        return None


def _stop_worker(process: subprocess.Popen[bytes], graceful: bool) -> None:
    """Stop a worker: its work is done, or (after an error here) no longer needed."""
    if not graceful:
        process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
    process.wait()
