"""What is to be verified first where a GPU is at hand, in this order: nothing of it can be known without one.

Each check says PASS, FAIL or what it measured; one that fails does not keep the others from running.
"""

from __future__ import annotations

import datetime
import importlib
import math
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.gpu_calls import Report, calls
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error, run_op, time_cupy, time_kernel
from benchmarks.isolated_process import run_isolated
from benchmarks.workloads import find_workload
from prototorch.backends.core import Backend
from prototorch.backends.precision import numpy_dtype
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.train.memory_estimate import SCRATCH
from prototorch.train.summary import memory_by_purpose as by_purpose

#: relative to the largest element: sums of about 1000 products in another order; 10 and 8 bits of mantissa
TOLERANCE = {"fp32": 1e-5, "tf32": 4e-3, "bf16": 3e-2, "fp16": 4e-3}
LOW_PRECISION = {"bf16": "bfloat16", "fp16": "float16"}
#: what is recorded and compared: a row, its batch, how many steps
CAPTURED_NETS = (("lenet", 32, 1000), ("alexnet", 16, 30))
#: products [m, k] x [k, n], and which operand is turned
MATMUL_CASES: tuple[tuple[int, int, int, dict[str, bool]], ...] = (
    (256, 4096, 4096, {}), (256, 4096, 1000, {"transpose_b": True}), (256, 4096, 4096, {"transpose_a": True}),
    (64, 800, 500, {}),
)  # fmt: skip
#: layers of AlexNet: input, weights, groups, padding, stride
CONV_LAYERS = (
    ("conv1", (256, 3, 227, 227), (96, 3, 11, 11), 1, 0, 4), ("conv2", (256, 96, 27, 27), (256, 48, 5, 5), 2, 2, 1),
    ("conv3", (256, 256, 13, 13), (384, 256, 3, 3), 1, 1, 1),
)  # fmt: skip
BATCH = 256  # of the first look at rates, feeding and memory


def properties(say: Report, folder: Path) -> None:
    """2. The device as cuDNN sees it, kept as a file for the plans that are made without one."""
    gpu_backend("fp32")
    cudnn = importlib.import_module("cudnn")
    text = cudnn.create_device_properties(0).serialize()
    text = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
    (folder / "gpu-properties.json").write_text(text, encoding="utf-8")
    say(f"kept in gpu-properties.json: {text[:200]}")


def libraries(say: Report, folder: Path) -> None:
    """3. PyTorch, CuPy and cuDNN in one process, and one CUDA runtime."""
    for name in ("torch", "cupy", "cudnn"):
        importlib.import_module(name)
    gpu_backend("fp32")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split("\n")
    libraries_loaded = sorted({line.split("/")[-1] for line in maps if "libcudart" in line or "libcudnn.so" in line})
    say(f"loaded: {', '.join(libraries_loaded)}")
    assert sum("libcudart" in name for name in libraries_loaded) <= 1, "several CUDA runtimes"


def convolutions(say: Report, folder: Path) -> None:
    """4. Convolution in three directions against float64, with groups, in each precision."""
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
                    assert level == "cuda", f"{name} fell to the plain body"
                    want = OPS[name].reference(np, *(a.astype(np.float64) for a in inputs), **attrs, **more)
                    error = relative_error(outputs[0].astype(np.float64), want)
                    worst = max(worst, error)
                    assert error < TOLERANCE[precision], f"{name} {x_shape} {w_shape}: {error:.1e}"
            say(f"{precision}{', deterministic' if deterministic else ''}: within {worst:.1e} of the largest")


def products(say: Report, folder: Path) -> None:
    """8. Dense layers as 1x1 convolutions beside cuBLAS: accuracy and speed."""
    cupy = importlib.import_module("cupy")
    rng = np.random.default_rng(0)
    for precision in ("fp32", "tf32", "bf16"):
        backend = gpu_backend(precision)
        kind = LOW_PRECISION.get(precision, "float32")
        for m, k, n, attrs in MATMUL_CASES:
            a = rng.standard_normal((k, m) if attrs.get("transpose_a") else (m, k)).astype(kind)
            b = rng.standard_normal((n, k) if attrs.get("transpose_b") else (k, n)).astype(kind)
            outputs, level = run_op(backend, "matmul", [a, b], attrs)
            wide = [v.astype(np.float64) for v in (a, b)]
            want = (wide[0].T if attrs.get("transpose_a") else wide[0]) @ (
                wide[1].T if attrs.get("transpose_b") else wide[1]
            )
            error = relative_error(outputs[0].astype(np.float64), want)
            ours = time_kernel(backend, "matmul", [a, b], attrs)
            one, two = (cupy.asarray(v) for v in (a, b))
            one, two = (one.T if attrs.get("transpose_a") else one), (two.T if attrs.get("transpose_b") else two)
            theirs = time_cupy(cupy, lambda: cupy.matmul(one, two))  # noqa: B023 - called at once
            flops = 2e-12 * m * k * n
            say(f"{precision} {m}x{k}x{n} {attrs or ''}: error {error:.1e}, {flops / ours:.0f} TFLOP/s, "
                f"cuBLAS by CuPy {flops / theirs:.0f} TFLOP/s")  # fmt: skip
            assert level == "cuda"
            assert error < TOLERANCE[precision], "too far"


def kernels(say: Report, folder: Path) -> None:
    """13. All kernels against the plain bodies: every case of the ops' table, in float32."""
    cases = Path(__file__).parent.parent / "tests" / "ops"
    assert cases.is_dir(), "the tests are not here: run from a source tree"
    sys.path.insert(0, str(cases.parent.parent))
    table = importlib.import_module("tests.ops.op_case")
    for module in sorted(cases.glob("cases_*.py")):
        importlib.import_module(f"tests.ops.{module.stem}")
    backend, reference_backend = gpu_backend("fp32"), Backend("plain", np, ())
    count, failures, without_kernel = 0, [], set()
    for case in table.CASES:
        arrays = case.arrays("float32")
        with np.errstate(all="ignore"):
            want = case.reference(arrays)
        try:
            outputs, level = run_op(backend, case.op, arrays, case.attrs)
        except Exception as why:
            failures.append(f"{case}: {type(why).__name__}: {str(why)[:120]}")
            continue
        count += 1
        if level != "cuda":
            without_kernel.add(case.op)
            continue
        worst = max((relative_error(a, b) for a, b in zip(outputs, want, strict=True)), default=0.0)
        if not worst < max(case.tolerance32, 1e-4):  # sums in another order, and the GPU's own exp and log
            failures.append(f"{case}: {worst:.1e}")
    del reference_backend
    say(f"{count} cases run; by plain bodies: {', '.join(sorted(without_kernel))}")
    assert not failures, f"{len(failures)} failed: " + "; ".join(failures[:40])


def captured(say: Report, folder: Path) -> None:
    """5. A recorded step is the plain one, bit for bit, over 1000 steps; draws go on from step to step."""
    from benchmarks.gpu_cell import DeviceMonitor, OursOnGpu

    for name, batch, steps in CAPTURED_NETS:
        row = find_workload(name)
        x, y = row.batch(batch)
        ends = []
        for is_captured in (True, False):
            one = OursOnGpu(row, DeviceMonitor("cuda"), "fp32", False)
            one.ours.feed(x, y)
            if not is_captured:
                runner = one.ours.model.trainer.plan_cache.executor("train", one.ours.specs)
                runner.capture_failure = "left out for the comparison"  # type: ignore[attr-defined]
            losses = [one.ours.train() for _ in range(steps)]
            runner = one.ours.model.trainer.plan_cache.executor("train", one.ours.specs)
            if is_captured:
                assert getattr(runner, "graph", None) is not None, (
                    f"not recorded: {getattr(runner, 'capture_failure', '?')}"
                )
            ends.append((losses[-1], {k: np.array(v) for k, v in one.ours.model.weights.items()}))
        same = all(np.array_equal(ends[0][1][k], ends[1][1][k], equal_nan=True) for k in ends[0][1])
        say(f"{name}: {steps} steps, last losses {ends[0][0]:.6f} and {ends[1][0]:.6f}")
        assert same, f"{name}: the weights differ"


def collective(say: Report, folder: Path) -> None:
    """12. NCCL with one rank inside a recording."""
    cupy = importlib.import_module("cupy")
    nccl = importlib.import_module("cupy.cuda.nccl")
    comm = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
    stream, a = cupy.cuda.Stream(non_blocking=True), cupy.arange(8, dtype=cupy.float32)
    args = (a.data.ptr, a.data.ptr, a.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM)
    with stream:
        comm.allReduce(*args, stream.ptr)
        stream.synchronize()
        stream.begin_capture()
        comm.allReduce(*args, stream.ptr)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert (cupy.asnumpy(a) == np.arange(8)).all()
    say("an all-reduce of one rank is recorded and replayed")


def preparing(say: Report, folder: Path) -> None:
    """11. How long a net's kernels and plans take to be made: the first time, and again in the same process."""
    from benchmarks.gpu_cell import DeviceMonitor, OursOnGpu

    for name in ("lenet", "resnet50", "transformer"):
        for turn in ("first", "again"):
            row = find_workload(name)
            one = OursOnGpu(row, DeviceMonitor("cuda"), "bf16", False)
            one.ours.feed(*row.batch(32))
            begin = time.perf_counter()
            one.ours.train()
            say(f"{name} {turn}: {time.perf_counter() - begin:.1f} s to the end of the first step")


def choices(say: Report, folder: Path) -> None:
    """9. What timing the candidates gains over cuDNN's first choice, for the layers of AlexNet."""
    rng = np.random.default_rng(0)
    for label, x, w, groups, pad, stride in CONV_LAYERS:
        attrs = {"strides": (stride,) * 2, "pads": ((pad, pad),) * 2, "dilation": (1, 1), "groups": groups}
        arrays = [rng.standard_normal(s).astype(numpy_dtype("bfloat16")) for s in (x, w)]
        first = time_kernel(gpu_backend("bf16"), "conv", arrays, attrs, 20)
        best = time_kernel(gpu_backend("bf16", autotune=True), "conv", arrays, attrs, 20)
        say(f"{label}: {first * 1e3:.3f} ms by heuristic, {best * 1e3:.3f} ms by timing")


def rates(say: Report, folder: Path) -> None:
    """10. A first look at the rates."""
    from benchmarks.gpu_cell import TRAINING, measure

    for name in ("lenet", "alexnet", "resnet50"):
        for precision in ("bf16", "tf32", "fp32"):
            result = measure(name, precision, BATCH, TRAINING, ("channels_last", "graph"), 3, 0.1, False)
            figures = ", ".join(f"{k} {BATCH / v:,.0f}" for k, v in result.seconds.items())
            say(f"{name} {precision}: {figures} img/s; {'; '.join(result.remarks)}")


def feeding(say: Report, folder: Path) -> None:
    """7. Whether copies from the host run beside the steps."""
    from benchmarks.gpu_cell import TRAINING, measure

    result = measure("alexnet", "bf16", BATCH, TRAINING, (), 3, 0.3, False)
    figures = ", ".join(f"{k} {v * 1e3:.2f} ms" for k, v in result.seconds.items())
    say(f"AlexNet, {BATCH}: {figures}; the batch alone is {BATCH * 3 * 227 * 227 * 4 / 2**20:.0f} MiB")


def memory(say: Report, folder: Path) -> None:
    """6. The plan's figure beside what is taken."""
    from benchmarks.gpu_cell import DeviceMonitor, OursOnGpu

    for name in ("alexnet", "resnet50"):
        row, device = find_workload(name), DeviceMonitor("cuda")
        before = device.used_bytes()
        one = OursOnGpu(row, device, "bf16", False)
        one.ours.feed(*row.batch(BATCH))
        for _ in range(4):
            one.ours.train()
        program = one.ours.model.trainer.plan_cache
        figure = {k: v / 2**20 for k, v in by_purpose(program, BATCH).items()}
        say(
            f"{name}: {figure['total']:,.0f} MiB by the plan ({figure['both, sharing memory']:,.0f} of it the arena, "
            f"{figure[SCRATCH]:,.0f} the kernels'), {(device.used_bytes() - before) / 2**20:,.0f} MiB taken with "
            "CUDA's code and libraries"
        )


CHECKS = (
    calls,
    properties,
    libraries,
    convolutions,
    captured,
    memory,
    feeding,
    products,
    choices,
    rates,
    preparing,
    collective,
    kernels,
)
LIMIT = 240  # seconds for a check
VERDICT = "VERDICT "


def one_check(name: str, folder: Path) -> int:
    """Run a check in this process; 0 where it passed. What it says is printed as it comes, its verdict at the end."""
    check = next(c for c in CHECKS if c.__name__ == name)
    try:
        check(lambda text: print(text.replace("\n", " "), flush=True), folder)
    except Exception as why:
        traceback.print_exc(limit=-4)
        print(VERDICT + f"FAIL: {type(why).__name__}: {str(why)[:2000]}".replace("\n", " "), flush=True)
        return 1
    print(VERDICT + "PASS", flush=True)
    return 0


def first_checks(folder: Path, versions: str, names: Sequence[str] | None = None, budget: float = math.inf) -> int:
    """Run all checks, or those of these names, print and keep what they say; the number of checks that failed.

    Each has a process of its own: after an error inside a kernel a process can do nothing more on the GPU. ``budget``:
    seconds after which none is begun.
    """
    start = time.perf_counter()
    lines = [f"# First checks on a GPU, {datetime.date.today()}", "", f"{versions}.", ""]
    failures = 0
    for number, check in enumerate(CHECKS, 1):
        if names is not None and check.__name__ not in names:
            continue
        title = f"{number}. `{check.__name__}`: " + (check.__doc__ or "").split(". ", 1)[-1].split("\n")[0]
        print(title, flush=True)
        spare = budget - (time.perf_counter() - start)
        if spare <= 0:
            verdict, report_lines, took = "left out, for the time was up", [], 0.0
        else:
            begin = time.perf_counter()
            command = [sys.executable, "-m", "benchmarks.gpu", "--check", check.__name__]
            done = run_isolated(command, min(LIMIT, spare + 30))
            took = time.perf_counter() - begin
            output_lines = done.out.splitlines()
            report_lines = [line for line in output_lines if not line.startswith(VERDICT)]
            last = (done.err.strip().splitlines() or [""])[-1]
            ending = f"not done within {took:.0f} s" if done.code is None else f"ended with {done.code}: {last[:300]}"
            verdict = next(
                (t[len(VERDICT) :] for t in output_lines if t.startswith(VERDICT)), f"FAIL: the process {ending}"
            )
            if verdict != "PASS":
                failures += 1
                print(done.err[-3000:], flush=True)
        for text in report_lines:
            print(f"   {text}", flush=True)
        print(f"   {verdict} ({took:.1f} s)", flush=True)
        lines += [f"{title} **{verdict}** ({took:.1f} s)", *(f"   * {text}" for text in report_lines)]
        path = folder / f"gpu-first-checks-{datetime.date.today()}.md"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return failures
