"""The first checks of convolutions and products on a GPU: beside float64 and cuBLAS, and what timing them gains."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from benchmarks.gpu_calls import Report
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error, run_op, time_cupy, time_kernel
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS

#: relative to the largest element: sums of about 1000 products in another order; 10 and 8 bits of mantissa
TOLERANCE = {"fp32": 1e-5, "tf32": 4e-3, "bf16": 3e-2, "fp16": 4e-3}
LOW_PRECISION = {"bf16": "bfloat16", "fp16": "float16"}
#: products [m, k] x [k, n], and which operand is transposed
MATMUL_CASES: tuple[tuple[int, int, int, dict[str, bool]], ...] = (
    (256, 4096, 4096, {}), (256, 4096, 1000, {"transpose_b": True}), (256, 4096, 4096, {"transpose_a": True}),
    (64, 800, 500, {}),
)  # fmt: skip
#: layers of AlexNet: input, weights, groups, padding, stride
CONV_LAYERS = (
    ("conv1", (256, 3, 227, 227), (96, 3, 11, 11), 1, 0, 4), ("conv2", (256, 96, 27, 27), (256, 48, 5, 5), 2, 2, 1),
    ("conv3", (256, 256, 13, 13), (384, 256, 3, 3), 1, 1, 1),
)  # fmt: skip


def convolutions(report: Report, folder: Path) -> None:
    """Convolution in three directions against float64, with groups, in each precision."""
    rng = np.random.default_rng(0)
    cases: list[tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = [
        ((4, 16, 13, 13), (24, 16, 3, 3), 1, 1, 1), ((4, 16, 13, 13), (24, 8, 3, 3), 2, 1, 2),
        ((2, 3, 35, 35), (16, 3, 11, 11), 1, 0, 4), ((4, 8, 9, 9), (8, 1, 3, 3), 8, 1, 1),
    ]  # fmt: skip
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        for deterministic in (False, True):
            backend = gpu_backend(precision, deterministic=deterministic)
            worst = 0.0
            for x_shape, w_shape, groups, pad, stride in cases:
                attrs = {"strides": (stride,) * 2, "pads": ((pad, pad),) * 2, "dilation": (1, 1), "groups": groups}
                x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
                y = np.asarray(run_on_arrays(lambda a, b: OPS["conv"](a, b, **attrs), x, w))  # noqa: B023 - called at once
                g = rng.standard_normal(y.shape)
                for name, ins, more in (
                    ("conv", (x, w), {}),
                    ("conv_input_grad", (g, w), {"size": x_shape[2:]}),
                    ("conv_weight_grad", (x, g), {"kernel": w_shape[2:]}),
                ):
                    kind = LOW_PRECISION.get(precision, "float32")
                    inputs = [np.asarray(a, dtype=kind) for a in ins]
                    outputs, level = run_op(backend, name, inputs, {**attrs, **more})
                    assert level == "cuda", f"{name} runs by its reference implementation"
                    want = OPS[name].reference(np, *(a.astype(np.float64) for a in inputs), **attrs, **more)
                    error = relative_error(outputs[0].astype(np.float64), want)
                    worst = max(worst, error)
                    assert error < TOLERANCE[precision], f"{name} {x_shape} {w_shape}: {error:.1e}"
            report(f"{precision}{', deterministic' if deterministic else ''}: within {worst:.1e} of the largest")


def products(report: Report, folder: Path) -> None:
    """Dense layers as 1x1 convolutions beside cuBLAS: accuracy and speed."""
    cupy = importlib.import_module("cupy")
    rng = np.random.default_rng(0)
    for precision in ("fp32", "tf32", "bf16"):
        backend = gpu_backend(precision)
        kind = LOW_PRECISION.get(precision, "float32")
        for m, k, n, attrs in MATMUL_CASES:
            a = rng.standard_normal((k, m) if attrs.get("transpose_a") else (m, k)).astype(kind)
            b = rng.standard_normal((n, k) if attrs.get("transpose_b") else (k, n)).astype(kind)
            outputs, level = run_op(backend, "matmul", [a, b], attrs)
            in_double = [v.astype(np.float64) for v in (a, b)]
            want = (in_double[0].T if attrs.get("transpose_a") else in_double[0]) @ (
                in_double[1].T if attrs.get("transpose_b") else in_double[1]
            )
            error = relative_error(outputs[0].astype(np.float64), want)
            ours = time_kernel(backend, "matmul", [a, b], attrs)
            one, two = (cupy.asarray(v) for v in (a, b))
            one, two = (one.T if attrs.get("transpose_a") else one), (two.T if attrs.get("transpose_b") else two)
            theirs = time_cupy(cupy, lambda: cupy.matmul(one, two))  # noqa: B023 - called at once
            flops = 2e-12 * m * k * n
            report(
                f"{precision} {m}x{k}x{n} {attrs or ''}: error {error:.1e}, {flops / ours:.0f} TFLOP/s, "
                f"cuBLAS by CuPy {flops / theirs:.0f} TFLOP/s"
            )
            assert level == "cuda"
            assert error < TOLERANCE[precision], "too far"


def choices(report: Report, folder: Path) -> None:
    """What timing the candidates gains over cuDNN's first choice, for the layers of AlexNet."""
    rng = np.random.default_rng(0)
    for label, x, w, groups, pad, stride in CONV_LAYERS:
        attrs = {"strides": (stride,) * 2, "pads": ((pad, pad),) * 2, "dilation": (1, 1), "groups": groups}
        arrays = [rng.standard_normal(s).astype(numpy_dtype("bfloat16")) for s in (x, w)]
        first = time_kernel(gpu_backend("bf16"), "conv", arrays, attrs, 20)
        best = time_kernel(gpu_backend("bf16", autotune=True), "conv", arrays, attrs, 20)
        report(f"{label}: {first * 1e3:.3f} ms by heuristic, {best * 1e3:.3f} ms by timing")
