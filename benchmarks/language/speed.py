"""How fast long texts are read: 10 MB of braces, 10 MB of calls, and the check of a net of 60,000 layers.

    python -m benchmarks.language.speed

Seconds are processor seconds, megabytes the peak of a process that does nothing else. Goals: 6 s and 300 MB for braces,
twice the time for calls, 5 s for the check.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE = 10_000_000  # characters
LAYERS = 60_000
INPUT = 'input { name: "image"  shape: [8, 32, 32] }\n'
_LINES = {
    "braces": 'Conv2D {{ name: "conv_{}"  filters: 8  kernel_size: 3  strides: 1  padding: same  use_bias: false  '
    "activation: relu  kernel_initializer: he_normal }}\n",
    "calls": 'Conv2D(8, 3, 1, name: "conv_{}", padding: same, use_bias: false, activation: relu, '
    "kernel_initializer: he_normal)\n",
}


def long_text(form: str, size: int = SIZE) -> str:
    """A text of at least ``size`` characters: layers of eight fields, in "braces" or "calls"."""
    line = _LINES[form]
    return INPUT + "".join(line.format(number) for number in range(size // (len(line) - 2)))


def _parse(path: str) -> None:
    from prototorch.text.reader import parse

    text = Path(path).read_text()
    begin = time.process_time()
    document = parse(text)
    seconds = time.process_time() - begin
    print(f"{len(document.statements) - 1:,} layers: {seconds:.1f} s", end="")


def _check(path: str) -> None:
    from prototorch.cli.main import main

    begin = time.process_time()
    with contextlib.suppress(SystemExit):
        main(["check", path])
    print(f"check: {time.process_time() - begin:.1f} s", end="")


def main() -> None:
    if len(sys.argv) > 1:
        {"parse": _parse, "check": _check}[sys.argv[1]](sys.argv[2])
        print(f", {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        return
    layers = 'input("x", [8])\n' + "Dense(8)\n" * LAYERS
    rows = [(form, "parse", long_text(form)) for form in _LINES] + [(f"{LAYERS:,} layers", "check", layers)]
    with tempfile.TemporaryDirectory() as folder:
        for name, action, text in rows:
            path = Path(folder) / "long.proto"
            path.write_text(text)
            command = [sys.executable, "-m", "benchmarks.language.speed", action, str(path)]
            child = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{name}, {len(text):,} characters: {child.stdout.splitlines()[-1]}")


if __name__ == "__main__":
    main()
