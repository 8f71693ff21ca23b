"""Measure prototorch on a GPU beside PyTorch on the same machine; the table is printed as it grows.

    python -m benchmarks.gpu                                        every net, precision and batch size
    python -m benchmarks.gpu --nets lenet,alexnet --precisions bf16 --batches 256 --what train
    python -m benchmarks.gpu --budget 540 --no-compile              as much as fits in nine minutes
    python -m benchmarks.gpu --first-checks --budget 540            what is to be verified first on a new machine
    python -m benchmarks.gpu --first-checks --checks captured,memory    two of these checks

(benchmarks/device.sh runs the checks, the tests, this table, profiles and compute-sanitizer in parts of some minutes.)

Each cell (a net, a precision, a batch size, training or inference) has a process of its own, in which the contenders
run one after another: prototorch (and with its kernels chosen by timing), and PyTorch eager, channels_last, as a CUDA
graph, and compiled with max-autotune (in bf16 all of them under autocast). The figure is the median; a ratio is the
best of PyTorch's times over ours. The table goes into benchmarks/results/gpu-<date>.md with the versions, and is
written anew after every cell; lines of an earlier call on the same day stay, but for the cells that are measured again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.gpu_cell import AUTOTUNED, CONTENDERS, CellResult, measure
from benchmarks.gpu_checks import CHECKS, first_checks, one_check
from benchmarks.gpu_stand_in import use_stand_in
from benchmarks.gpu_table import COLUMNS, RULE, format_row, row_key
from benchmarks.isolated_process import run_isolated
from benchmarks.workloads import GPU_WORKLOADS, INFERENCE, TRAINING

RESULTS = Path(__file__).parent / "results"
PRECISIONS, BATCHES = ("bf16", "tf32", "fp32"), (256, 32, 1)
PACKAGES = ("prototorch", "numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13",
            "nvidia-cudnn-frontend", "nvidia-cuda-nvrtc")  # fmt: skip
MARK = "CELL "


def describe_versions() -> str:
    """The software and the GPU."""
    packages = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        gpu = ""
    return f"{gpu or 'no GPU'}; Python {platform.python_version()}, {', '.join(packages)}"


def format_page(lines: list[str], notes: list[str], rounds: int) -> str:
    """The whole page."""
    head = [
        f"# Against PyTorch on a GPU, {datetime.date.today()}",
        "",
        f"{describe_versions()}. Medians of {rounds} rounds, the contenders one after another. "
        "Samples a second; SGD with momentum 0.9 and decay 5e-4. Data lie on the device; 'fed' has them come "
        "from the host. MiB: what is taken of the GPU's memory by prototorch in all, and the peak of PyTorch's "
        "allocator for its best mode.",
        "",
        COLUMNS,
        RULE,
    ]
    return "\n".join([*head, *lines, "", *(f"* {note}" for note in notes)]) + "\n"


def run_cell(args: argparse.Namespace, net: str, what: str, precision: str, batch: int, limit: float) -> dict[str, Any]:
    """Measure a cell in a process of its own."""
    config = json.dumps({
        "name": net, "precision": precision, "batch": batch, "what": what, "contenders": args.contenders,
        "rounds": args.rounds, "min_seconds": args.min_seconds, "device": args.device,
    })  # fmt: skip
    process = run_isolated([sys.executable, "-m", "benchmarks.gpu", "--cell", config], limit)
    reports = [line[len(MARK) :] for line in process.out.splitlines() if line.startswith(MARK)]
    result = json.loads(reports[-1]) if reports else {"remarks": []}
    if process.code is None:
        result["remarks"].append(f"not done within {limit:.0f} s")
    elif process.code:
        last = (process.err.strip().splitlines() or ["no output"])[-1]
        result["remarks"].append(f"the process ended with {process.code}: {last[:300]}")
    return result


def _print_result(result: CellResult) -> None:
    """Print what a cell has found so far; the last line counts."""
    print(MARK + json.dumps(asdict(result)), flush=True)


def read_rows(path: Path) -> dict[str, str]:
    """The lines that a table has already, by their cell."""
    if not path.exists():
        return {}
    rows = [r for r in path.read_text(encoding="utf-8").splitlines() if r.startswith("| ")]
    return {row_key(row): row for row in rows if row != COLUMNS and "---" not in row}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(GPU_WORKLOADS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--what", default=f"{TRAINING},{INFERENCE}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--min-seconds", type=float, default=0.1, help="of a round, at least")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no cell is begun")
    parser.add_argument("--limit", type=float, default=240, help="seconds for one cell")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which is slow to begin")
    parser.add_argument("--autotune", action="store_true", help="also with prototorch's kernels chosen by timing")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try this command itself")
    parser.add_argument("--no-write", action="store_true", help="write no file")
    parser.add_argument("--first-checks", action="store_true", help="verify what has never run on a GPU, step by step")
    parser.add_argument("--checks", help="which of the first checks, by name: " + ", ".join(c.__name__ for c in CHECKS))
    parser.add_argument("--folder", type=Path, default=RESULTS, help="that files are written into")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--check", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for."""
    args = _parser().parse_args(arguments)
    if args.cell or args.check:
        with use_stand_in():
            if args.check:
                return one_check(args.check, args.folder)
            result = measure(**json.loads(args.cell), report=_print_result)
        return 0 if result.seconds else 1
    if args.first_checks:
        names = args.checks.split(",") if args.checks else None
        return first_checks(args.folder, describe_versions(), names, args.budget)
    left_out = {"torch compile"} if args.no_compile else set()
    args.contenders = [c for c in CONTENDERS if c not in left_out and (args.autotune or c != AUTOTUNED)]
    start, notes = time.monotonic(), list[str]()
    path = args.folder / f"gpu-{datetime.date.today()}.md"
    lines = {} if args.no_write else read_rows(path)
    print(COLUMNS, flush=True)
    not_measured = []
    for net in args.nets.split(","):
        for precision in args.precisions.split(","):
            for batch in map(int, args.batches.split(",")):
                for what in args.what.split(","):
                    spare = args.budget - (time.monotonic() - start)
                    if spare <= 0:
                        not_measured.append(f"{net} {what} {precision} {batch}")
                        continue
                    result = run_cell(args, net, what, precision, batch, min(args.limit, spare + 30))
                    line = format_row(net, what, precision, batch, result)
                    lines[row_key(line)] = line
                    print(line, flush=True)
                    if not args.no_write:
                        path.write_text(format_page(list(lines.values()), notes, args.rounds), encoding="utf-8")
    if not_measured:
        notes.append(f"not measured, for the time was up: {', '.join(not_measured)}")
    if not args.no_write:
        path.write_text(format_page(list(lines.values()), notes, args.rounds), encoding="utf-8")
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
