"""The command behind benchmarks/device.sh; the standard library is enough until a step begins."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.device.part_list import FIRST, STEPS
from benchmarks.device.runner import ALL, NOT_PASSED, PART_SECONDS, Interrupted, PartRunner
from benchmarks.device.state import BUILD, SITE, RunState, hash_sources, installed_versions, query_gpu
from benchmarks.device.wheels import install_wheels
from benchmarks.isolated_process import ROOT

PARTS = tuple(map(str, PART_SECONDS))
_FIRST = "first"  # instead of the number of a part


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks/device.sh", description=__doc__)
    parser.add_argument("part", choices=(_FIRST, *PARTS, "all"), help="first (9.5 minutes), 1 to 5, or all of these")
    parser.add_argument(
        "--out", type=Path, help="folder for summary.md and results.tar.gz (default: $OUT, else build/device/out)"
    )
    parser.add_argument(
        "--wheels", type=Path, default=ROOT / ".whl", help="wheels of what is not installed (default: .whl)"
    )
    parser.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="STEP",
        help="run a step that ended before; failed: all that have not passed; all: every one",
    )
    parser.add_argument("--keep-passed", action="store_true", help="what passed with other sources counts as passed")
    seconds = ", ".join(f"{part}: {limit:.0f}" for part, limit in PART_SECONDS.items())
    parser.add_argument("--seconds", type=float, help=f"of each part (default: {seconds})")
    parser.add_argument(
        "--slowdown",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="multiply all limits: where only the script itself is tried",
    )
    parser.add_argument("--list", action="store_true", help="print the steps, and run none")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run parts; 0 where all of their steps have passed and the results are written, 1 where not, 2 for a wrong
    argument, 143 after SIGTERM."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    parts = [int(p) for p in (PARTS if args.part == "all" else [args.part]) if p != _FIRST]
    unknown = set(args.again) - {step.name for step in STEPS} - {NOT_PASSED, ALL}
    if unknown:
        names = ", ".join(sorted(unknown))
        parser.error(f"there is no step {names}; --list prints them ({NOT_PASSED} and {ALL} stand for many)")
    if args.list:
        limits = FIRST if args.part == _FIRST else {step.name: step.limit for step in STEPS if step.part in parts}
        steps = {step.name: step for step in STEPS}
        for name, limit in limits.items():
            print(f"{steps[name].part}  {name:24} at most {limit:3.0f} s  {steps[name].title}")
        return 0
    for line in install_wheels(args.wheels, SITE):
        print(line, flush=True)
    out = args.out or Path(os.environ.get("OUT") or BUILD / "out")
    try:
        state = RunState(BUILD, query_gpu(), installed_versions(), hash_sources(), args.keep_passed)
        runner = PartRunner(state, STEPS, out, lambda line: print(line, flush=True), args.slowdown)
    except OSError as error:
        parser.error(f"no results can be written there: {error}")
    try:
        if args.part == _FIRST:
            missing = runner.run_first(FIRST, args.again, args.seconds)
        else:
            missing = sum([runner.run(part, args.again, args.seconds) for part in parts])
    except OSError as error:
        print(f"ended, as the results cannot be kept in {state.folder}: {error}", flush=True)
        return 1
    except (Interrupted, KeyboardInterrupt):
        print(f"interrupted; the same command continues here. So far: {out / 'summary.md'}", flush=True)
        return 143
    again = f"; --again {NOT_PASSED} runs those again that ended" if missing else ""
    print(f"{missing} steps have not passed; see {out / 'summary.md'}{again}", flush=True)
    return 0 if not missing and runner.is_published else 1


if __name__ == "__main__":
    sys.exit(main())
