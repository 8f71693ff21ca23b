"""Measure prototorch on a GPU beside PyTorch on the same machine, in the same call; the table is printed as it grows.

    python -m benchmarks.gpu                                        every net, precision and batch size
    python -m benchmarks.gpu --nets lenet,alexnet --precisions bf16 --batches 256 --what train
    python -m benchmarks.gpu --budget 540 --no-compile              as much as fits in nine minutes
    python -m benchmarks.gpu --first-checks --budget 540            what is to be verified first on a new machine
    python -m benchmarks.gpu --first-checks --checks captured,memory    two of these checks

Each cell (a net, a precision, a batch size, training or inference) has a process of its own, in which the contenders
take turns: prototorch, and PyTorch eager, channels_last, compiled with max-autotune, and as a CUDA graph (in bf16 all
of them under autocast). The figure is the median; a ratio is the best of PyTorch's times over ours. The table goes into
benchmarks/results/gpu-<date>.md with the versions, and is written anew after every cell; lines of an earlier call on
the same day stay, but for the cells that are measured again.
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

from benchmarks.gpu_cell import MODES, SPEEDUP_GOALS, CellResult, measure
from benchmarks.gpu_checks import CHECKS, first_checks, one_check
from benchmarks.isolated_process import run_isolated
from benchmarks.workloads import GPU_WORKLOADS, INFERENCE, TRAINING

RESULTS = Path(__file__).parent / "results"
PRECISIONS, BATCHES = ("bf16", "tf32", "fp32"), (256, 32, 1)
PACKAGES = ("prototorch", "numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13",
            "nvidia-cudnn-frontend", "nvidia-cuda-nvrtc")  # fmt: skip
MARK = "CELL "
HEADERS = ("net", "what", "precision", "batch", "img/s", "fed img/s", "best of torch", "ratio", "goal", "MiB",
         "torch MiB", "the others, remarks")  # fmt: skip
COLUMNS = f"| {' | '.join(HEADERS)} |"


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


def format_row(net: str, what: str, precision: str, batch: int, result: dict[str, Any]) -> str:
    """A cell as a line of the table."""
    seconds, bytes_used = result.get("seconds", {}), result.get("bytes", {})

    def rate(name: str) -> str:
        return f"{batch / seconds[name]:,.0f}" if name in seconds else ""

    peers = sorted((s, n) for n, s in seconds.items() if n.startswith("torch"))
    goal = SPEEDUP_GOALS.get(net, 1.2)
    best = ratio = goal_text = ""
    if peers:
        best = f"{rate(peers[0][1])} ({peers[0][1].removeprefix('torch ')})"
    if peers and "prototorch" in seconds:
        value = peers[0][0] / seconds["prototorch"]
        ratio, goal_text = f"{value:.2f}", f"{goal} {'yes' if value >= goal else '**no**'}"
    mine = f"{bytes_used['prototorch'] / 2**20:,.0f}" if "prototorch" in bytes_used else ""
    theirs = f"{bytes_used[peers[0][1]] / 2**20:,.0f}" if peers and peers[0][1] in bytes_used else ""
    others = [f"{n.removeprefix('torch ')} {rate(n)}" for _, n in peers[1:]]
    tail = "; ".join([", ".join(others), *result.get("remarks", [])]).strip("; ").replace("|", "/").replace("\n", " ")
    first = f"| {net} | {what} | {precision} | {batch} | {rate('prototorch') or 'failed'} | {rate('fed')} "
    return f"{first}| {best} | {ratio} | {goal_text} | {mine} | {theirs} | {tail} |"


def format_page(lines: list[str], notes: list[str], rounds: int) -> str:
    """The whole page."""
    head = [
        f"# Against PyTorch on a GPU, {datetime.date.today()}",
        "",
        f"{describe_versions()}. Medians of {rounds} turns, taken turn by turn in one process for each line. "
        "Samples a second; "
        "SGD with momentum 0.9 and decay 5e-4. Data lie on the device; 'fed' has them come from the host. MiB: what is "
        "taken of the GPU's memory by prototorch in all, and the peak of PyTorch's allocator for its best way.",
        "",
        COLUMNS,
        f"| {' | '.join(['---'] * len(HEADERS))} |",
    ]
    return "\n".join([*head, *lines, "", *(f"* {note}" for note in notes)]) + "\n"


def run_cell(args: argparse.Namespace, net: str, what: str, precision: str, batch: int, limit: float) -> dict[str, Any]:
    """Measure a cell in a process of its own."""
    config = json.dumps({
        "name": net, "precision": precision, "batch": batch, "what": what, "modes": args.modes, "rounds": args.rounds,
        "least": args.least, "autotune": args.autotune, "device_name": args.device,
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
    """Say what a cell has found so far; the last line counts."""
    print(MARK + json.dumps(asdict(result)), flush=True)


def read_rows(path: Path) -> dict[str, str]:
    """The lines that a table has already, by their cell."""
    if not path.exists():
        return {}
    rows = [r for r in path.read_text(encoding="utf-8").splitlines() if r.startswith("| ")]
    return {row_key(row): row for row in rows if row != COLUMNS and "---" not in row}


def row_key(line: str) -> str:
    """Which cell a line is about: net, training or inference, precision, batch."""
    return "|".join(line.split("|")[1:5])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(GPU_WORKLOADS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--what", default=f"{TRAINING},{INFERENCE}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least", type=float, default=0.1, help="seconds of a turn at least")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no cell is begun")
    parser.add_argument("--limit", type=float, default=240, help="seconds for one cell")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which is slow to begin")
    parser.add_argument("--autotune", action="store_true", help="let prototorch choose kernels by timing")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try this command itself")
    parser.add_argument("--no-write", action="store_true", help="write no file")
    parser.add_argument("--first-checks", action="store_true", help="verify what has never run on a GPU, step by step")
    parser.add_argument("--checks", help="which of the first checks, by name: " + ", ".join(c.__name__ for c in CHECKS))
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--check", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for."""
    args = _parser().parse_args(arguments)
    if args.cell:
        config = json.loads(args.cell)
        config["modes"] = tuple(config["modes"])
        _print_result(measure(**config, report=_print_result))
        return 0
    if args.check:
        return one_check(args.check, RESULTS)
    if args.first_checks:
        names = args.checks.split(",") if args.checks else None
        return first_checks(RESULTS, describe_versions(), names, args.budget)
    args.modes = [m for m in MODES if not (m == "compile" and args.no_compile)]
    start, notes = time.monotonic(), list[str]()
    path = RESULTS / f"gpu-{datetime.date.today()}.md"
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
