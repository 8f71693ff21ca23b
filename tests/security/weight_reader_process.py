"""Reads hostile weight files one after another and notes what happened: run as a program with a folder.

An audit hook notes everything that a file must not cause; the memory is limited to 1 GB beyond what Python itself has.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import prototorch as pt
from benchmarks.machine import peak_memory

FORBIDDEN = ("exec", "compile", "import", "os.", "subprocess.", "socket.", "ctypes.", "pickle.", "marshal.", "shutil.",
             "webbrowser.", "urllib.", "pty.", "ftplib.", "code.", "builtins.")  # fmt: skip
HARMLESS = ("os.listdir", "os.scandir", "os.fspath", "builtins.id")
LIMIT = 1_000_000_000


def main(folder: Path) -> None:
    """Read each file of the folder, the good one first."""
    events: list[str] = []

    def hook(event: str, arguments: tuple) -> None:
        if not armed[0]:
            return
        if event == "open" and not str(arguments[0]).startswith(str(folder)):
            events.append(f"open {arguments[0]!r}")
        elif event == "compile" and str(arguments[1]) == "<unknown>":
            pass  # NumPy parses the header of an array into a syntax tree, which is not run ("exec")
        elif event.startswith(FORBIDDEN) and event not in HARMLESS:
            events.append(f"{event} {arguments!r:.100}")

    armed = [False]
    sys.addaudithook(hook)
    rows = []
    paths = sorted(
        folder.iterdir(), key=lambda path: (not path.name.startswith("good"), int(path.name.split(".")[0][4:] or 0))
    )
    for number, path in enumerate(paths):
        if number == 2:  # everything that is needed is imported now
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT, used + LIMIT))
        armed[0] = number > 1
        events.clear()
        start = time.process_time()
        kind, message = "read", ""
        try:
            for array in pt.read_weights(path).values():
                array.sum()
        except pt.errors.PrototorchError as error:
            kind, message = type(error).__name__, str(error)
        except BaseException as error:
            kind, message = f"!{type(error).__name__}", repr(error)[:300]
        seconds = time.process_time() - start
        armed[0] = False
        rows.append({"file": path.name, "kind": kind, "message": message, "seconds": seconds, "events": list(events),
                     "size": os.path.getsize(path)})  # fmt: skip
    print(json.dumps({"rows": rows, "peak": peak_memory()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
