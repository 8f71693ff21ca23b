"""``python -m tests.fuzz FORMAT [--count N] [--first N] [--keep FOLDER]``: the verdicts of generated files."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.formats import MODULES, load_format
from tests.fuzz.harness import case, judge


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("format", choices=MODULES)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after the case in which they end")
    parser.add_argument("--keep", type=Path, help="a folder for the files that fail")
    parser.add_argument("--show", action="store_true", help="print the messages of refusals")
    options = parser.parse_args()
    format = load_format(options.format)
    kinds: Counter[str] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.first, options.first + options.count):
            path = Path(folder, f"case{number}{format.ending}")
            path.write_bytes(case(format, number))
            verdict = judge(format, path)
            kinds[verdict.kind] += 1
            if verdict.is_failure:
                print(f"{number}: {verdict.kind}: {verdict.text}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / path.name).write_bytes(path.read_bytes())
            elif options.show and verdict.kind == "refused":
                print(f"{number}: {verdict.text}", flush=True)
            path.unlink()
            if time.monotonic() - begin > options.seconds:
                break
    print(f"{options.first} to {number}:", dict(kinds), f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
