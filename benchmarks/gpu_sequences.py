"""Recurrent sequences on a GPU: two launches for each time step beside one, beside one for all steps, and cuDNN's RNN.

cuDNN's RNN is timed through PyTorch. It multiplies the input inside, so that the three products of the input are added
to the package's own time.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.gpu_calls import Report
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error
from prototorch.cuda.kernels.candidates import ENV_VAR
from prototorch.cuda.kernels.recurrent_persistent import MAX_UNITS
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

#: what is compared -> the candidate that is chosen for it
KINDS = {
    "two launches a step": "",
    "one launch a step": "recurrent_step",
    "one launch for all steps": "recurrent_persistent",
}
LSTM, GRU = ("lstm_sequence", {}), ("gru_sequence", {"reset_after": True})
#: op, its attributes, precision, and samples, steps, units, size of the input: the benchmark's model, then those of
#: models/lstm.proto and models/lstm_classifier.proto
CASES: tuple[tuple[str, dict[str, Any], str, tuple[int, int, int, int]], ...] = (
    (*LSTM, "bf16", (32, 50, 256, 128)), (*LSTM, "tf32", (32, 50, 256, 128)), (*GRU, "bf16", (32, 50, 256, 128)),
    (*LSTM, "bf16", (64, 28, 128, 28)), (*LSTM, "bf16", (64, 60, 64, 64)), (*GRU, "fp32", (32, 50, 256, 128)),
)  # fmt: skip
BUDGET = 40.0  # seconds, after which no further case is begun: cuDNN compiles some products for a second each
#: relative to the largest element, after so many steps
TOLERANCE = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 6e-2}
GRAPHS = 20  # launches of a captured sequence that are timed
Run = tuple[str, Sequence[Any], dict[str, Any]]  # an op, its arrays on the host, its attributes


def run_captured(backend: Any, runs: Sequence[Run]) -> tuple[float, list[np.ndarray]]:
    """Seconds of ops one after another in a CUDA graph, and their outputs."""
    device, steps = backend.device, []
    for name, arrays, attrs in runs:
        specs = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
        outs = OPS[name].infer_spec(*specs, **attrs)
        outs = outs if isinstance(outs, tuple) else (outs,)
        kernel = backend.prepare(OPS[name], specs, outs, attrs)
        steps.append((kernel, [backend.asarray(a) for a in arrays], [backend.empty(o) for o in outs]))
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    with backend.run_context():
        for kernel, ins, outs in steps:  # compiles what is missing
            kernel(ins, outs)
        device.begin_capture()
        for kernel, ins, outs in steps:
            kernel(ins, outs)
        graph = device.end_capture()
        device.launch_graph(graph)
        device.record_event(start, device.compute_stream)
        for _ in range(GRAPHS):
            device.launch_graph(graph)
        device.record_event(end, device.compute_stream)
    device.synchronize_event(end)
    seconds = device.elapsed_ms(start, end) / GRAPHS / 1e3
    return seconds, [np.asarray(backend.to_numpy(a)) for _, _, outs in steps for a in outs]


def sequence_runs(name: str, attrs: dict[str, Any], shape: tuple[int, int, int, int], dtype: Any) -> list[Run]:
    """A sequence and its gradient on random numbers, the states after each step taken from the reference
    implementation."""
    samples, steps, units, _ = shape
    op, rng = OPS[name], np.random.default_rng(0)
    sizes = [(samples, steps, op.gates * units), (units, op.gates * units)]
    sizes += [(op.gates * units,)] * (op.weights - 1) + [(samples, units)] * op.states
    scale = [1.0, units**-0.5] + [1.0] * (len(sizes) - 2)
    ins = [(rng.standard_normal(s) * f).astype(np.float32).astype(dtype) for s, f in zip(sizes, scale, strict=True)]
    outs = run_on_arrays(lambda *v: op(*v, **attrs), *(a.astype(np.float32) for a in ins))
    after = [outs[0].astype(dtype), *(a.astype(dtype) for a in outs[1 + op.states :])]
    grads = [rng.standard_normal(a.shape).astype(np.float32).astype(dtype) for a in outs[: 1 + op.states]]
    return [(name, ins, attrs), (f"{name}_grad", [*ins, *after, *grads], attrs)]


def input_products(shape: tuple[int, int, int, int], gates: int, dtype: Any) -> list[Run]:
    """The three products of a layer's input, forward and back."""
    samples, steps, units, size = shape
    x, w, g = (
        np.ones(s, np.float32).astype(dtype)
        for s in ((samples * steps, size), (size, gates * units), (samples * steps, gates * units))
    )
    return [
        ("matmul", [x, w], {}),
        ("matmul", [g, w], {"transpose_b": True}),
        ("matmul", [x, g], {"transpose_a": True}),
    ]


def compare_sequences(say: Report) -> None:
    """Time each kind of sequence, and cuDNN's RNN, forward and back in one CUDA graph; check what they give.

    Raises AssertionError where a result is wrong.
    """
    wrong: list[str] = []
    begin = time.perf_counter()
    for name, attrs, precision, shape in CASES:
        title = f"{name} {'x'.join(map(str, shape))} {precision}"
        if time.perf_counter() - begin > BUDGET:
            say(f"{title}: left out, {BUDGET:.0f} s are over")
            continue
        backend = gpu_backend(precision)
        dtype = numpy_dtype("bfloat16") if precision == "bf16" else np.dtype("float32")
        runs = sequence_runs(name, attrs, shape, dtype)
        want = [a for run in runs for a in reference_outputs(run)]
        seconds = {}
        for label, chosen in KINDS.items():
            if chosen == "recurrent_persistent" and shape[2] > MAX_UNITS:
                continue
            with candidates(chosen):
                seconds[label], found = run_captured(backend, runs)
            error = max(relative_error(a, b) for a, b in zip(found, want, strict=True))
            if not error <= TOLERANCE[precision]:
                wrong.append(f"{title}, {label}: off by {error:.1e} of the largest element")
        products, _ = run_captured(backend, input_products(shape, OPS[name].gates, dtype))
        seconds = {label: s + products for label, s in seconds.items()}
        try:
            seconds["cuDNN's RNN"] = time_torch(name, shape, precision)
        except Exception as why:  # PyTorch is not needed for the rest
            say(f"{title}: PyTorch's cannot be timed: {type(why).__name__}: {why}")
        say(f"{title}: " + ", ".join(f"{label} {s * 1e6:.0f} us" for label, s in seconds.items()))
    assert not wrong, "; ".join(wrong)


def reference_outputs(run: Run) -> list[np.ndarray]:
    """What the reference implementation gives in float32."""
    name, arrays, attrs = run
    return list(run_on_arrays(lambda *v: OPS[name](*v, **attrs), *(a.astype(np.float32) for a in arrays)))


@contextmanager
def candidates(chosen: str) -> Iterator[None]:
    """Inside, the candidates are these."""
    before = os.environ.get(ENV_VAR)
    os.environ[ENV_VAR] = chosen
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENV_VAR]
        else:
            os.environ[ENV_VAR] = before


def time_torch(name: str, shape: tuple[int, int, int, int], precision: str) -> float:
    """Seconds of PyTorch's layer, forward and back, in a CUDA graph: cuDNN's RNN."""
    torch = importlib.import_module("torch")
    samples, steps, units, size = shape
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    layer = (torch.nn.LSTM if name.startswith("lstm") else torch.nn.GRU)(size, units, batch_first=True)
    layer = layer.to("cuda", dtype)
    x = torch.randn(samples, steps, size, device="cuda", dtype=dtype, requires_grad=True)
    grad = torch.randn(samples, steps, units, device="cuda", dtype=dtype)

    def step() -> None:
        torch.autograd.grad(layer(x)[0], (x, *layer.parameters()), grad)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(GRAPHS):
        graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / GRAPHS / 1e3
