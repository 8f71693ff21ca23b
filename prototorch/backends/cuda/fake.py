"""A stand-in for a GPU, for tests: its memory is NumPy's, and it keeps a log of what it was asked.

It is as lazy as a GPU may be: what a stream is given is done when the host waits for it, not before. So a host buffer
that is written too early, a result that is read without waiting, or a missing event show as wrong numbers. New memory
is full of 0xFF (NaN). What would break a capture raises CaptureError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from prototorch.backends.cuda.device import ALIGN, GuardBlock, out_of_memory
from prototorch.backends.cuda.namespace import Namespace
from prototorch.backends.precision import Settings


class CaptureError(RuntimeError):
    """Something was asked while a stream records that CUDA does not allow then."""


class FakeEvent:
    """A mark; it counts how often it was given to a stream, and how often it was passed."""

    def __init__(self, number: int):
        self.number, self.given, self.passed = number, 0, 0
        self.stream: FakeStream | None = None


class FakeStream:
    """Work that waits to be done."""

    def __init__(self, name: str):
        self.name = name
        self.todo: deque[tuple[str, Callable[[], None]]] = deque()

    def __repr__(self) -> str:
        return self.name


class FakeGraph:
    """What was recorded."""

    def __init__(self, work: list[tuple[str, Callable[[], None]]]):
        self.work = work


class FakeDevice:
    """See the module's text.

    Attributes:
        log: what was asked, in order: ("alloc", bytes), ("copy_in", stream, bytes), ("run", op), ("graph", number of
            calls), ("fetch", bytes), ...
        player: plays kernels, as `Device.load_module` and `Device.launch` do but at once; None: they are only noted.
        refuses: names of ops that cannot be captured: they raise while a stream records.
    """

    name = "stand-in"
    capability = (9, 0)

    def __init__(self, settings: Settings | None = None, memory: int = 1 << 32):
        self.settings, self.memory, self.used = settings or Settings(), memory, 0
        self.player: Any = None
        self.xp: Any = Namespace(np)
        self.main, self.copies = FakeStream("main"), FakeStream("copies")
        self.log: list[tuple[Any, ...]] = []
        self.refuses: set[str] = set()
        self._recording: list[tuple[str, Callable[[], None]]] | None = None
        self._events = 0
        self._wanted, self._workspace = 0, None

    @property
    def precision(self) -> str:
        return self.settings.precision.name

    @property
    def deterministic(self) -> bool:
        return self.settings.deterministic

    # ---------------------------------------------------------------- memory

    def alloc(self, nbytes: int) -> Any:
        self._outside("alloc")
        if nbytes > self.memory - self.used:
            raise out_of_memory(nbytes, self.memory - self.used, self.memory)
        self.log.append(("alloc", nbytes))
        self.used += nbytes
        raw = np.full(nbytes + ALIGN, 0xFF, np.uint8)
        skip = -raw.ctypes.data % ALIGN
        return raw[skip : skip + nbytes]

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        kind = np.dtype(dtype)
        return self.alloc(int(np.prod(shape, dtype=np.int64)) * kind.itemsize).view(kind).reshape(shape)

    def upload(self, array: np.ndarray) -> Any:
        array = np.asarray(array, order="C")
        made = self.empty(array.shape, array.dtype.name)
        made[...] = array
        return made

    def owns(self, array: Any) -> bool:
        return isinstance(array, np.ndarray) and _root(array).size >= ALIGN and _root(array).dtype == np.uint8

    def fetch(self, array: Any) -> np.ndarray:
        self._outside("fetch")
        self.log.append(("fetch", array.nbytes))
        self._finish(self.main)
        return np.array(array)

    def store(self, target: Any, array: np.ndarray) -> None:
        self._outside("store")
        self.log.append(("store", target.nbytes))
        self._finish(self.main)
        target[...] = array

    def pinned(self, nbytes: int) -> np.ndarray:
        self.log.append(("pinned", nbytes))
        return np.full(nbytes, 0xFF, np.uint8)

    def free_bytes(self) -> int | None:
        return self.memory - self.used

    def reserve(self, nbytes: int) -> None:
        if nbytes > self._wanted:
            self._wanted, self._workspace = nbytes, None

    def workspace(self) -> Any:
        if self._workspace is None:
            self._workspace = self.alloc(self._wanted)
        return self._workspace

    # ---------------------------------------------------------------- order

    def event(self, timing: bool = False) -> Any:
        self._events += 1
        return FakeEvent(self._events)

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        event.given += 1
        event.stream = stream
        number = event.given
        self._give(stream, ("record", stream.name, event.number), lambda: setattr(event, "passed", number))

    def wait(self, stream: FakeStream, event: FakeEvent) -> None:
        number, source = event.given, event.stream
        self._give(stream, ("wait", stream.name, event.number), lambda: self._until(source, event, number))

    def wait_host(self, event: FakeEvent) -> None:
        self._outside("wait_host")
        self.log.append(("wait_host", event.number))
        self._until(event.stream, event, event.given)

    def elapsed(self, start: FakeEvent, end: FakeEvent) -> float:
        return 1.0

    def copy_in(self, target: Any, source: np.ndarray, stream: FakeStream) -> None:
        self._outside("copy_in")
        self._give(stream, ("copy_in", stream.name, source.nbytes), lambda: np.copyto(target, source))

    def copy_out(self, target: np.ndarray, source: Any, stream: FakeStream) -> None:
        self._outside("copy_out")
        self._give(stream, ("copy_out", stream.name, target.nbytes), lambda: np.copyto(target, source))

    def copy(self, target: Any, source: Any) -> None:
        self._give(self.main, ("copy", target.nbytes), lambda: np.copyto(target, source))

    def guard(self, block: Any, loss: Any, apply: Any | None) -> None:
        def check() -> None:
            (fields,) = block.view(GuardBlock)
            fine = bool(np.isfinite(loss))
            if fields["alive"] and not fine:
                fields["loss"] = loss
            fields["alive"] = fields["alive"] and fine
            fields["good"] += fields["alive"]
            fields["go"] = fields["alive"] and (apply is None or bool(apply))

        self._give(self.main, ("guard",), check)

    def copying(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        def copy() -> None:
            if flag[0]:
                for target, source in pairs:
                    target[...] = source

        return lambda: self._give(self.main, ("copy_all", len(pairs)), copy)

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        if self._recording is not None and name in self.refuses:
            raise CaptureError(f"{name} cannot be captured")
        self._give(self.main, ("run", name), work)

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    # ---------------------------------------------------------------- graphs

    def begin_capture(self) -> None:
        self.log.append(("begin_capture",))
        self._recording = []

    def end_capture(self) -> Any:
        assert self._recording is not None
        work, self._recording = self._recording, None
        self.log.append(("end_capture", len(work)))
        return FakeGraph(work)

    def abandon_capture(self) -> None:
        if self._recording is not None:
            self.log.append(("abandon_capture",))
            self._recording = None

    def launch_graph(self, graph: FakeGraph) -> None:
        def work() -> None:
            for _, one in graph.work:
                one()

        self._give(self.main, ("graph", len(graph.work)), work)

    # ---------------------------------------------------------------- kernels

    def load_module(self, source: str) -> Any:
        return source if self.player is None else self.player.load_module(source)

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        if self.player is not None:
            self.player.launch(module, name, grid, block, args)

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    # ---------------------------------------------------------------- within

    def _give(self, stream: FakeStream, entry: tuple[Any, ...], work: Callable[[], None]) -> None:
        self.log.append(entry)
        if self._recording is not None and stream is self.main:
            self._recording.append((str(entry), work))
        else:
            stream.todo.append((str(entry), work))

    def _outside(self, what: str) -> None:
        if self._recording is not None:
            raise CaptureError(f"{what} while a stream records")

    def _until(self, stream: FakeStream | None, event: FakeEvent, number: int) -> None:
        while event.passed < number:
            assert stream is not None
            assert stream.todo, f"event {event.number} will never be passed"
            self._one(stream)

    def _finish(self, stream: FakeStream) -> None:
        while stream.todo:
            self._one(stream)

    def _one(self, stream: FakeStream) -> None:
        _, work = stream.todo.popleft()
        with np.errstate(all="ignore"):
            work()


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
