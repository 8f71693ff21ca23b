"""A fake CUDA device, for tests without a GPU: its memory is NumPy's, and it keeps a log of all calls.

It is as asynchronous as a GPU may be: the work of a stream runs when the host waits for it, not before. So a host
buffer that is written too early, a result that is read without waiting, or a missing event give wrong results. New
memory is filled with 0xFF (NaN). A call that CUDA does not allow during a capture raises CaptureError; an operation on
an array of the device that is not enqueued on a stream raises UnorderedWorkError.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from prototorch.cuda.array_namespace import CapturableNamespace
from prototorch.cuda.device_protocol import ALIGNMENT, MemoryUsage, out_of_memory_error
from prototorch.cuda.device_sources import LossCheckState, ValueCheckState
from prototorch.cuda.fake_device_array import DeviceArray, stream_work
from prototorch.cuda.stream_kernel import VECTOR_BYTES
from prototorch.engine.backends.precision import ExecutionSettings

__all__ = ["CaptureError", "FakeDevice", "FakeEvent", "FakeGraph", "FakeStream", "MisalignedArrayError"]


class CaptureError(RuntimeError):
    """A call that CUDA does not allow during a capture."""


#: kernels of one step of a sequence, whose arrays begin at any of its steps: they load and store single elements
STEP_KERNELS = frozenset({"step", "back", "left", "back_left", "parts", "whole"})


class MisalignedArrayError(AssertionError):
    """An array given to a kernel whose vectors do not lie at multiples of their size: on a GPU a load or store of one
    ends the process' use of it."""


class _AlignedNamespace(CapturableNamespace):
    """NumPy, whose casts lie at multiples of 64 bytes as a GPU's arrays do: what the host's libraries compute may
    depend on addresses."""

    def astype(self, array: Any, dtype: Any, **options: Any) -> Any:
        """As `numpy.astype`."""
        kind = np.dtype(dtype)
        raw = np.empty(array.size * kind.itemsize + 64, np.uint8)
        start = -raw.ctypes.data % 64
        cast = raw[start : start + array.size * kind.itemsize].view(kind).reshape(array.shape)
        np.copyto(cast, np.asarray(array), casting="unsafe")
        return cast.view(DeviceArray) if isinstance(array, DeviceArray) else cast


class FakeEvent:
    """An event; it counts how often it was recorded, and how often it has happened."""

    def __init__(self, number: int):
        self.number, self.times_recorded, self.times_completed = number, 0, 0
        self.stream: FakeStream | None = None


class FakeStream:
    """A queue of work that has not run yet."""

    def __init__(self, name: str):
        self.name = name
        self.queue: deque[tuple[str, Callable[[], None]]] = deque()

    def __repr__(self) -> str:
        return self.name


class FakeGraph:
    """The captured work."""

    def __init__(self, work: list[tuple[str, Callable[[], None]]]):
        self.work = work


class FakeDevice:
    """See the module's text.

    Attributes:
        log: the calls, in order: ("alloc", bytes), ("copy_from_host", stream, bytes), ("run", op), ("graph", number of
            calls), ("download", bytes), ...
        emulator: runs kernels synchronously, by the methods ``load_module`` and ``launch``; None: they do not run.
        uncapturable_ops: names of ops that raise CaptureError during a capture.
    """

    name = "fake"
    capability = (9, 0)
    multiprocessors = 132

    def __init__(self, settings: ExecutionSettings | None = None, memory: int = 1 << 32):
        self.settings, self.memory, self.used = settings or ExecutionSettings(), memory, 0
        self.emulator: Any = None
        self.xp: Any = _AlignedNamespace(np)
        self.compute_stream, self.copy_stream = FakeStream("compute"), FakeStream("copy")
        self.log: list[tuple[Any, ...]] = []
        self.uncapturable_ops: set[str] = set()
        self._captured: list[tuple[str, Callable[[], None]]] | None = None
        self._events = 0
        self._workspace_bytes, self._workspace = 0, None

    @property
    def precision(self) -> str:
        return self.settings.precision.name

    @property
    def deterministic(self) -> bool:
        return self.settings.deterministic

    # ---------------------------------------------------------------- memory

    def alloc(self, nbytes: int) -> Any:
        self._forbid_in_capture("alloc")
        if nbytes > self.memory - self.used:
            raise out_of_memory_error(nbytes, self.memory - self.used, self.memory)
        self.log.append(("alloc", nbytes))
        self.used += nbytes
        raw = np.full(nbytes + ALIGNMENT, 0xFF, np.uint8)
        weakref.finalize(raw, self._release, nbytes).atexit = False
        skip = -raw.ctypes.data % ALIGNMENT
        return raw[skip : skip + nbytes].view(DeviceArray)

    def _release(self, nbytes: int) -> None:
        self.used -= nbytes

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        kind = np.dtype(dtype)
        return self.alloc(int(np.prod(shape, dtype=np.int64)) * kind.itemsize).view(kind).reshape(shape)

    def empty_pooled(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.empty(shape, dtype)

    def memory_usage(self) -> MemoryUsage:
        return MemoryUsage(self.used, self.used, self.memory - self.used, self.memory)

    def release_memory(self) -> None:
        pass

    def upload(self, array: np.ndarray) -> Any:
        array = np.asarray(array, order="C")
        copy = self.empty(array.shape, array.dtype.name)
        with stream_work():
            copy[...] = array
        return copy

    def owns(self, array: Any) -> bool:
        while isinstance(array, np.ndarray) and not isinstance(array, DeviceArray):
            array = array.base
        return isinstance(array, DeviceArray)

    def download(self, array: Any) -> np.ndarray:
        self._forbid_in_capture("download")
        self.log.append(("download", array.nbytes))
        self._run_all(self.compute_stream)
        return np.array(array, subok=False)

    def overwrite(self, target: Any, array: np.ndarray) -> None:
        self._forbid_in_capture("overwrite")
        self.log.append(("overwrite", target.nbytes))
        self._run_all(self.compute_stream)
        with stream_work():
            target[...] = array

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        self.log.append(("alloc_pinned", nbytes))
        return np.full(nbytes, 0xFF, np.uint8)

    def free_bytes(self) -> int | None:
        return self.memory - self.used

    def reserve(self, nbytes: int) -> None:
        if nbytes > self._workspace_bytes:
            self._workspace_bytes, self._workspace = nbytes, None

    def workspace(self) -> Any:
        if self._workspace is None:
            self._workspace = self.alloc(self._workspace_bytes)
        return self._workspace

    def release_workspace(self) -> None:
        self._workspace_bytes, self._workspace = 0, None

    # ---------------------------------------------------------------- streams and events

    def create_event(self, timing: bool = False) -> Any:
        self._events += 1
        return FakeEvent(self._events)

    def record_event(self, event: FakeEvent, stream: FakeStream) -> None:
        event.times_recorded += 1
        event.stream = stream
        number = event.times_recorded
        self._enqueue(
            stream, ("record_event", stream.name, event.number), lambda: setattr(event, "times_completed", number)
        )

    def wait_event(self, stream: FakeStream, event: FakeEvent) -> None:
        number, source = event.times_recorded, event.stream
        self._enqueue(stream, ("wait_event", stream.name, event.number), lambda: self._run_until(source, event, number))

    def synchronize_event(self, event: FakeEvent) -> None:
        self._forbid_in_capture("synchronize_event")
        self.log.append(("synchronize_event", event.number))
        self._run_until(event.stream, event, event.times_recorded)

    def elapsed_ms(self, start: FakeEvent, end: FakeEvent) -> float:
        return 1.0

    def copy_from_host(self, target: Any, source: np.ndarray, stream: FakeStream) -> None:
        self._forbid_in_capture("copy_from_host")
        self._enqueue(stream, ("copy_from_host", stream.name, source.nbytes), lambda: np.copyto(target, source))

    def copy_to_host(self, target: np.ndarray, source: Any, stream: FakeStream) -> None:
        self._forbid_in_capture("copy_to_host")
        self._enqueue(stream, ("copy_to_host", stream.name, target.nbytes), lambda: np.copyto(target, source))

    def copy_on_device(self, target: Any, source: Any) -> None:
        self._enqueue(self.compute_stream, ("copy_on_device", target.nbytes), lambda: np.copyto(target, source))

    def check_step(
        self, losses: Any, loss: Any, apply: Any | None, values: Any, outside: Any, report: np.ndarray | None
    ) -> None:
        def check() -> None:
            valid, all_finite = True, True
            if values is not None:
                (state,) = values.view(ValueCheckState)
                state["is_first"] = state["all_valid"] and outside != 0
                valid = state["all_valid"] = bool(state["all_valid"]) and outside == 0
                state["valid_steps"] += valid
                if not valid and report is not None:
                    report[0] = 1
            if losses is not None:
                (fields,) = losses.view(LossCheckState)
                finite = not valid or not (fields["not_finite"] or (loss is not None and not np.isfinite(loss)))
                if fields["all_finite"] and not finite:
                    fields["loss"] = 0.0 if loss is None else loss
                fields["not_finite"] = 0
                all_finite = fields["all_finite"] = bool(fields["all_finite"]) and finite
                fields["finite_steps"] += all_finite
                fields["apply_updates"] = valid and all_finite and (apply is None or bool(apply))
            if values is not None:
                state["write_states"] = valid and all_finite

        self._enqueue(self.compute_stream, ("check_step",), check)

    def make_finite_check(self, arrays: Sequence[Any], flag: Any) -> Callable[[], None]:
        def check() -> None:
            if not all(np.isfinite(array).all() for array in arrays):
                flag[0] = 1

        nbytes = sum(array.nbytes for array in arrays)
        return lambda: self._enqueue(self.compute_stream, ("check_finite", len(arrays), nbytes), check)

    def make_conditional_copy(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        def copy() -> None:
            if flag[0]:
                for target, source in pairs:
                    target[...] = source

        return lambda: self._enqueue(self.compute_stream, ("copy_all", len(pairs)), copy)

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        if self._captured is not None and name in self.uncapturable_ops:
            raise CaptureError(f"{name} cannot be captured")
        self._enqueue(self.compute_stream, ("run", name), work)

    @contextmanager
    def stream_context(self) -> Iterator[None]:
        yield

    # ---------------------------------------------------------------- graphs

    def begin_capture(self) -> None:
        self.log.append(("begin_capture",))
        self._captured = []

    def end_capture(self) -> Any:
        assert self._captured is not None
        work, self._captured = self._captured, None
        self.log.append(("end_capture", len(work)))
        return FakeGraph(work)

    def abandon_capture(self) -> None:
        if self._captured is not None:
            self.log.append(("abandon_capture",))
            self._captured = None

    def launch_graph(self, graph: FakeGraph) -> None:
        def work() -> None:
            for _, one in graph.work:
                one()

        self._enqueue(self.compute_stream, ("graph", len(graph.work)), work)

    # ---------------------------------------------------------------- kernels

    def load_module(self, source: str) -> Any:
        return source if self.emulator is None else self.emulator.load_module(source)

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        for array in () if name in STEP_KERNELS else args:
            if isinstance(array, np.ndarray) and array.ctypes.data % VECTOR_BYTES and array.nbytes >= VECTOR_BYTES:
                raise MisalignedArrayError(f"{name}: an array at {array.ctypes.data:#x}, which holds no vector")
        if self.emulator is not None:
            self.emulator.launch(module, name, grid, block, args)

    def pointer(self, array: Any) -> int:
        return int(array.ctypes.data)

    # ---------------------------------------------------------------- running the queues

    def _enqueue(self, stream: FakeStream, entry: tuple[Any, ...], work: Callable[[], None]) -> None:
        self.log.append(entry)
        if self._captured is not None and stream is self.compute_stream:
            self._captured.append((str(entry), work))
        else:
            stream.queue.append((str(entry), work))

    def _forbid_in_capture(self, what: str) -> None:
        if self._captured is not None:
            raise CaptureError(f"{what} during a capture")

    def _run_until(self, stream: FakeStream | None, event: FakeEvent, number: int) -> None:
        while event.times_completed < number:
            assert stream is not None
            assert stream.queue, f"event {event.number} will never happen"
            self._run_one(stream)

    def _run_all(self, stream: FakeStream) -> None:
        while stream.queue:
            self._run_one(stream)

    def _run_one(self, stream: FakeStream) -> None:
        _, work = stream.queue.popleft()
        with np.errstate(all="ignore"), stream_work():
            work()
