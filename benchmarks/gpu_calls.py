"""The first of the first checks on a GPU: every kind of call that the device makes, by itself, for what the sources of
CuPy and CUDA's documents do not decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.engine.backends.devices import backend_for
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.errors import ResourceError

Report = Callable[[str], None]
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "uint64", "bool")
ADD = """extern "C" __global__ void add(unsigned n, float* a, float b) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) a[i] += b;
}"""


def calls(report: Report, folder: Path) -> None:
    """Each kind of call by itself: memory, copies, events, a kernel, a captured graph, what CUDA does not capture."""
    device = backend_for("cuda", precision="fp32").device
    check_copies(device)
    check_strided_copies(device)
    report("memory of each type, copies through pinned memory on a second stream: right")
    if getattr(device, "emulator", device) is None:
        report("this fake device runs no kernels: none is captured")
        return
    target, step = device.upload(np.zeros(1000, np.float32)), np.float32(2)
    module = device.load_module(ADD)

    def add() -> None:
        device.launch(module, "add", 4, 64, (np.uint32(target.size), target, step))

    def total(expected_value: float, what: str) -> None:
        actual = device.download(target)
        assert (actual == expected_value).all(), f"{what}: {actual[0]}, not {expected_value}"

    add()
    total(2, "a kernel, with a float as its argument")
    with device.stream_context():
        device.begin_capture()
        add()
        graph = device.end_capture()
        for _ in range(3):
            device.launch_graph(graph)
    total(8, "a captured kernel, three times")
    check_capture(report, device)
    device.launch_graph(graph)
    total(10, "a graph after captures that failed")
    free = device.free_bytes()
    block = device.alloc(1 << 28)
    less = device.free_bytes()
    del block
    report(
        f"{free / 2**30:.1f} GiB are free, {(free - less) / 2**20:.0f} MiB less with 256 MiB taken, "
        f"{(device.free_bytes() - less) / 2**20:.0f} MiB of them back"
    )
    try:
        device.alloc(1 << 46)
    except ResourceError as why:
        report(f"64 TiB: {why}")
    else:
        raise AssertionError("64 TiB were given")
    device.launch_graph(graph)
    total(12, "a graph after memory that is not there")


def check_copies(device: Any) -> None:
    """Memory there and back, and copies on two streams."""
    for kind in DTYPES:
        expected = np.arange(24).reshape(2, 3, 4).astype(numpy_dtype(kind))
        array = device.upload(expected)
        assert np.array_equal(device.download(array), expected), kind
    pinned_source, pinned_target = device.alloc_pinned(4096), device.alloc_pinned(4096)
    pinned_source[...], pinned_target[...] = np.arange(4096) % 251, 0
    first, second = device.alloc(4096), device.alloc(4096)
    copied, done = device.create_event(timing=True), device.create_event(timing=True)
    device.synchronize_event(copied)  # an event that was never recorded has happened
    device.copy_from_host(first, pinned_source, device.copy_stream)
    device.record_event(copied, device.copy_stream)
    device.wait_event(device.compute_stream, copied)
    device.copy_on_device(second, first)
    device.copy_to_host(pinned_target, second, device.compute_stream)
    device.record_event(done, device.compute_stream)
    device.synchronize_event(done)
    assert np.array_equal(pinned_source, pinned_target), "through pinned memory"
    assert device.elapsed_ms(copied, done) >= 0


def check_strided_copies(device: Any) -> None:
    """Reading back a view whose elements are not in order, as a result with the channels last: CuPy's own kernel puts
    them in order."""
    for kind in DTYPES:
        expected = np.arange(24).reshape(2, 3, 4).astype(numpy_dtype(kind))
        view = device.upload(expected).transpose(0, 2, 1)
        assert np.array_equal(device.download(view), expected.transpose(0, 2, 1)), f"{kind}, transposed"


def check_capture(report: Report, device: Any) -> None:
    """What is tried during a capture. A refusal is an error then, and does not reach the next capture.

    The first two must be refused: a graph without them would be another step. Taking memory and temporaries are what a
    step may do; nothing is freed during the capture of a step, so that either answer is right there.
    """
    block, spare = device.alloc(1024), [device.alloc(1 << 20)]

    def temporaries() -> None:
        device.xp.zeros(1000, dtype="float32")

    for name, is_allowed, work in (
        ("reading back", False, lambda: device.download(block)),
        ("waiting", False, device.compute_stream.synchronize),
        ("taking memory", True, lambda: spare.append(device.alloc(1 << 20))),
        ("freeing memory", None, spare.clear),
        ("a temporary of CuPy's", True, temporaries),
    ):
        try:
            with device.stream_context():
                device.begin_capture()
                work()
                device.end_capture()
            how = ""
        except Exception as why:
            device.abandon_capture()
            how = f"{type(why).__name__}: {str(why)[:100]}"
        report(f"{name} during a capture: {how or 'taken'}")
        assert is_allowed is None or (not how) == is_allowed, f"{name}: {how or 'taken'}"
        device.download(block)


def loaded_libraries(*names: str) -> list[str]:
    """The paths of the libraries in this process whose file name contains one of ``names``."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in maps if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if any(name in path.rsplit("/", 1)[-1] for name in names))
