"""Native kernels as the dispatcher knows them: prepared for specs, bound to arrays, strung together by the runner.

A kernel file says a *body* that emits the code and a *prepare* that says when it applies and which tasks it takes:

    def body(k: Kernel, n: int) -> None: ...

    @native("scale", layouts=True)
    def scale(ins, outs, attrs):
        made = code(body, ins[0].size)
        return Tasks(lambda i, o: [Task(made.address, (i[0], o[0]), items=1)])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.backends.cpu.native.ir_builder import KernelBuilder, UnsupportedError
from prototorch.backends.cpu.native.jit import CompileRequest, is_compiled, load_or_compile
from prototorch.backends.cpu.native.thread_pool import ParallelTask, TaskProgram
from prototorch.backends.registry import kernel
from prototorch.spec import Spec

CHANNELS_LAST = "channels_last"
Addresses = Sequence[int]
BindFn = Callable[[Addresses, Addresses], list[ParallelTask]]


class KernelCode:
    """The code of a kernel: what emits it and with which parameters. Compiled when its address is first asked for."""

    def __init__(self, body: Callable[..., None], params: tuple[Any, ...]):
        self.body, self.params = body, params
        self.name = f"{body.__module__.rsplit('.', 1)[-1]}_{body.__name__.strip('_')}"
        self._address = 0
        self._request: CompileRequest | None = None

    @property
    def address(self) -> int:
        """Where the code lies; 0 while it is only `collect_codes`."""
        if not self._address:
            if _collector.codes is not None:
                _collector.codes.append(self)
                return 0
            self._address = load_or_compile([self.request])[0]
        return self._address

    @property
    def request(self) -> CompileRequest:
        """The request to compile it (no `cached_property`: a fork may find its lock held by another thread)."""
        if self._request is None:
            module = self.body.__module__
            params = (module, self.body.__qualname__, self.params)
            self._request = CompileRequest(self.name, params, self.emit, module)
        return self._request

    def check_supported(self) -> None:
        """Raises Unsupported where the body cannot say what is asked for: it is emitted, if it never was."""
        if not is_compiled(self.request):
            self.emit("trial")

    def emit(self, name: str) -> KernelBuilder:
        """The IR. Raises Unsupported where the body cannot say what is asked for."""
        k = KernelBuilder(name)
        self.body(k, *self.params)
        return k


class _CodeCollector(threading.local):
    codes: list[KernelCode] | None = None


_collector = _CodeCollector()


@contextmanager
def collect_codes() -> Iterator[list[KernelCode]]:
    """The codes whose addresses are asked for inside and that are not there yet; nothing is compiled meanwhile."""
    found: list[KernelCode] = []
    _collector.codes = found
    try:
        yield found
    finally:
        _collector.codes = None


def kernel_code(body: Callable[..., None], *params: Any) -> KernelCode:
    """The code ``body(k, *params)`` emits; the parameters, by their repr, are the key under which it is kept."""
    return KernelCode(body, params)


class TaskList:
    """What a prepare function gives back: tasks for the addresses of inputs and outputs. ``keep``: arrays they use."""

    def __init__(self, bind: BindFn, family: str = "", keep_alive: Any = None):
        self.bind, self.family, self.keep_alive = bind, family, keep_alive


class NativeKernel:
    """A prepared native kernel."""

    def __init__(self, tasks: TaskList, ins: tuple[Spec, ...], outs: tuple[Spec, ...], family: str):
        self._tasks, self.ins, self._outs = tasks, ins, outs
        self.family = tasks.family or family

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[ParallelTask]:
        """The tasks that fill the outputs, whose memory must be laid out as the specs say."""
        for array, spec in zip((*inputs, *outputs), (*self.ins, *self._outs), strict=True):
            if not matches_layout(array, spec):
                raise ValueError(f"an array of shape {array.shape} and strides {array.strides} for {spec}")
        return self._tasks.bind([a.ctypes.data for a in inputs], [a.ctypes.data for a in outputs])

    def enumerate_variants(self) -> list[ParallelTask]:
        """Ask for all code that a binding may choose: arrays that lie well and apart, and such that do not. The tasks
        are not to be run."""
        found: list[ParallelTask] = []
        for step in (64, 12):
            places = [step * (i + 1) for i in range(len(self.ins) + len(self._outs))]
            found += self._tasks.bind(places[: len(self.ins)], places[len(self.ins) :])
        return found

    def make_program(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> TaskProgram:
        """The tasks ready to be run."""
        return TaskProgram(self.bind(inputs, outputs), (inputs, outputs, self._tasks.keep_alive))

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        given = [a if matches_layout(a, s) else copy_to_layout(a, s) for a, s in zip(inputs, self.ins, strict=True)]
        made = [a if matches_layout(a, s) else copy_to_layout(a, s) for a, s in zip(outputs, self._outs, strict=True)]
        self.make_program(given, made)()
        for target, source in zip(outputs, made, strict=True):
            if target is not source:
                target[...] = source


def matches_layout(array: Any, spec: Spec) -> bool:
    """Whether an array's memory is as its spec says."""
    if not isinstance(array, np.ndarray):
        return False
    if spec.layout == CHANNELS_LAST:
        array = np.moveaxis(array, 1, -1)
    return bool(array.flags.c_contiguous) and array.dtype == spec.dtype


def copy_to_layout(array: Any, spec: Spec) -> Any:
    """A copy of an array whose memory is as the spec says."""
    if spec.layout == CHANNELS_LAST:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1), dtype=spec.dtype), -1, 1)
    return np.ascontiguousarray(array, dtype=spec.dtype).reshape(spec.shape)


PrepareTasksFn = Callable[[tuple[Spec, ...], tuple[Spec, ...], dict[str, Any]], "TaskList | None"]
_prepare_caches: list[Any] = []


def register_cache(known: Any) -> None:
    """Say that a cache holds what was prepared for the machine's vectors; see `clear_caches`."""
    _prepare_caches.append(known)


def clear_caches() -> None:
    """Forget what was prepared: kernels are to be made anew, for vectors of another width."""
    for held in _prepare_caches:
        held.cache_clear()


def native_kernel(
    *names: str, level: str = "native", special: bool = False
) -> Callable[[PrepareTasksFn], PrepareTasksFn]:
    """Enter a native kernel for ops. Its prepare function gives Tasks, or None (or raises Unsupported): "not mine".
    ``special``: it is asked before the others of its level."""

    def enter(prepare: PrepareTasksFn) -> PrepareTasksFn:
        family = prepare.__module__.rsplit(".", 1)[-1]

        @lru_cache(maxsize=4096)
        def held(ins: tuple[Spec, ...], outs: tuple[Spec, ...], items: tuple[tuple[str, Any], ...]) -> Any:
            try:
                tasks = prepare(ins, outs, dict(items))
            except UnsupportedError:
                return None
            return None if tasks is None else NativeKernel(tasks, ins, outs, family)

        _prepare_caches.append(held)

        def prepared(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Any:
            if any(s.size == 0 for s in (*ins, *outs)):
                return None
            return held(ins, outs, tuple(sorted(attrs.items())))

        prepared.__module__ = prepare.__module__
        kernel(level, *names, special=special)(prepared)
        return prepare

    return enter
