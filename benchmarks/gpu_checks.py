"""What is to be verified first where a GPU is at hand, in this order: nothing of it can be known without one.

Each check ends with PASS or FAIL, and reports what it measured; one that fails does not keep the others from running.
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

from benchmarks import gpu_cell
from benchmarks.gpu_attention import attention
from benchmarks.gpu_calls import Report, calls, loaded_libraries
from benchmarks.gpu_candidates import CANDIDATE_CHECKS
from benchmarks.gpu_kernel_runs import gpu_backend, relative_error, run_op
from benchmarks.gpu_ours import OursOnGpu
from benchmarks.gpu_products import choices, convolutions, products
from benchmarks.isolated_process import run_isolated
from benchmarks.workloads import TRAINING, find_workload
from prototorch.engine.backends.core import Backend
from prototorch.train.memory_estimate import SCRATCH
from prototorch.train.summary import memory_by_purpose as by_purpose

#: what is captured and compared: a net, its precision, whether deterministic kernels are asked for, the batch, how many
#: steps. In float32 some of cuDNN's first choices give other bits in every run, so that bits can be compared with
#: deterministic ones alone
CAPTURED_NETS = (("lenet", "fp32", True, 32, 1000), ("lenet", "bf16", False, 32, 1000),
                 ("alexnet", "fp32", True, 16, 30), ("alexnet", "bf16", False, 16, 30))  # fmt: skip
#: how far weights may lie apart, relative to the largest of an array, where the kernels of a net are seen not to repeat
#: their bits: what rounding to 8 bits in a few dozen steps leaves
UNREPEATABLE_TOLERANCE = 0.05
RATE_NETS, RATE_PRECISIONS = ("lenet", "alexnet", "resnet50"), ("bf16", "tf32", "fp32")
BATCH = 256  # of the first look at rates, feeding and memory


def properties(report: Report, folder: Path) -> None:
    """The device as cuDNN sees it, kept as a file for the plans that are made without one."""
    gpu_backend("fp32")
    cudnn = importlib.import_module("cudnn")
    text = cudnn.create_device_properties(0).serialize()
    text = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
    (folder / "gpu-properties.json").write_text(text, encoding="utf-8")
    report(f"kept in gpu-properties.json: {text[:200]}")


def libraries(report: Report, folder: Path) -> None:
    """PyTorch, CuPy and cuDNN in one process, and one CUDA runtime."""
    for name in ("torch", "cupy", "cudnn"):
        try:
            importlib.import_module(name)
        except ImportError:
            if name != "torch":
                raise
            report("PyTorch is not installed")
    gpu_backend("fp32")
    report(f"loaded: {', '.join(loaded_libraries('libcudart', 'libcudnn.so'))}")
    runtimes = loaded_libraries("libcudart")
    assert len(runtimes) <= 1, f"several CUDA runtimes: {', '.join(runtimes)}"


def kernels(report: Report, folder: Path) -> None:
    """All kernels against the reference implementations: every case of the ops' table, in float32."""
    cases = Path(__file__).parent.parent / "tests" / "ops"
    assert cases.is_dir(), "the tests are not here: run from a source tree"
    sys.path.insert(0, str(cases.parent.parent))
    table = importlib.import_module("tests.ops.op_case")
    for module, reason in table.import_cases().items():
        report(f"left out: tests/ops/{module}.py: {reason}")
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
    report(f"{count} cases run; by reference implementations: {', '.join(sorted(without_kernel))}")
    assert not failures, f"{len(failures)} failed: " + "; ".join(failures[:40])


def train_steps(
    name: str, precision: str, deterministic: bool, batch: int, steps: int, is_captured: bool
) -> tuple[float, dict[str, np.ndarray]]:
    """The last loss and the weights after some steps as one graph each, or kernel by kernel."""
    one = OursOnGpu(find_workload(name), "cuda", precision, deterministic=deterministic)
    one.feed(*find_workload(name).batch(batch))
    runner = one.ours.model.trainer.plan_cache.executor("train", one.ours.specs)
    if not is_captured:
        runner.capture_failure = "left out for the comparison"  # type: ignore[attr-defined]
    losses = [one.ours.train() for _ in range(steps)]
    if is_captured:
        failure = getattr(runner, "capture_failure", "?")
        assert getattr(runner, "graph", None) is not None, f"{name} {precision} was not captured: {failure}"
    return losses[-1], one.weights()


def captured(report: Report, folder: Path) -> None:
    """A captured step gives the bits of its kernels one by one, over 1000 steps; random draws go on between steps."""
    for name, precision, deterministic, batch, steps in CAPTURED_NETS:
        setting = (name, precision, deterministic, batch, steps)
        first, second = train_steps(*setting, True), train_steps(*setting, False)
        report(
            f"{name} {precision}{' deterministic' if deterministic else ''}: {steps} steps, last losses "
            f"{first[0]:.6f} captured and {second[0]:.6f} kernel by kernel"
        )
        different = changed_arrays(first[1], second[1])
        if not different:
            continue
        assert not deterministic, f"{name} {precision}: other weights than kernel by kernel: {', '.join(different)}"
        again = changed_arrays(first[1], train_steps(*setting, True)[1])
        assert again, f"{name} {precision}: captured steps repeat their bits, and kernel by kernel gives others: " + (
            ", ".join(different)
        )
        error = max(relative_error(first[1][k], second[1][k]) for k in different)
        report(f"{name} {precision}: not comparable bit for bit, two captured runs differ too; within {error:.1e}")
        assert error < UNREPEATABLE_TOLERANCE, f"{name} {precision}: off by {error:.1e}"


def changed_arrays(some: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> list[str]:
    """The names of the arrays that differ in a bit."""
    return [k for k in some if not np.array_equal(some[k], others[k], equal_nan=True)]


def collective(report: Report, folder: Path) -> None:
    """NCCL with one rank inside a recording."""
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
    report("an all-reduce of one rank is recorded and replayed")


def preparing(report: Report, folder: Path) -> None:
    """How long a net's kernels and plans take to be made: the first time, and again in the same process."""
    for name in ("lenet", "resnet50", "transformer"):
        for attempt in ("first", "again"):
            one = OursOnGpu(find_workload(name), "cuda", "bf16")
            one.feed(*find_workload(name).batch(32))
            begin = time.perf_counter()
            one.ours.train()
            report(f"{name} {attempt}: {time.perf_counter() - begin:.1f} s to the end of the first step")


def rates(report: Report, folder: Path) -> None:
    """A first look at the rates."""
    contenders = (gpu_cell.OURS, "torch channels_last", "torch graph")
    for name in RATE_NETS:
        for precision in RATE_PRECISIONS:
            result = gpu_cell.measure(name, precision, BATCH, TRAINING, contenders, 3, 0.1)
            figures = ", ".join(f"{k} {BATCH / v:,.0f}" for k, v in result.seconds.items())
            report(f"{name} {precision}: {figures} img/s; {'; '.join(result.remarks)}")
            assert gpu_cell.OURS in result.seconds, f"{name} {precision}: prototorch failed"


def feeding(report: Report, folder: Path) -> None:
    """Whether copies from the host run beside the steps."""
    result = gpu_cell.measure("alexnet", "bf16", BATCH, TRAINING, (gpu_cell.OURS,), 3, 0.3)
    figures = ", ".join(f"{k} {v * 1e3:.2f} ms" for k, v in result.seconds.items())
    report(f"AlexNet, {BATCH}: {figures}; the batch alone is {BATCH * 3 * 227 * 227 * 4 / 2**20:.0f} MiB")
    assert "fed" in result.seconds, "; ".join(result.remarks)


def memory(report: Report, folder: Path) -> None:
    """The plan's figure beside what is taken."""
    for name in ("alexnet", "resnet50"):
        one = OursOnGpu(find_workload(name), "cuda", "bf16")
        before = one.free_bytes()
        one.feed(*find_workload(name).batch(BATCH))
        for _ in range(4):
            one.ours.train()
        figure = {k: v / 2**20 for k, v in by_purpose(one.ours.model.trainer.plan_cache, BATCH).items()}
        taken = (before - one.free_bytes()) / 2**20
        report(
            f"{name}: {figure['total']:,.0f} MiB by the plan ({figure['both, sharing memory']:,.0f} of it the arena, "
            f"{figure[SCRATCH]:,.0f} the kernels'), {taken:,.0f} MiB taken with CUDA's code and libraries"
        )
        one.close()


CHECKS = (
    calls,
    attention,
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
    *CANDIDATE_CHECKS,
)
LIMIT = 240  # seconds for a check
VERDICT = "VERDICT "


def one_check(name: str, folder: Path) -> int:
    """Run a check in this process; 0 where it passed. Reports are printed as they come, the verdict at the end."""
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
    """Run all checks, or those of these names, print and keep their reports; the number of checks that failed.

    Each has a process of its own: after an error inside a kernel a process can do nothing more on the GPU. ``budget``:
    seconds after which none is begun.
    """
    start = time.perf_counter()
    lines = [f"# First checks on a GPU, {datetime.date.today()}", "", f"{versions}.", ""]
    failures = 0
    for number, check in enumerate(CHECKS, 1):
        if names is not None and check.__name__ not in names:
            continue
        title = f"{number}. `{check.__name__}`: " + (check.__doc__ or "").split("\n")[0]
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
