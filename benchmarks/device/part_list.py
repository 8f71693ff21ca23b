"""The steps of all parts, in their order."""

from __future__ import annotations

from pathlib import Path

from benchmarks.device.rows import ROWS
from benchmarks.device.sanitize import describe_sanitizer
from benchmarks.device.step import Step, describe_output, describe_tables
from benchmarks.device.tests_summary import describe_tests
from benchmarks.isolated_process import ROOT

#: what the steps without a stand-in read instead
SAMPLES = ROOT / "tests" / "benchmarks" / "samples"
#: the first checks of part 1 with their limits in seconds; `benchmarks.gpu_checks` says what each looks at
FIRST_CHECKS = (
    ("calls", 45), ("attention", 60), ("properties", 20), ("libraries", 30), ("convolutions", 60), ("captured", 60),
    ("products", 40), ("memory", 60), ("preparing", 90),
)  # fmt: skip
#: files of tests/cuda/gpu that have a step of their own: the longest, and one that imports PyTorch, which would load
#: what the others must find alone
SEPARATE = ("test_gpu_layers.py", "test_gpu_op_db.py")
#: of each process of tests, of which there is one a processor
ONE_THREAD = tuple((f"{name}_THREADS", "1") for name in ("PROTOTORCH", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM"))
#: kernels that stand beside those in use (`benchmarks.gpu_candidates`)
CANDIDATE_CHECKS = ("row_kernels", "sequences", "row_sums")


def describe_check(folder: Path) -> list[str]:
    """What a check reported, and its verdict; a traceback only where it has none."""
    lines = describe_output(folder)
    return [line for line in lines if not line.startswith("  File ")]


def _check(name: str, limit: float, part: int = 1, least: float = 5.0) -> Step:
    command = ("-m", "benchmarks.gpu", "--check", name, "--folder", "{folder}")
    return Step(f"check-{name}", part, f"first check `{name}`", limit, command, least, describe=describe_check)


def _tests(name: str, title: str, limit: float, *arguments: str) -> Step:
    command = ("-m", "benchmarks.device.run_tests", "{folder}", "-n", "{cores}", *arguments)
    return Step(name, 2, title, limit, command, least=20, resumes=True, environment=ONE_THREAD, describe=describe_tests)


def _profile(net: str, precision: str) -> Step:
    command = ("-m", "benchmarks.gpu_profile", net, "--precision", precision, "--folder", "{folder}")
    title = f"kernels of a training step of {net} in {precision}, batch 256"
    sample = ("-m", "benchmarks.gpu_profile", net, "--sample", str(SAMPLES / "profile"))
    return Step(
        f"profile-{net}-{precision}", 4, title, 75, command, least=25, stand_in=sample, describe=describe_tables
    )


def _sanitizer(tool: str, count: int, limit: float) -> Step:
    command = ("-m", "benchmarks.device.sanitize", tool, str(count), "{folder}")
    sample = (*command, "--sample", str(SAMPLES / "memcheck.log"))
    title = f"{count} tests of layers and ops under compute-sanitizer's {tool}"
    return Step(f"sanitizer-{tool}", 5, title, limit, command, least=25, stand_in=sample, describe=describe_sanitizer)


def _training_files() -> list[str]:
    files = sorted(p.name for p in (ROOT / "tests" / "cuda" / "gpu").glob("test_*.py") if p.name not in SEPARATE)
    return [f"tests/cuda/gpu/{name}" for name in files]


STEPS = (
    Step("environment", 1, "Python, packages, imports", 60, ("-m", "benchmarks.device.environment"), required=True),
    Step("devices", 1, "prototorch devices", 30, ("-m", "prototorch", "devices")),
    *(_check(name, limit) for name, limit in FIRST_CHECKS),
    _tests("tests-spread", "150 tests of tests/cuda/gpu, some of each kind", 120, "tests/cuda/gpu", "--spread", "150"),
    _tests("tests-training", "tests/cuda/gpu without layers and samples", 200, *_training_files()),
    _tests("tests-layers", "every layer and op beside the CPU", 420, "tests/cuda/gpu/test_gpu_layers.py"),
    _tests("tests-op-db", "tensors beside the CPU over PyTorch's samples", 420, "tests/cuda/gpu/test_gpu_op_db.py"),
    *ROWS,
    _profile("resnet50", "bf16"), _profile("transformer", "bf16"),
    *(_check(check, 50, part=4, least=20.0) for check in CANDIDATE_CHECKS),
    *(_profile(net, precision) for net, precision in (("alexnet", "bf16"), ("lenet", "bf16"), ("resnet50", "tf32"))),
    _sanitizer("memcheck", 100, 110), _sanitizer("racecheck", 12, 40), _sanitizer("initcheck", 12, 40),
)  # fmt: skip

#: what a machine that is there for ten minutes is used for: steps of the parts in another order, each with its seconds;
#: a step that needs more is open again. What is left of the time goes to the last.
FIRST = {
    "environment": 40, "check-calls": 45, "check-captured": 45, "tests-spread": 110, "row-resnet50-bf16": 70,
    "row-transformer-bf16": 55, "row-alexnet-bf16": 45, "profile-resnet50-bf16": 60, "profile-transformer-bf16": 50,
    "tests-layers": 420,
}  # fmt: skip
