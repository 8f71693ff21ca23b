"""Measure prototorch against the frameworks that are installed; the table is printed as it grows.

    python -m benchmarks.run                                   every row, training and inference
    python -m benchmarks.run --rows lenet,two_layer --rounds 9
    python -m benchmarks.run --rows alexnet --what train --batches 16 --peers torch
    python -m benchmarks.run --what train,infer,memory,infer-memory,first-step,epoch --write

Each contender has a process of its own; they are measured alternately, and the figure is the median. All begin with the
same weights; equal parameter counts, losses of the first steps and outputs are checked. What a contender cannot do is
reported, and the run goes on. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.contender import UnsupportedError
from benchmarks.machine import available_cores
from benchmarks.peers import ENTRIES, OURS, select_entries
from benchmarks.runner import WorkloadRunner
from benchmarks.table import ResultLine, table_head, write
from benchmarks.workloads import IMAGE_COUNT, WORKLOADS

WHAT = ("train", "infer", "memory", "infer-memory", "first-step", "epoch")
PEERS = tuple(dict.fromkeys(entry.peer for entry in ENTRIES.values() if entry.peer != OURS))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(name for name in ENTRIES if name != OURS)
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {names}; 'torch' means all its modes")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which is slow to begin")
    parser.add_argument("--rows", default=",".join(WORKLOADS), help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--batches", help="batch sizes in place of the rows' own, as 1,16")
    parser.add_argument("--what", default="train,infer", help=f"of {', '.join(WHAT)}")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--least", type=float, default=0.2, help="seconds of a turn at least")
    parser.add_argument("--most", type=float, default=120.0, help="seconds of all turns of a line")
    parser.add_argument("--threads", type=int, default=available_cores(), help="of each contender")
    parser.add_argument("--images", type=int, default=IMAGE_COUNT, help="of the epoch")
    parser.add_argument("--no-check", action="store_true", help="leave out the comparison of losses and outputs")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/")
    return parser


def _parse_names(parser: argparse.ArgumentParser, text: str, names_allowed: tuple[str, ...], option: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in names_allowed:
            parser.error(f"{option}: {name!r} is none of {', '.join(names_allowed)}")
    return names


def main(arguments: list[str] | None = None) -> int:
    """Run the rows asked for, and print (or write) the table."""
    parser = _parser()
    args = parser.parse_args(arguments)
    rows = _parse_names(parser, args.rows, tuple(WORKLOADS), "--rows")
    what = _parse_names(parser, args.what, WHAT, "--what")
    peers = _parse_names(parser, args.peers, (*PEERS, *ENTRIES), "--peers")
    if args.rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    batches = [int(n) for n in args.batches.split(",")] if args.batches else None
    entries_found, notes = select_entries(peers, args.compile)
    bench = WorkloadRunner(
        entries_found, args.threads, args.rounds, args.least, args.most, not args.no_check, args.images, notes
    )
    top = table_head(entries_found, args.threads, args.rounds)
    print("\n".join(top), flush=True)
    for note in notes:
        print(f"  ({note})", file=sys.stderr)
    lines: list[ResultLine] = []
    try:
        for name in rows:
            try:
                lines += bench.row(WORKLOADS[name], what, batches)
            except UnsupportedError as reason:
                bench.notes.append(f"{name}: {reason}")
                print(f"  ({name}: {reason})", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        bench.notes.append("interrupted: the rows after these were not measured")
    if args.write:
        print(f"written to {write(top, lines, bench.notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
