"""A worker of a data loader in a process of its own: samples are read and collated there, batches come back by a pipe.

Only this process and its own children write to the pipe. A child ends with its parent, and leaves Ctrl-C to it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.context import BaseContext
from typing import Any

from prototorch.engine.backends.cpu.worker_pool import set_num_threads
from prototorch.errors import UsageError
from prototorch.utils.data.worker import RemoteError, ThreadWorker, WorkerTask

__all__ = ["ProcessWorker", "process_context"]

POLL_SECONDS = 0.2  # how often the parent looks whether the child lives, or it has been closed
PARENT_SECONDS = 5.0  # how often a child looks whether its parent lives


def process_context(context: Any) -> BaseContext:
    """The `multiprocessing` context of a start method's name, or the context itself. Raises UsageError otherwise."""
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise UsageError(f"multiprocessing_context is {context!r}; this system has {', '.join(methods)}")
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise UsageError(
            "multiprocessing_context is the name of a start method ('spawn', 'forkserver', 'fork') or a context of "
            f"multiprocessing.get_context(), got {context!r:.60}"
        )
    return context


class ProcessWorker:
    """Reads in a child process, which is started here and lives until `close`."""

    def __init__(self, task: WorkerTask, number: int, context: BaseContext):
        self._number = number
        self._is_closed = False
        self._lock = threading.Lock()  # an epoch that was left may still wait for an answer when the next one begins
        self._pipe, worker_end = context.Pipe()
        self._process: Any = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(worker_end, task, number, os.getpid()), daemon=True, name=f"DataLoader worker {number}"
        )
        self._process.start()
        worker_end.close()

    @property
    def pid(self) -> int:
        """The process' id."""
        return int(self._process.pid)

    def begin(self, seed: int) -> None:
        """As `Worker.begin`."""
        self._ask(("begin", seed))

    def read(self, key: Any) -> Any:
        """As `Worker.read`. Raises RemoteError for an exception in the child, RuntimeError where the child has died."""
        return self._ask(("read", key))

    def close(self) -> None:
        """End the process, and close its descriptors. Later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(2.0)
            if self._process.is_alive():
                self._process.kill()
        self._process.join()
        if self._lock.acquire(timeout=1.0):  # a thread that waits for an answer sees the end of the process
            self._pipe.close()
            self._process.close()
            self._lock.release()

    def _ask(self, message: tuple[str, Any]) -> Any:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the data loader was closed")
            return self._exchange(message)

    def _exchange(self, message: tuple[str, Any]) -> Any:
        try:
            self._pipe.send(message)
            while not self._pipe.poll(POLL_SECONDS):
                if self._is_closed:
                    raise RuntimeError("the data loader was closed")
                if not self._process.is_alive() and not self._pipe.poll(0):
                    raise EOFError
            is_error, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(1.0)
            raise RuntimeError(
                f"DataLoader worker {self._number} (pid {self.pid}) exited unexpectedly with exit code "
                f"{self._process.exitcode}. A script that starts processes must do so under "
                "`if __name__ == '__main__':`"
            ) from None
        if is_error:
            try:
                raise answer
            finally:
                del answer  # its traceback refers to this frame
        return answer


def serve(pipe: Any, task: WorkerTask, number: int, parent: int) -> None:
    """The child's loop: answer each message by (False, value) or (True, RemoteError), until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_num_threads(1)
    threading.current_thread().name = f"worker-{number}"
    worker = ThreadWorker(task, number)
    while True:
        while not pipe.poll(PARENT_SECONDS):
            if os.getppid() != parent:
                return
        try:
            kind, value = pipe.recv()
        except EOFError:
            return
        try:
            if kind == "begin":
                worker.begin(value)
                answer: tuple[bool, Any] = (False, None)
            else:
                answer = (False, worker.read(value))
        except Exception as error:
            answer = (True, RemoteError.of(error))
        _send(pipe, answer)


def _send(pipe: Any, answer: tuple[bool, Any]) -> None:
    """Send an answer; where it cannot be pickled, the error of that."""
    try:
        pipe.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        text = answer[1].text if answer[0] else RemoteError.of(error).text
        name = answer[1].name if answer[0] else type(error).__name__
        pipe.send((True, RemoteError(None, name, text)))
