"""Compiling in several processes at once (see `compiler.py`).

The IR is emitted here, and handed out while more is emitted; when there is no more, this process compiles as well. What
a process fails to do is done here, so that nothing depends on there being one.
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

from prototorch.backends.cpu.native import compiler
from prototorch.backends.cpu.native.compiler import object_code

_MOST = 8  # processes that are started


class Processes:
    """Up to ``helpers`` processes beside this one, for one batch of kernels. ``aside``: they give way to all others,
    and this one compiles nothing."""

    def __init__(self, helpers: int, name: str, features: str, aside: bool = False):
        self.helpers = min(helpers, _MOST) if sys.executable and not getattr(sys, "frozen", False) else 0
        self.name, self.features, self.aside = name, features, aside
        self._waiting: deque[tuple[str, str]] = deque()
        self._more = threading.Condition()
        self._over = False
        self._made: dict[str, bytes] = {}

    def compile(self, kernels: Iterable[tuple[str, str]]) -> dict[str, bytes]:
        """The object code of kernels given as symbol and IR, by symbol."""
        running = [found for _ in range(self.helpers) if (found := _started(self.aside)) is not None]
        threads = [threading.Thread(target=self._feed, args=(one,), daemon=True) for one in running]
        done = False
        try:
            for thread in threads:
                thread.start()
            for kernel in kernels:
                with self._more:
                    self._waiting.append(kernel)
                    self._more.notify()
            self._finish()
            if not self.aside:
                self._here()
            for thread in threads:
                thread.join()
            if not self.aside:
                self._here()  # what a process gave back
            done = True
        finally:
            self._finish()
            for one in running:
                _ended(one, done)
        return self._made

    def _finish(self) -> None:
        with self._more:
            self._over = True
            self._more.notify_all()

    def _here(self) -> None:
        while (kernel := self._next(wait=False)) is not None:
            symbol, ir = kernel
            self._made[symbol] = object_code(ir, self.name, self.features)

    def _next(self, wait: bool) -> tuple[str, str] | None:
        with self._more:
            while wait and not self._waiting and not self._over:
                self._more.wait()
            return self._waiting.popleft() if self._waiting else None

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Have one process compile until nothing is left; where it fails, its kernel goes back."""
        assert process.stdin is not None
        assert process.stdout is not None
        while (kernel := self._next(wait=True)) is not None:
            symbol, ir = kernel
            try:
                process.stdin.write(compiler.request(ir, self.name, self.features))
                process.stdin.flush()
                length = compiler.LENGTH.unpack(compiler.exactly(process.stdout, compiler.LENGTH.size))[0]
                code = compiler.exactly(process.stdout, length)
            except (OSError, EOFError, ValueError):
                with self._more:
                    self._waiting.append(kernel)
                return
            self._made[symbol] = code


def _started(aside: bool = False) -> subprocess.Popen[bytes] | None:
    home = str(Path(llvmlite.__file__).parents[1])
    # Nothing but llvmlite is imported there, whatever the environment says: no site packages' start-up code, no user's.
    command = [sys.executable, "-I", "-S", str(Path(compiler.__file__)), home, *(["aside"] if aside else [])]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                cwd=os.sep, close_fds=True)  # fmt: skip
    except OSError:
        return None


def _ended(process: subprocess.Popen[bytes], politely: bool) -> None:
    """End a process: it has nothing left to do, or (after an error here) nobody wants what it does."""
    if not politely:
        process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
    process.wait()
