"""``python -m tests.mutations [WORD ...] [--list]``: is every mistake found by the tests that must find it?

Works on a copy of the tracked files. Exit status 0 if all mutations (whose name or file contains one of the words) are
found, else 1; a mutation is also not found if its tests already fail without it, or fail to start.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutations.catalogue import REPOSITORY, Mutation, load_mutations

TESTS_FAILED, ALL_PASSED = 1, 0  # pytest's exit statuses; others mean that it could not run them
TIMEOUT = 600  # seconds for the tests of one mutation: a mistake may also make them hang


def main() -> int:
    """Run the chosen mutations."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--list", action="store_true", help="print the mutations and exit")
    parser.add_argument("--skip-baseline", action="store_true", help="the tests are known to pass without mutations")
    options = parser.parse_args()
    mutations = [m for m in load_mutations() if not options.words or any(w in m.name + m.file for w in options.words)]
    if options.list:
        for mutation in mutations:
            print(f"{mutation.file}: {mutation.name}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy_repository(root)
        outcomes = {}
        tests = sorted({test for m in mutations for test in m.tests})
        if not options.skip_baseline and run_tests(root, tests) != ALL_PASSED:
            print("The tests fail without any mutation:", folder, file=sys.stderr)
            return 1
        for number, mutation in enumerate(mutations, 1):
            start = time.perf_counter()
            outcomes[mutation] = outcome = run_mutation(root, mutation)
            seconds = time.perf_counter() - start
            print(f"[{number}/{len(mutations)}] {outcome:9} {seconds:5.1f} s  {mutation.name}", flush=True)
    missed = [m for m, outcome in outcomes.items() if outcome not in ("found", "timed out")]
    print(f"{len(mutations) - len(missed)} of {len(mutations)} mutations are found")
    return 1 if missed else 0


def copy_repository(root: Path) -> None:
    """Copy the tracked files, as they are in the working tree."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((REPOSITORY / name).read_bytes())


def run_mutation(root: Path, mutation: Mutation) -> str:
    """Apply a mutation, run its tests, and undo it."""
    path = root / mutation.file
    source = path.read_text()
    path.write_text(mutation.mutate(source))
    try:
        status = run_tests(root, mutation.tests)
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        path.write_text(source)
    return {TESTS_FAILED: "found", ALL_PASSED: "MISSED"}.get(status, f"ERROR {status}")


def run_tests(root: Path, tests: tuple[str, ...] | list[str]) -> int:
    """pytest's exit status, with the package of the copy and not the installed one."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(root)}
    run = subprocess.run(
        command, cwd=root, env=environment, timeout=TIMEOUT * (1 + len(tests) // 10), capture_output=True, check=False
    )
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
