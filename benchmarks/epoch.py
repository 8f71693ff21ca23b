"""Measure an epoch of LeNet as a whole process, from the command to its end, against PyTorch, alternately.

    python -m benchmarks.epoch                           60,000 images, three rounds
    python -m benchmarks.epoch --rounds 5 --threads 2
    python -m benchmarks.epoch --limit 6000 --peers torch_channels_last,torch

Both read the same IDX files (Fashion-MNIST where it is on this machine, else synthetic images), train LeNet for one
epoch with batches of 64 and Adam, validate, and write the weights into a file. Printed are medians of the wall time and
of the peak memory, and the ratio of each peer's time to ours: above 1 prototorch is ahead. A first turn, which fills
caches (of files, and of compiled kernels), is shown but not counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_loading import make_images
from prototorch.data.builtin_datasets import find_idx_files, search_folders
from prototorch.data.idx import encode_idx, read_idx
from prototorch.data.safe_io import expand_path

MODEL = "models/lenet.proto"
PEER_OPTIONS = {"torch_channels_last": [], "torch": ["--plain"]}


@dataclass
class ProcessRun:
    """One process: wall seconds, peak memory in bytes, and what it found."""

    seconds: float
    memory: int
    report_json: dict[str, Any]


def data_folder(scratch: Path, limit: int | None) -> Path:
    """A folder of MNIST's four files: the machine's own Fashion-MNIST, or its first images, or synthetic ones."""
    have = next((place for place in search_folders("fashion-mnist") if find_idx_files(expand_path(place))), None)
    if have is not None and limit is None:
        return have
    for part, count in (("train", limit or 60_000), ("t10k", (limit or 60_000) // 6)):
        if have is not None:
            images, labels = (
                read_idx(have / f"{part}-{kind}-ubyte.gz")[:count] for kind in ("images-idx3", "labels-idx1")
            )
        else:
            images, labels = make_images(count)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            (scratch / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(encode_idx(np.asarray(array)), 6))
    return scratch


def run(command: list[str], folder: Path) -> ProcessRun:
    """Run a process whose last lines of output are JSON. Raises CalledProcessError where it fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.stderr.write(errors.read().decode(errors="replace"))
            raise subprocess.CalledProcessError(process.returncode, command)
        return ProcessRun(seconds, usage.ru_maxrss * 1024, json.loads(out.read()))


def main() -> None:
    """Run all processes alternately and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="the number of training images")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--peers", default="torch_channels_last")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    threads = ["--threads", str(args.threads)]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "data").mkdir()
        data = data_folder(scratch / "data", args.limit)
        ours = ["run", str(root / MODEL), "--data", str(data), "--epochs", "1", "--quiet", "--json", "--profile"]
        command_line = [sys.executable, "-c", "from prototorch.cli import main; main()"]
        commands = {"prototorch": [*command_line, *ours, "--run-dir", str(scratch / "run"), *threads]}
        for peer in args.peers.split(","):
            commands[peer] = [
                sys.executable,
                "-m",
                "benchmarks.peers.torch_epoch",
                str(data),
                *PEER_OPTIONS[peer],
                *threads,
            ]
        runs: dict[str, list[ProcessRun]] = {name: [] for name in commands}
        for number in range(args.rounds + 1):
            for name, command in commands.items():
                measured = run(command, root)
                runs[name].append(measured)
                if not args.json:
                    label = f"round {number}" if number else "warm-up, not counted"
                    print(
                        f"{name:20} {measured.seconds:7.2f} s {measured.memory / 2**20:6.0f} MiB  {label}", flush=True
                    )
    report(runs, args.json)


def report(runs: dict[str, list[ProcessRun]], as_json: bool) -> None:
    """Medians, ratios, and where prototorch's own time went."""
    rows = {}
    for name, all_runs in runs.items():
        measured_runs = all_runs[1:]
        report_json = measured_runs[-1].report_json
        rows[name] = {
            "seconds": statistics.median(t.seconds for t in measured_runs),
            "memory": statistics.median(t.memory for t in measured_runs),
            "val_accuracy": np.ravel(report_json["val_accuracy"])[-1].item(),
        }
    for row in rows.values():
        row["ratio"] = row["seconds"] / rows["prototorch"]["seconds"]
    profile = runs["prototorch"][-1].report_json.get("profile", {})
    if as_json:
        print(json.dumps({"rows": rows, "profile": profile}, indent=1))
        return
    print("\n| process | seconds | of ours | peak MiB | validation accuracy |\n| --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        figures = f"{row['seconds']:.2f} | {row['ratio']:.2f} | {row['memory'] / 2**20:.0f} | {row['val_accuracy']:.3f}"
        print(f"| {name} | {figures} |")
    print("\nprototorch, last turn: " + ", ".join(f"{k} {v:.2f} s" for k, v in profile.items()))


if __name__ == "__main__":
    main()
