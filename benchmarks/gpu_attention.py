"""The first check of attention on a GPU: that cuDNN's fused engines run, in a process without PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.gpu_calls import Report, loaded_libraries
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error, run_op
from benchmarks.gpu_ours import OursOnGpu
from benchmarks.workloads import find_workload
from prototorch.graph.plan_printer import describe_plan
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.train.step_inputs import TRAIN

#: queries [N, T, H, D]; keys and values of the same shape
SHAPE = (2, 128, 4, 64)
#: relative to the largest element: factors and results of 8 and 11 bits, weights rounded in between
TOLERANCE = {"bf16": 3e-2, "fp16": 4e-3}
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def attention(report: Report, folder: Path) -> None:
    """Attention without PyTorch: the CUDA runtime is found, cuDNN's fused engines run, with values beside float64."""
    is_fake = gpu_backend("bf16").device.name == "fake"
    if not is_fake:
        assert "torch" not in sys.modules, "PyTorch was imported before, and hides what is to be seen here"
        sys.modules["torch"] = None  # type: ignore[assignment]  # an import fails
    rng = np.random.default_rng(0)
    for precision, dtype in DTYPES.items():
        backend = gpu_backend(precision)
        for causal in (False, True):
            q, k, v = (rng.standard_normal(SHAPE).astype(dtype) for _ in range(3))
            (got, *_), choice = run_op(backend, "attention_heads", [q, k, v], {"causal": causal})
            expected = run_on_arrays(
                lambda *a: OPS["attention_heads"](*a, causal=causal),  # noqa: B023 - called at once
                *(a.astype(np.float64) for a in (q, k, v)),
            )
            expected = expected[0] if isinstance(expected, tuple) else expected
            error = relative_error(got.astype(np.float64), expected)
            report(f"{precision}{' causal' if causal else ''}: level {choice}, off by {error:.1e} of the largest")
            assert error < TOLERANCE[precision], f"{precision}: off by {error:.1e}"
    if not is_fake:
        runtimes = loaded_libraries("libcudart")
        report(f"CUDA runtime: {', '.join(runtimes) or 'none is loaded'}")
        assert len(runtimes) == 1, f"one CUDA runtime is needed by cuDNN's frontend, there are {len(runtimes)}"
    steps = attention_steps()
    report(f"transformer in bf16: {', '.join(f'{n} x {name}' for name, n in steps.items()) or 'no fused attention'}")
    assert is_fake or all(name.endswith(" by cudnn") for name in steps), "not by cuDNN's fused engines"
    assert is_fake or len(steps) == 2, "expected fused attention and its gradient in the plan"


def attention_steps() -> dict[str, int]:
    """The steps of attention in the transformer's plan for training in bf16, with the family of their kernel."""
    workload = find_workload("transformer")
    one = OursOnGpu(workload, "cuda", "bf16")
    one.feed(*workload.batch(8))
    plan = one.ours.model.trainer.plan_cache.plan(TRAIN, one.ours.specs, create=False)
    counts: dict[str, int] = {}
    for step in describe_plan(plan, one.backend, "").steps:
        if step.op.startswith("attention_heads"):
            name = f"{step.op} by {step.kernel}"
            counts[name] = counts.get(name, 0) + 1
    return counts
