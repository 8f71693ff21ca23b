"""How native kernels are written: prepared for specs, bound to arrays, linked with their neighbours in a plan.

A kernel file defines a *body*, which emits the code, and a *prepare* function, which decides when the kernel applies
and which tasks it runs:

    def body(k: KernelBuilder, n: int) -> None: ...

    @native_kernel("scale")
    def scale(ins, outs, attrs):
        code = kernel_code(body, ins[0].size)
        return TaskList(lambda i, o: [ParallelTask(code.address, (i[0], o[0]), iterations=1)])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, UnsupportedError
from prototorch.engine.backends.cpu.native.ir_magnitude import MAX_WATCHED
from prototorch.engine.backends.cpu.native.jit import CompileRequest, is_compiled, load_or_compile
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask, TaskProgram
from prototorch.engine.backends.registry import kernel
from prototorch.spec import Spec

CHANNELS_LAST = "channels_last"
Addresses = Sequence[int]
_WATCHED_DTYPES = ("float32", "float64")
BindFn = Callable[[Addresses, Addresses], list[ParallelTask]]


class KernelCode:
    """The code of a kernel: the body that emits it, and its parameters. It is compiled when its address is first
    needed. ``is_watched``: it finds the largest magnitude that it stores (see `ir_magnitude.py`)."""

    def __init__(self, body: Callable[..., None], params: tuple[Any, ...], is_watched: bool = False):
        self.body, self.params, self.is_watched = body, params, is_watched
        self.name = f"{body.__module__.rsplit('.', 1)[-1]}_{body.__name__.strip('_')}"
        self._address = 0
        self._request: CompileRequest | None = None
        self._watching_code: KernelCode | None = None

    @property
    def address(self) -> int:
        """The address of the machine code, inside `_watched_codes` of the watched kernel; 0 inside `collect_codes`
        where it is not compiled yet."""
        if _collector.is_watched and not self.is_watched:
            return self.watching_code.address
        if not self._address:
            if _collector.codes is not None:
                _collector.codes.append(self)
                return 0
            self._address = load_or_compile([self.request])[0]
        return self._address

    @property
    def watching_code(self) -> KernelCode:
        """That of the watched kernel."""
        if self._watching_code is None:
            self._watching_code = KernelCode(self.body, self.params, is_watched=True)
        return self._watching_code

    @property
    def request(self) -> CompileRequest:
        """The request to compile it (no `cached_property`: a fork may find its lock held by another thread)."""
        if self._request is None:
            module = self.body.__module__
            params = (module, self.body.__qualname__, self.params, *(("watched",) if self.is_watched else ()))
            self._request = CompileRequest(self.name, params, self.emit, module)
        return self._request

    def check_supported(self) -> None:
        """Raises UnsupportedError where the body cannot emit the code; code that was compiled before can be."""
        if not is_compiled(self.request) and not is_compiled(self.watching_code.request):
            self.emit("trial")

    def emit(self, name: str) -> KernelBuilder:
        """The IR. Raises UnsupportedError where the body cannot emit it."""
        k = KernelBuilder(name, self.is_watched)
        self.body(k, *self.params)
        return k


class _CodeCollector(threading.local):
    codes: list[KernelCode] | None = None
    is_watched = False


_collector = _CodeCollector()


@contextmanager
def collect_codes() -> Iterator[list[KernelCode]]:
    """Inside, no code is compiled: codes whose address is needed and that are not compiled yet are appended to the
    list."""
    codes: list[KernelCode] = []
    _collector.codes = codes
    try:
        yield codes
    finally:
        _collector.codes = None


@contextmanager
def _watched_codes() -> Iterator[None]:
    """Inside, the addresses of codes are those of the watched kernels."""
    _collector.is_watched = True
    try:
        yield
    finally:
        _collector.is_watched = False


def kernel_code(body: Callable[..., None], *params: Any) -> KernelCode:
    """The code that ``body(k, *params)`` emits. The parameters, by their repr, are a part of its key in the cache."""
    return KernelCode(body, params)


class TaskList:
    """The tasks of a prepared kernel.

    Args:
        bind: a function from the addresses of inputs and outputs to the tasks that fill the outputs.
        family: the algorithm, where it is not the file's name; see `KernelChoice`.
        keep_alive: arrays whose memory the tasks use.
    """

    def __init__(self, bind: BindFn, family: str = "", keep_alive: Any = None):
        self.bind, self.family, self.keep_alive = bind, family, keep_alive


class NativeKernel:
    """A prepared native kernel."""

    def __init__(self, tasks: TaskList, ins: tuple[Spec, ...], outs: tuple[Spec, ...], family: str):
        self.tasks, self.ins, self.outs = tasks, ins, outs
        self.family = tasks.family or family

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[ParallelTask]:
        """The tasks that fill the outputs. Raises ValueError where an array's memory does not have its spec's
        layout."""
        for array, spec in zip((*inputs, *outputs), (*self.ins, *self.outs), strict=True):
            if not matches_layout(array, spec):
                raise ValueError(f"an array of shape {array.shape} and strides {array.strides} for {spec}")
        return self.tasks.bind([a.ctypes.data for a in inputs], [a.ctypes.data for a in outputs])

    def enumerate_variants(self) -> list[ParallelTask]:
        """The tasks for arrays that are aligned and for arrays that are not, so that all code a binding may choose is
        collected. They must not be run."""
        tasks: list[ParallelTask] = []
        for step in (64, 12):
            addresses = [step * (i + 1) for i in range(len(self.ins) + len(self.outs))]
            tasks += self.tasks.bind(addresses[: len(self.ins)], addresses[len(self.ins) :])
        return tasks

    def with_watch(self, outputs: Sequence[int], maximum: np.ndarray) -> WatchedKernel | None:
        """The kernel that also takes the largest magnitude of these outputs into ``maximum``, see
        `engine.backends.watching`; None where it cannot."""
        fits = len(outputs) <= MAX_WATCHED and all(self.outs[i].dtype in _WATCHED_DTYPES for i in outputs)
        return WatchedKernel(self, tuple(outputs), maximum) if fits else None

    def make_program(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> TaskProgram:
        """The tasks as a program that can be run."""
        return TaskProgram(self.bind(inputs, outputs), (inputs, outputs, self.tasks.keep_alive))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        sources = [a if matches_layout(a, s) else copy_to_layout(a, s) for a, s in zip(inputs, self.ins, strict=True)]
        results = [a if matches_layout(a, s) else copy_to_layout(a, s) for a, s in zip(outputs, self.outs, strict=True)]
        self.make_program(sources, results)()
        for target, source in zip(outputs, results, strict=True):
            if target is not source:
                target[...] = source


class WatchedKernel(NativeKernel):
    """A native kernel that finds the largest magnitude among the elements of some of its outputs.

    maximum: int64[1]; it takes the bits of the largest, as of a float32, where these are larger than what it holds.
    """

    def __init__(self, kernel: NativeKernel, outputs: tuple[int, ...], maximum: np.ndarray):
        super().__init__(kernel.tasks, kernel.ins, kernel.outs, kernel.family)
        self._watched_outputs, self._maximum = outputs, maximum
        self._records: list[np.ndarray] = []

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[ParallelTask]:
        record = np.zeros(1 + 2 * MAX_WATCHED, np.int64)
        record[0] = self._maximum.ctypes.data
        for place, index in enumerate(self._watched_outputs):
            record[1 + 2 * place : 3 + 2 * place] = outputs[index].ctypes.data, self.outs[index].nbytes
        self._records.append(record)
        with _watched_codes():
            return [task._replace(watch=record.ctypes.data) for task in super().bind(inputs, outputs)]

    def enumerate_variants(self) -> list[ParallelTask]:
        with _watched_codes():
            return super().enumerate_variants()


def matches_layout(array: Any, spec: Spec) -> bool:
    """Whether an array's memory has the layout of a spec."""
    if not isinstance(array, np.ndarray):
        return False
    if spec.layout == CHANNELS_LAST:
        array = np.moveaxis(array, 1, -1)
    return bool(array.flags.c_contiguous) and array.dtype == spec.dtype


def copy_to_layout(array: Any, spec: Spec) -> Any:
    """A copy of an array in the layout of a spec."""
    if spec.layout == CHANNELS_LAST:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1), dtype=spec.dtype), -1, 1)
    return np.ascontiguousarray(array, dtype=spec.dtype).reshape(spec.shape)


PrepareTasksFn = Callable[[tuple[Spec, ...], tuple[Spec, ...], dict[str, Any]], "TaskList | None"]
_prepare_caches: list[Any] = []


def register_cache(cached: Any) -> None:
    """Have `clear_caches` clear a cache of prepared kernels, which depend on the width of vectors."""
    _prepare_caches.append(cached)


def clear_caches() -> None:
    """Forget all prepared kernels, for vectors of another width."""
    for cached in _prepare_caches:
        cached.cache_clear()


def native_kernel(
    *names: str, level: str = "native", special: bool = False
) -> Callable[[PrepareTasksFn], PrepareTasksFn]:
    """Register a native kernel for ops. Its prepare function ``(ins, outs, attrs)`` returns a `TaskList`, or None (or
    raises UnsupportedError) where the kernel does not apply. ``special``: it is tried before the others of its
    level."""

    def register(prepare: PrepareTasksFn) -> PrepareTasksFn:
        family = prepare.__module__.rsplit(".", 1)[-1]

        @lru_cache(maxsize=4096)
        def prepare_once(ins: tuple[Spec, ...], outs: tuple[Spec, ...], items: tuple[tuple[str, Any], ...]) -> Any:
            try:
                tasks = prepare(ins, outs, dict(items))
            except UnsupportedError:
                return None
            return None if tasks is None else NativeKernel(tasks, ins, outs, family)

        _prepare_caches.append(prepare_once)

        def prepare_kernel(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Any:
            if any(s.size == 0 for s in (*ins, *outs)):
                return None
            return prepare_once(ins, outs, tuple(sorted(attrs.items())))

        prepare_kernel.__module__ = prepare.__module__
        kernel(level, *names, special=special)(prepare_kernel)
        return prepare

    return register
