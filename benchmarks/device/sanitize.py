"""Tests on a GPU under compute-sanitizer: python -m benchmarks.device.sanitize TOOL COUNT FOLDER [--sample LOG]

TOOL is memcheck, racecheck, initcheck or synccheck; COUNT tests are taken, spread over all kinds of layers and ops,
with the package's own kernels. Exit code 1 where the sanitizer reports an error or a test fails, 3 where it is not
installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.device.step import output_of
from benchmarks.device.tests_summary import describe_tests

LOG = "sanitizer.log"
SAMPLE = "no GPU"
MAX_KINDS = 15
_PREFIX = "========="
_SUMMARY = re.compile(r"(ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY): (.*)")
#: the first line of a finding, and the line below it that names the kernel
_FINDING = re.compile(
    r"(Invalid \S+ (?:read|write|atomic).*|.*[Uu]ninitialized \S+ memory read.*|(?:Error|Warning): Race reported.*"
    r"|.*hazard detected.*|Barrier error.*|Misaligned.*|.*exception.*|Program hit .*)"
)
_KERNEL = re.compile(r"at (?:0x[0-9a-f]+ in )?(?:void )?([\w:]+)")
#: a refusal that a program asks for and handles is no finding: that so much memory cannot be taken
_HANDLED = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")


def sanitizer_command(tool: str, count: int, folder: Path) -> list[str]:
    """The command. One process, as the sanitizer is for one; `-k` leaves out reference implementations, which run by
    CuPy's kernels; refusals of CUDA's that libraries ask for and handle are not reported."""
    return [
        "compute-sanitizer", "--tool", tool, "--log-file", str(folder / LOG), "--error-exitcode", "86",
        "--print-limit", "200", "--target-processes", "application-only", "--report-api-errors", "no",
        sys.executable, "-m", "benchmarks.device.run_tests", str(folder), "tests/cuda/gpu/test_gpu_layers.py",
        "-k", "not plain", "--spread", str(count),
    ]  # fmt: skip


def read_findings(text: str) -> tuple[Counter[str], list[str]]:
    """How often each kind of error was found in which kernel, and the sanitizer's own summaries."""
    counts: Counter[str] = Counter()
    summaries = []
    finding = ""
    for line in text.splitlines():
        content = line.removeprefix(_PREFIX).strip() if line.startswith(_PREFIX) else ""
        summary = _SUMMARY.match(content)
        if summary:
            summaries.append(content)
        elif _FINDING.match(content) and not any(name in content for name in _HANDLED):
            if finding:
                counts[finding] += 1
            finding = re.sub(r"0x[0-9a-f]+", "0x...", content)
        elif finding and (kernel := _KERNEL.match(content)):
            counts[f"{finding} in {kernel.group(1)}"] += 1
            finding = ""
    if finding:
        counts[finding] += 1
    return counts, summaries


def describe_sanitizer(folder: Path) -> list[str]:
    """The lines of the summary."""
    if any(line.startswith(SAMPLE) for line in output_of(folder)):
        return [*output_of(folder), *_findings(folder / LOG)]
    return [*_findings(folder / LOG), *describe_tests(folder)]


def _findings(path: Path) -> Iterator[str]:
    if not path.exists():
        yield "compute-sanitizer has written no log"
        return
    counts, summaries = read_findings(path.read_text(encoding="utf-8", errors="replace"))
    yield from summaries or ["no summary: the sanitizer was ended before"]
    yield from (f"{count} x {kind}" for kind, count in counts.most_common(MAX_KINDS))
    if len(counts) > MAX_KINDS:
        yield f"... and {len(counts) - MAX_KINDS} more kinds"


def main(arguments: list[str]) -> int:
    """The command."""
    tool, count, folder = arguments[0], int(arguments[1]), Path(arguments[2])
    if "--sample" in arguments:
        sample = Path(arguments[arguments.index("--sample") + 1])
        print(f"{SAMPLE}: the report of a sample of compute-sanitizer's log, {sample.name}")
        shutil.copyfile(sample, folder / LOG)
        return 0
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
        return 3
    code = subprocess.run(sanitizer_command(tool, count, folder), check=False).returncode
    counts, _ = read_findings((folder / LOG).read_text(encoding="utf-8", errors="replace"))
    return 1 if counts or code else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
