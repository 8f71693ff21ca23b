"""The CUDA device by CuPy: memory, streams, events, copies, graphs, and kernels compiled by NVRTC."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from prototorch.cuda.array_namespace import CapturableNamespace
from prototorch.cuda.availability import query_driver
from prototorch.cuda.device_protocol import MemoryUsage, format_bytes, out_of_memory_error
from prototorch.cuda.device_sources import (
    BLOCKS_PER_COPY,
    CHECK_FINITE_SOURCE,
    COPY_ALL_SOURCE,
    check_step_source,
    finite_check_table,
)
from prototorch.cuda.graph_capture import release_later
from prototorch.cuda.packages import install_command
from prototorch.cuda.stream_context import enter_stream, in_stream
from prototorch.engine.backends.precision import ExecutionSettings
from prototorch.errors import BackendError, ResourceError

__all__ = ["CapturedGraph", "CupyDevice", "import_cupy"]

CUDA_ERROR_MEMORY_ALLOCATION = 2


class CapturedGraph(NamedTuple):
    """A CUDA graph, and the memory that it writes to, which must live as long as the graph."""

    graph: Any
    memory: list[Any]


class CupyDevice:
    """See `CudaDevice`. index: of the GPU (default 0). Raises BackendError where CuPy is not installed, finds no GPU,
    or cannot use it.

    Methods may be called in any thread, whatever GPU and stream are current there: each enters `stream_context`, which
    takes no time where it is entered already.
    """

    def __init__(self, settings: ExecutionSettings | None = None, index: int = 0):
        self.settings, self.index = settings or ExecutionSettings(), index
        self.cp = import_cupy()
        cuda = self.cp.cuda
        try:
            cuda.nvrtc.getVersion()  # loads NVRTC with its built-in functions, which cuDNN's own loading does not find
            with cuda.Device(index):
                self.compute_stream, self.copy_stream = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
        except (RuntimeError, ImportError, OSError) as exc:
            raise BackendError(
                f"the GPU cannot be used: {type(exc).__name__}: {exc}; CUDA's libraries come with {_install_command()}"
            ) from exc
        self.select = partial(cuda.Device, index)  # a context in which it is the current GPU
        #: arrays may outlive this object, and are used on another stream then
        finalize(self, release_later, self.compute_stream.synchronize).atexit = False
        self.pool = cuda.MemoryPool()
        self._active_pool, self._graph_memory = self.pool, list[Any]()
        self.xp = CapturableNamespace(self.cp)
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[int, str], Any] = {}
        self._workspace: Any = None
        self._workspace_bytes = 0

    @cached_property
    def name(self) -> str:
        """See `CudaDevice.name`."""
        name = self.cp.cuda.runtime.getDeviceProperties(self.index)["name"]
        return name.decode() if isinstance(name, bytes) else str(name)

    @cached_property
    def multiprocessors(self) -> int:
        """See `CudaDevice.multiprocessors`."""
        return int(self.cp.cuda.runtime.getDeviceProperties(self.index)["multiProcessorCount"])

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (9, 0) for sm_90."""
        text = str(self.cp.cuda.Device(self.index).compute_capability)
        return int(text[:-1]), int(text[-1])

    @property
    def precision(self) -> str:
        """See `CudaDevice.precision`."""
        return self.settings.precision.name

    @property
    def deterministic(self) -> bool:
        """See `CudaDevice.deterministic`."""
        return self.settings.deterministic

    @in_stream
    def alloc(self, nbytes: int) -> Any:
        """See `CudaDevice.alloc`; the memory is not from CuPy's pools, whose blocks are larger than requested."""
        cuda = self.cp.cuda
        try:
            memory = cuda.Memory(max(nbytes, 1))
        except cuda.runtime.CUDARuntimeError as exc:
            if exc.status != CUDA_ERROR_MEMORY_ALLOCATION:
                raise
            gc.collect()  # models that are not used any more
            self.pool.free_all_blocks()  # left there by reference implementations; no graph uses it
            try:
                memory = cuda.Memory(max(nbytes, 1))
            except cuda.runtime.CUDARuntimeError:
                raise out_of_memory_error(nbytes, *cuda.runtime.memGetInfo()) from exc
        return self.cp.ndarray((nbytes,), dtype="uint8", memptr=cuda.MemoryPointer(memory, 0))

    @in_stream
    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `CudaDevice.empty`."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return self.alloc(count * kind.itemsize).view(kind).reshape(shape)

    @in_stream
    def empty_pooled(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `CudaDevice.empty_pooled`."""
        try:
            return self.cp.empty(shape, dtype=dtype)
        except self.cp.cuda.memory.OutOfMemoryError as exc:
            gc.collect()  # tensors in circles that are not used any more
            self.pool.free_all_blocks()
            try:
                return self.cp.empty(shape, dtype=dtype)
            except self.cp.cuda.memory.OutOfMemoryError:
                nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
                raise out_of_memory_error(nbytes, *self.cp.cuda.runtime.memGetInfo()) from exc

    @in_stream
    def memory_usage(self) -> MemoryUsage:
        """See `CudaDevice.memory_usage`."""
        free, total = self.cp.cuda.runtime.memGetInfo()
        return MemoryUsage(int(self.pool.used_bytes()), int(self.pool.total_bytes()), int(free), int(total))

    @in_stream
    def release_memory(self) -> None:
        """See `CudaDevice.release_memory`."""
        self.pool.free_all_blocks()

    @in_stream
    def upload(self, array: np.ndarray) -> Any:
        """See `CudaDevice.upload`."""
        array = np.asarray(array, order="C")
        copy = self.empty(array.shape, array.dtype.name)
        if array.nbytes:
            copy.set(array, stream=self.compute_stream)
            self.compute_stream.synchronize()
        return copy

    def owns(self, array: Any) -> bool:
        """See `CudaDevice.owns`."""
        return isinstance(array, self.cp.ndarray)

    @in_stream
    def download(self, array: Any) -> np.ndarray:
        """See `CudaDevice.download`."""
        return self.cp.asnumpy(array, stream=self.compute_stream, blocking=True)

    @in_stream
    def overwrite(self, target: Any, array: np.ndarray) -> None:
        """See `CudaDevice.overwrite`."""
        target.set(np.asarray(array, order="C"), stream=self.compute_stream)
        self.compute_stream.synchronize()

    @in_stream
    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        """See `CudaDevice.alloc_pinned`; not from CuPy's pool, which allocates the next power of two."""
        cuda, count = self.cp.cuda, max(nbytes, 1)
        try:
            memory = cuda.PinnedMemory(count)
        except cuda.runtime.CUDARuntimeError as exc:
            if exc.status != CUDA_ERROR_MEMORY_ALLOCATION:
                raise
            raise ResourceError(f"the host has no memory for {format_bytes(nbytes)} of pinned memory") from exc
        return np.frombuffer(cuda.PinnedMemoryPointer(memory, 0), np.uint8, count)[:nbytes]

    @in_stream
    def free_bytes(self) -> int | None:
        """See `CudaDevice.free_bytes`; free blocks of CuPy's pool count."""
        free, _ = self.cp.cuda.runtime.memGetInfo()
        return int(free) + int(self.pool.free_bytes())

    def reserve(self, nbytes: int) -> None:
        """See `CudaDevice.reserve`."""
        if nbytes > self._workspace_bytes:
            self._workspace_bytes, self._workspace = nbytes, None

    @in_stream
    def workspace(self) -> Any:
        """See `CudaDevice.workspace`."""
        if self._workspace is None:
            self._workspace = self.alloc(self._workspace_bytes)
        return self._workspace

    def release_workspace(self) -> None:
        """See `CudaDevice.release_workspace`."""
        self._workspace, self._workspace_bytes = None, 0

    @in_stream
    def create_event(self, timing: bool = False) -> Any:
        """See `CudaDevice.create_event`."""
        return self.cp.cuda.Event(disable_timing=not timing)

    @in_stream
    def record_event(self, event: Any, stream: Any) -> None:
        """See `CudaDevice.record_event`."""
        event.record(stream)

    @in_stream
    def wait_event(self, stream: Any, event: Any) -> None:
        """See `CudaDevice.synchronize`."""
        stream.wait_event(event)

    def synchronize_event(self, event: Any) -> None:
        """See `CudaDevice.synchronize_event`."""
        event.synchronize()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """See `CudaDevice.elapsed_ms`."""
        return float(self.cp.cuda.get_elapsed_time(start, end))

    @in_stream
    def copy_from_host(self, target: Any, source: np.ndarray, stream: Any) -> None:
        """See `CudaDevice.copy_from_host`."""
        if source.nbytes:
            target.data.copy_from_host_async(source.ctypes.data, source.nbytes, stream)

    @in_stream
    def copy_to_host(self, target: np.ndarray, source: Any, stream: Any) -> None:
        """See `CudaDevice.copy_to_host`."""
        if target.nbytes:
            source.data.copy_to_host_async(target.ctypes.data, target.nbytes, stream)

    @in_stream
    def copy_on_device(self, target: Any, source: Any) -> None:
        """See `CudaDevice.copy_on_device`."""
        if source.nbytes:
            target.data.copy_from_device_async(source.data, source.nbytes, self.compute_stream)

    def check_step(
        self, losses: Any, loss: Any, apply: Any | None, values: Any, outside: Any, report: np.ndarray | None
    ) -> None:
        """See `CudaDevice.check_step`: a kernel of one thread. Pinned memory has one address in both."""
        module = self.load_module(check_step_source("float32" if loss is None else loss.dtype.name))
        arrays = (losses, loss, apply, values, outside)
        addresses = [0 if array is None else self.pointer(array) for array in arrays]
        report_address = 0 if report is None else report.ctypes.data
        self.launch(module, "check_step", 1, 1, tuple(map(np.uint64, (*addresses, report_address))))

    def make_finite_check(self, arrays: Sequence[Any], flag: Any) -> Callable[[], None]:
        """See `CudaDevice.make_finite_check`: one kernel."""
        rows, chunks = finite_check_table([(self.pointer(a), a.nbytes, a.dtype.name) for a in arrays])
        args = np.uint32(len(chunks)), self.upload(rows), self.upload(chunks), flag
        module = self.load_module(CHECK_FINITE_SOURCE)
        return lambda: self.launch(module, "check_finite", len(chunks), 256, args)

    def make_conditional_copy(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        """See `CudaDevice.make_conditional_copy`: one kernel."""
        table = np.array([(self.pointer(t), self.pointer(s), s.nbytes) for t, s in pairs], np.uint64)
        device_table, module = self.upload(table), self.load_module(COPY_ALL_SOURCE)
        tasks = BLOCKS_PER_COPY * len(pairs)
        return lambda: self.launch(module, "copy_all", tasks, 256, (np.uint32(tasks), device_table, flag))

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        """See `CudaDevice.enqueue`: a function that launches kernels enqueues them by itself."""
        work()

    def stream_context(self) -> AbstractContextManager[Any]:
        """See `CudaDevice.stream_context`."""
        return enter_stream(self)

    def malloc(self, nbytes: int) -> Any:
        """Memory for CuPy's own arrays: from the pool, during a capture from that of the graph."""
        return self._active_pool.malloc(nbytes)

    def _malloc_for_graph(self, nbytes: int) -> Any:
        """Memory for the pool of a capture; the pool may free it, the graph keeps it."""
        cuda = self.cp.cuda
        pointer = cuda.MemoryPointer(cuda.Memory(nbytes), 0)
        self._graph_memory.append(pointer)
        return pointer

    @in_stream
    def begin_capture(self) -> None:
        """See `CudaDevice.begin_capture`.

        Each capture has a pool of its own. What a captured step frees there is free to the pool, but the graph still
        writes to it: in the common pool others would get it meanwhile, or it would be returned to CUDA.
        """
        self._graph_memory = []
        self._active_pool = self.cp.cuda.MemoryPool(self._malloc_for_graph)
        self.compute_stream.begin_capture()

    @in_stream
    def end_capture(self) -> Any:
        """See `CudaDevice.end_capture`."""
        graph = self.compute_stream.end_capture()
        graph.upload(self.compute_stream)
        captured = CapturedGraph(graph, self._graph_memory)
        self._active_pool, self._graph_memory = self.pool, []
        return captured

    @in_stream
    def abandon_capture(self) -> None:
        """See `CudaDevice.abandon_capture`."""
        # An invalidated capture must be ended as well, and ends with an error: it is discarded either way.
        with suppress(RuntimeError, ValueError):
            self.compute_stream.end_capture()
        self._active_pool, self._graph_memory = self.pool, []

    @in_stream
    def launch_graph(self, graph: Any) -> None:
        """See `CudaDevice.launch_graph`."""
        graph.graph.launch(self.compute_stream)

    def load_module(self, source: str) -> Any:
        """See `CudaDevice.load_module`; compiled code is cached on disk by CuPy (CUPY_CACHE_DIR)."""
        module = self._modules.get(source)
        if module is None:
            options = ("-std=c++17",)
            module = self._modules[source] = self.cp.RawModule(code=source, options=options, backend="nvrtc")
        return module

    @in_stream
    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """See `CudaDevice.launch`."""
        key = id(module), name
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = module.get_function(name)
        function((grid,), (block,), tuple(args))

    def pointer(self, array: Any) -> int:
        """See `CudaDevice.pointer`."""
        return int(array.data.ptr)


def _install_command() -> str:
    driver = query_driver()
    return install_command(None if driver is None else driver.major)


def import_cupy() -> Any:
    """The module cupy. Raises BackendError with what to install or what is missing."""
    try:
        import cupy

        has_gpu = cupy.cuda.is_available()
    except Exception as exc:  # a library of CUDA is missing, NumPy has another version, the package is damaged
        if isinstance(exc, ModuleNotFoundError) and exc.name == "cupy":
            raise BackendError(f"CuPy is not installed: {_install_command()}") from exc
        why = " ".join(str(exc).split())[:300]
        raise BackendError(f"CuPy cannot be imported: {type(exc).__name__}: {why}; {_install_command()}") from exc
    if not has_gpu:
        raise BackendError("CuPy finds no GPU: does its version fit the driver's? `nvidia-smi` tells more")
    return cupy
