"""The one border to CUDA: what the backend and the captured step need of a device, and CuPy's way of doing it.

Everything runs on one stream, `main`, in the order of the calls; copies from the host run on a second one, `copies`.
A capture records what `main` is given between `begin_capture` and `end_capture` instead of doing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from prototorch.backends.cuda.array_namespace import CapturableNamespace
from prototorch.backends.precision import ExecutionSettings
from prototorch.errors import BackendError, ResourceError

ALIGNMENT = 256  # bytes; what cudaMalloc gives, and what vector loads and cuDNN want

#: The state of the loss check on the device. ``is_finite`` is 1 until a loss is not finite, then 0 until the host
#: resets it; ``apply_updates`` is 1 where the updates of this step count; ``finite_steps`` counts the steps with
#: ``is_finite``; ``loss`` is the one that was not finite.
LossCheckState = np.dtype([("is_finite", "i4"), ("apply_updates", "i4"), ("finite_steps", "i4"), ("loss", "f4")])
CUDA_ERROR_MEMORY_ALLOCATION = 2  # cudaErrorMemoryAllocation
BLOCKS_PER_COPY = 8  # blocks of threads for each array of `CudaDevice.copy_all`

_CHECK_LOSS_SOURCE = """
struct Block { int alive, go, good; float loss; };
extern "C" __global__ void check_loss(Block* b, const REAL* loss, const bool* apply) {
    if (blockIdx.x || threadIdx.x) return;
    bool fine = isfinite(*loss);
    if (b->alive && !fine) b->loss = (float)*loss;
    b->alive = b->alive && fine;
    b->good += b->alive;
    b->go = b->alive && (apply == nullptr || *apply);
}
"""

COPY_ALL_SOURCE = """
struct Pair { char* target; const char* source; unsigned long long size; };
extern "C" __global__ void copy_all(unsigned parts, const Pair* pairs, const int* flag) {
    if (!*flag) return;
    for (unsigned part = blockIdx.x; part < parts; part += gridDim.x) {
        Pair p = pairs[part / COPIERS];
        unsigned long long first = (part % COPIERS) * (unsigned long long)blockDim.x + threadIdx.x;
        unsigned long long step = COPIERS * (unsigned long long)blockDim.x;
        if (((unsigned long long)p.target | (unsigned long long)p.source | p.size) % 4 == 0) {
            for (unsigned long long i = first; i < p.size / 4; i += step)
                ((int*)p.target)[i] = ((const int*)p.source)[i];
        } else {
            for (unsigned long long i = first; i < p.size; i += step) p.target[i] = p.source[i];
        }
    }
}
""".replace("COPIERS", str(BLOCKS_PER_COPY))


def check_loss_source(dtype: str) -> str:
    """The check of a loss of a type."""
    return _CHECK_LOSS_SOURCE.replace("REAL", {"float32": "float", "float64": "double"}[dtype])


class CudaDevice(Protocol):
    """A GPU, or what stands for one in the tests. Arrays are CuPy's (the stand-in's are NumPy's)."""

    xp: Any
    settings: ExecutionSettings
    compute_stream: Any
    copy_stream: Any

    @property
    def name(self) -> str:
        """What the device is called."""

    @property
    def precision(self) -> str:
        """The settings' precision by name: "fp32", "tf32", "bf16", "fp16"."""

    @property
    def deterministic(self) -> bool:
        """Whether every run must give the same bits."""

    # memory ---------------------------------------------------------------

    def alloc(self, nbytes: int) -> Any:
        """New memory as an array of bytes, aligned to 256. Raises ResourceError with what is free."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """New memory as an array; never called inside a step."""

    def upload(self, array: np.ndarray) -> Any:
        """A copy on the device, made now; never called inside a step."""

    def owns(self, array: Any) -> bool:
        """Whether an array lies on the device."""

    def download(self, array: Any) -> np.ndarray:
        """A copy on the host, after all that `main` was given before. This waits; it is not for inside a step."""

    def overwrite(self, target: Any, array: np.ndarray) -> None:
        """Write an array of the host over one of the device, after all that `main` was given before. This waits."""

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        """Host memory that copies run from while the host does something else, as bytes."""

    def free_bytes(self) -> int | None:
        """Bytes that can still be taken."""

    def reserve(self, nbytes: int) -> None:
        """Ask for workspace: one block, as large as the largest that was asked for, lent to each kernel in turn."""

    def workspace(self) -> Any:
        """The workspace as it is now; what a capture has seen stays alive with its graph."""

    # order ----------------------------------------------------------------

    def create_event(self, timing: bool = False) -> Any:
        """A mark that streams can be given, and be told to wait for."""

    def record_event(self, event: Any, stream: Any) -> None:
        """Give the mark to a stream: it is passed when all that the stream was given before is done."""

    def wait_event(self, stream: Any, event: Any) -> None:
        """What the stream is given from now on waits for the mark. The host does not."""

    def synchronize_event(self, event: Any) -> None:
        """The host waits for the mark."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two passed marks with timing."""

    def copy_from_host(self, target: Any, source: np.ndarray, stream: Any) -> None:
        """Begin a copy from pinned memory; both arrays are contiguous."""

    def copy_to_host(self, target: np.ndarray, source: Any, stream: Any) -> None:
        """Begin a copy to pinned memory."""

    def copy_on_device(self, target: Any, source: Any) -> None:
        """Give `main` a copy of the bytes of one array to another; both are contiguous and lie on the device."""

    def check_loss(self, block: Any, loss: Any, apply: Any | None) -> None:
        """Give `main` the check of a step's loss: it writes the `LossCheckState` fields.

        loss: float32 or float64 of no dimensions. apply: bool of no dimensions, or None for true.
        """

    def make_conditional_copy(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        """What gives `main` the copy of many arrays (target, source), all of it or, where ``flag`` (int32[1]) is 0,
        none of it. The arrays of a pair are contiguous and of one size."""

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        """Give `main` work: a call that starts kernels."""

    def running(self) -> AbstractContextManager[Any]:
        """Inside, CuPy's own kernels run on `main` and take their memory from a pool; while `main` records, from one
        that the graph keeps for itself."""

    # graphs ---------------------------------------------------------------

    def begin_capture(self) -> None:
        """From here on `main` records."""

    def end_capture(self) -> Any:
        """What was recorded, ready to be launched. Raises what CUDA says where it could not be."""

    def abandon_capture(self) -> None:
        """End a capture that went wrong, and forget it."""

    def launch_graph(self, graph: Any) -> None:
        """Give `main` what was recorded."""

    # kernels --------------------------------------------------------------

    def load_module(self, source: str) -> Any:
        """Complete CUDA C++ with extern "C" kernels, compiled; the same module for the same source."""

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """Start a kernel. args: arrays of the device (their address is passed) and NumPy scalars."""

    def pointer(self, array: Any) -> int:
        """The address of an array's first element."""


def out_of_memory_error(need: int, free: int | None, total: int | None) -> ResourceError:
    """The error of an allocation that failed."""
    there = "" if free is None else f"; {format_bytes(free)} are free"
    there += "" if total is None else f" of {format_bytes(total)}"
    return ResourceError(f"the GPU has no room for {format_bytes(need)}{there}")


def format_bytes(count: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


class CapturedGraph(NamedTuple):
    """A graph, and the memory that what was recorded writes to: it lives as long as the graph."""

    graph: Any
    memory: list[Any]


class CupyDevice:
    """A GPU by CuPy. Raises BackendError where CuPy is not installed, finds no GPU, or cannot use it."""

    def __init__(self, settings: ExecutionSettings | None = None, index: int = 0):
        self.settings, self.index = settings or ExecutionSettings(), index
        self.cp = import_cupy()
        cuda = self.cp.cuda
        try:
            cuda.nvrtc.getVersion()  # loads NVRTC with its built-in functions, which cuDNN's own loading would not find
            cuda.Device(index).use()
            self.compute_stream, self.copy_stream = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
        except (RuntimeError, ImportError, OSError) as exc:
            raise BackendError(f"the GPU cannot be used: {type(exc).__name__}: {exc}") from exc
        self.pool = cuda.MemoryPool()
        self._active_pool, self._graph_memory = self.pool, list[Any]()
        self.xp = CapturableNamespace(self.cp)
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[int, str], Any] = {}
        self._workspace: Any = None
        self._workspace_bytes = 0

    @cached_property
    def name(self) -> str:
        """What the driver calls it."""
        found = self.cp.cuda.runtime.getDeviceProperties(self.index)["name"]
        return found.decode() if isinstance(found, bytes) else str(found)

    @property
    def capability(self) -> tuple[int, int]:
        """(9, 0) for sm_90."""
        found = str(self.cp.cuda.Device(self.index).compute_capability)
        return int(found[:-1]), int(found[-1])

    @property
    def precision(self) -> str:
        """See `CudaDevice.precision`."""
        return self.settings.precision.name

    @property
    def deterministic(self) -> bool:
        """See `CudaDevice.deterministic`."""
        return self.settings.deterministic

    def alloc(self, nbytes: int) -> Any:
        """Memory of its own, beside CuPy's pools: it is just as large as was asked for."""
        cuda = self.cp.cuda
        try:
            memory = cuda.Memory(max(nbytes, 1))
        except cuda.runtime.CUDARuntimeError as exc:
            if exc.status != CUDA_ERROR_MEMORY_ALLOCATION:
                raise
            self.pool.free_all_blocks()  # what plain bodies have left there; no graph knows of it
            try:
                memory = cuda.Memory(max(nbytes, 1))
            except cuda.runtime.CUDARuntimeError:
                raise out_of_memory_error(nbytes, *cuda.runtime.memGetInfo()) from exc
        return self.cp.ndarray((nbytes,), dtype="uint8", memptr=cuda.MemoryPointer(memory, 0))

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `CudaDevice.empty`."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return self.alloc(count * kind.itemsize).view(kind).reshape(shape)

    def upload(self, array: np.ndarray) -> Any:
        """See `CudaDevice.upload`."""
        array = np.asarray(array, order="C")
        made = self.empty(array.shape, array.dtype.name)
        if array.nbytes:
            made.set(array, stream=self.compute_stream)
            self.compute_stream.synchronize()
        return made

    def owns(self, array: Any) -> bool:
        """See `CudaDevice.owns`."""
        return isinstance(array, self.cp.ndarray)

    def download(self, array: Any) -> np.ndarray:
        """See `CudaDevice.download`."""
        with self.compute_stream:
            return self.cp.asnumpy(array, stream=self.compute_stream, blocking=True)

    def overwrite(self, target: Any, array: np.ndarray) -> None:
        """See `CudaDevice.overwrite`."""
        target.set(np.asarray(array, order="C"), stream=self.compute_stream)
        self.compute_stream.synchronize()

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        """See `CudaDevice.alloc_pinned`; memory of its own, for CuPy's pool takes the next power of two."""
        cuda, count = self.cp.cuda, max(nbytes, 1)
        try:
            memory = cuda.PinnedMemory(count)
        except cuda.runtime.CUDARuntimeError as exc:
            if exc.status != CUDA_ERROR_MEMORY_ALLOCATION:
                raise
            raise ResourceError(f"the host has no room for {format_bytes(nbytes)} of pinned memory") from exc
        return np.frombuffer(cuda.PinnedMemoryPointer(memory, 0), np.uint8, count)[:nbytes]

    def free_bytes(self) -> int | None:
        """See `CudaDevice.free_bytes`; what CuPy's pool holds and nobody uses counts."""
        free, _ = self.cp.cuda.runtime.memGetInfo()
        return int(free) + int(self.pool.free_bytes())

    def reserve(self, nbytes: int) -> None:
        """See `CudaDevice.reserve`."""
        if nbytes > self._workspace_bytes:
            self._workspace_bytes, self._workspace = nbytes, None

    def workspace(self) -> Any:
        """See `CudaDevice.workspace`."""
        if self._workspace is None:
            self._workspace = self.alloc(self._workspace_bytes)
        return self._workspace

    def create_event(self, timing: bool = False) -> Any:
        """See `CudaDevice.create_event`."""
        return self.cp.cuda.Event(disable_timing=not timing)

    def record_event(self, event: Any, stream: Any) -> None:
        """See `CudaDevice.record_event`."""
        event.record(stream)

    def wait_event(self, stream: Any, event: Any) -> None:
        """See `CudaDevice.synchronize`."""
        stream.wait_event(event)

    def synchronize_event(self, event: Any) -> None:
        """See `CudaDevice.synchronize_event`."""
        event.synchronize()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """See `CudaDevice.elapsed_ms`."""
        return float(self.cp.cuda.get_elapsed_time(start, end))

    def copy_from_host(self, target: Any, source: np.ndarray, stream: Any) -> None:
        """See `CudaDevice.copy_from_host`."""
        if source.nbytes:
            target.data.copy_from_host_async(source.ctypes.data, source.nbytes, stream)

    def copy_to_host(self, target: np.ndarray, source: Any, stream: Any) -> None:
        """See `CudaDevice.copy_to_host`."""
        if target.nbytes:
            source.data.copy_to_host_async(target.ctypes.data, target.nbytes, stream)

    def copy_on_device(self, target: Any, source: Any) -> None:
        """See `CudaDevice.copy_on_device`."""
        if source.nbytes:
            target.data.copy_from_device_async(source.data, source.nbytes, self.compute_stream)

    def check_loss(self, block: Any, loss: Any, apply: Any | None) -> None:
        """See `CudaDevice.check_loss`: one thread."""
        module = self.load_module(check_loss_source(loss.dtype.name))
        told = np.uint64(0 if apply is None else self.pointer(apply))
        self.launch(module, "check_loss", 1, 1, (block, loss, told))

    def make_conditional_copy(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        """See `CudaDevice.make_conditional_copy`: one kernel."""
        table = np.array([(self.pointer(t), self.pointer(s), s.nbytes) for t, s in pairs], np.uint64)
        held, module = self.upload(table), self.load_module(COPY_ALL_SOURCE)
        parts = BLOCKS_PER_COPY * len(pairs)
        return lambda: self.launch(module, "copy_all", parts, 256, (np.uint32(parts), held, flag))

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        """See `CudaDevice.enqueue`: a call that starts kernels gives them to the stream by itself."""
        work()

    @contextmanager
    def running(self):
        """See `CudaDevice.running`."""
        with ExitStack() as inside:
            inside.enter_context(self.cp.cuda.Device(self.index))
            inside.enter_context(self.cp.cuda.using_allocator(self._malloc))
            inside.enter_context(self.compute_stream)
            yield

    def _malloc(self, nbytes: int) -> Any:
        return self._active_pool.malloc(nbytes)

    def _malloc_for_graph(self, nbytes: int) -> Any:
        """Memory for the pool of a recording; the pool may give it up, the graph does not."""
        cuda = self.cp.cuda
        made = cuda.MemoryPointer(cuda.Memory(nbytes), 0)
        self._graph_memory.append(made)
        return made

    def begin_capture(self) -> None:
        """See `CudaDevice.begin_capture`.

        Each recording has a pool of its own. What a recorded step leaves there when it is done is free to the pool,
        but the graph goes on writing to it: of the common pool, others would get it meanwhile, and may give it back.
        """
        self._graph_memory = []
        self._active_pool = self.cp.cuda.MemoryPool(self._malloc_for_graph)
        self.compute_stream.begin_capture()

    def end_capture(self) -> Any:
        """See `CudaDevice.end_capture`."""
        graph = self.compute_stream.end_capture()
        graph.upload(self.compute_stream)
        made = CapturedGraph(graph, self._graph_memory)
        self._active_pool, self._graph_memory = self.pool, []
        return made

    def abandon_capture(self) -> None:
        """See `CudaDevice.abandon_capture`."""
        # One that has become void must be ended, too, and says so by an error: it is given up either way.
        with suppress(RuntimeError, ValueError):
            self.compute_stream.end_capture()
        self._active_pool, self._graph_memory = self.pool, []

    def launch_graph(self, graph: Any) -> None:
        """See `CudaDevice.launch_graph`."""
        graph.graph.launch(self.compute_stream)

    def load_module(self, source: str) -> Any:
        """See `CudaDevice.load_module`; compiled code is kept on disk by CuPy (CUPY_CACHE_DIR)."""
        found = self._modules.get(source)
        if found is None:
            options = ("-std=c++17",)
            found = self._modules[source] = self.cp.RawModule(code=source, options=options, backend="nvrtc")
        return found

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """See `CudaDevice.launch`."""
        key = id(module), name
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = module.get_function(name)
        with self.compute_stream:
            function((grid,), (block,), tuple(args))

    def pointer(self, array: Any) -> int:
        """See `CudaDevice.pointer`."""
        return int(array.data.ptr)


def import_cupy() -> Any:
    """The module cupy. Raises BackendError that says what to install or what is missing."""
    try:
        import cupy
    except ImportError as exc:
        raise BackendError(f"CuPy is not installed ({exc}): pip install 'prototorch[cuda13]' (or [cuda12])") from exc
    except (OSError, RuntimeError) as exc:  # a library of CUDA's is not there, or is another version
        raise BackendError(f"CuPy cannot be loaded: {exc}; pip install 'prototorch[cuda13]' (or [cuda12])") from exc
    if not cupy.cuda.is_available():
        raise BackendError("CuPy finds no GPU: is the NVIDIA driver installed? `nvidia-smi` tells")
    return cupy
