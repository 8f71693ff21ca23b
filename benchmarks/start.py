"""What starting costs: processor seconds and modules of typical commands.

    python -m benchmarks.start
    python -m benchmarks.start --beside ../old     the package of another checkout, run by turns with this one

Processor seconds are user and system time of a fresh process, the median of ``--turns``, with bytecode and (but for the
row that says so) kernels that an earlier run has written. Modules are those in `sys.modules` at the end, and in
brackets those of the package.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_STEP = """
import numpy, prototorch
model = prototorch.load_model("lenet")
model.train_on_batch(numpy.zeros((64, 1, 28, 28), "float32"), numpy.zeros(64, "int64"))
"""
COLD = "first step of lenet, no kernels compiled"
#: the rows: arguments of the command line, or a Python program
ROWS: dict[str, list[str] | str] = {
    "`prototorch --help`": ["--help"],
    "`prototorch --version`": ["--version"],
    "completion of `prototorch ru`": [],
    "a wrong option": ["run", "--no-such-option"],
    "`prototorch run --help`": ["run", "--help"],
    "`prototorch predict --help`": ["predict", "--help"],
    "`prototorch check lenet`": ["check", "lenet"],
    "`prototorch summary lenet`": ["summary", "lenet"],
    "`prototorch show lenet`": ["show", "lenet"],
    "`prototorch layers`": ["layers"],
    "`prototorch layers Conv2D`": ["layers", "Conv2D"],
    "`prototorch devices`": ["devices"],
    '`load_model("lenet")`': 'import prototorch; prototorch.load_model("lenet")',
    "`prototorch.tensor([1.0])`": "import prototorch; prototorch.tensor([1.0])",
    "first step of lenet": _STEP,
    COLD: _STEP,
}
_COUNT = """
import atexit, os, sys
def count():
    own = sum(name.partition(".")[0] == "prototorch" for name in sys.modules)
    with open(os.environ["MODULES"], "w") as file:
        print(len(sys.modules), own, file=file)
atexit.register(count)
"""
_COMMAND = "import runpy, sys; sys.argv[1:] = {!r}; runpy.run_module('prototorch', run_name='__main__')"


def _program(row: str) -> str:
    what = ROWS[row]
    return what if isinstance(what, str) else _COMMAND.format(what)


def _environment(row: str, checkout: Path, folder: Path) -> dict[str, str]:
    """The variables of a run of a package: its bytecode and its kernels are kept in the folder."""
    names = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    names |= {
        "PYTHONPATH": str(checkout),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PROTOTORCH_CACHE": str(folder / "kernels"),
        "MODULES": str(folder / "modules"),
    }
    if row.startswith("completion"):
        names |= {"COMP_WORDS": "prototorch ru", "COMP_CWORD": "1", "_PROTOTORCH_COMPLETE": "bash_complete"}
    if row == COLD:
        names["PROTOTORCH_CACHE"] = tempfile.mkdtemp(dir=folder)
    return names


def _seconds(program: str, environment: dict[str, str], folder: Path) -> float:
    """The processor seconds of a fresh process, and of those that it has started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(checkouts: list[Path], turns: int) -> list[str]:
    """The rows of the table, two columns for each checkout."""
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary, str(i)) for i in range(len(checkouts))]
        for folder in folders:
            folder.mkdir()
        for row in ROWS:
            program, cells = _program(row), []
            for checkout, folder in zip(checkouts, folders, strict=True):  # writes bytecode and kernels
                _seconds(_COUNT + program, _environment(row, checkout, folder), folder)
            times: list[list[float]] = [[] for _ in checkouts]
            for _ in range(turns):
                for checkout, folder, ours in zip(checkouts, folders, times, strict=True):
                    ours.append(_seconds(program, _environment(row, checkout, folder), folder))
            for folder, ours in zip(folders, times, strict=True):
                modules, own = (folder / "modules").read_text().split()
                cells.append(f"{statistics.median(ours):.2f} | {modules} ({own})")
            lines.append(f"| {row} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="CHECKOUT", type=Path, help="another checkout, measured first")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    measure([here] if options.beside is None else [options.beside.resolve(), here], options.turns)
