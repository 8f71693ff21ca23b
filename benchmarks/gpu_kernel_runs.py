"""Running and timing single kernels on the GPU, for the first checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.devices import backend_for
from prototorch.ops.operators import OPS
from prototorch.spec import Spec


def run_op(
    backend: Any,
    name: str,
    arrays: Sequence[np.ndarray],
    attrs: dict[str, Any],
    layouts: Sequence[str | None] | None = None,
) -> tuple[tuple[np.ndarray, ...], str]:
    """What an op gives on the GPU by the kernel the backend takes, and the level of that kernel."""
    op = OPS[name]
    specs = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    outs = op.infer_spec(*specs, **attrs)  # type: ignore[attr-defined]
    outs = outs if isinstance(outs, tuple) else (outs,)
    choice = backend.choose_kernel(op, specs, outs, attrs)
    runner = backend.prepare(op, specs, outs, attrs)
    inputs = [backend.asarray(a) for a in arrays]
    outputs = [backend.empty(o) for o in outs]
    with backend.run_context():
        runner(inputs, outputs)
    return tuple(np.asarray(backend.to_numpy(m)) for m in outputs), choice.level


def relative_error(got: Any, want: Any) -> float:
    """The largest difference relative to the largest wanted element; infinite where only one of
    the two is NaN."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return float("inf")
    other = (got != want) & ~np.isnan(want)
    if not other.any():
        return 0.0
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=1e-30))
    return float(np.abs(got[other] - want[other]).max() / largest)


def gpu_backend(precision: str, **more: Any) -> Any:
    """The backend of the GPU."""
    return backend_for("cuda", precision=precision, **more)


def time_kernel(backend: Any, name: str, arrays: Sequence[np.ndarray], attrs: dict[str, Any], times: int = 50) -> float:
    """Seconds of a kernel on the device."""
    op, device = OPS[name], backend.device
    specs = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    outs = op.infer_spec(*specs, **attrs)  # type: ignore[attr-defined]
    outs = outs if isinstance(outs, tuple) else (outs,)
    runner = backend.prepare(op, specs, outs, attrs)
    inputs, outputs = [backend.asarray(a) for a in arrays], [backend.empty(o) for o in outs]
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    with backend.run_context():
        for _ in range(3):
            runner(inputs, outputs)
        device.record_event(start, device.compute_stream)
        for _ in range(times):
            runner(inputs, outputs)
        device.record_event(end, device.compute_stream)
    device.synchronize_event(end)
    return device.elapsed_ms(start, end) / times / 1e3


def time_cupy(cupy: Any, work: Callable[[], Any], times: int = 50) -> float:
    """Seconds of CuPy's work on the device."""
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(3):
        work()
    start.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / times / 1e3
