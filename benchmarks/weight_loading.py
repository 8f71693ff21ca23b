"""Measure the loading of large weight files: seconds, and the peak of anonymous memory, beside PyTorch.

    python -m benchmarks.weight_loading                 all rows, VGG16 (528 MB)
    python -m benchmarks.weight_loading --turns 5
    python -m benchmarks.weight_loading --json

Each figure is of a process of its own, the two sides in alternation, with the file in the system's page cache. Seconds,
by the clock and of the processor (all threads), are those of `load_weights` on a model whose weights exist, and of
``torch.load(mmap=False)`` with `load_state_dict` on such a module: all pages of the file are read. Memory is anonymous
memory (RssAnon, read every 2 ms) beyond what the process had before the model was made, divided by the size of the
weights: 1 is the model itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.isolated_process import run_isolated

SIDES = ("prototorch", "torch")
#: file -> the sides that read it
FILES = {"zip.pt": SIDES, "legacy.pt": SIDES, "w.safetensors": SIDES, "ours.h5": ("prototorch",)}
LIMIT = 300.0  # seconds of a process


class AnonymousMemory:
    """The peak of this process's anonymous memory in bytes while it is entered, beyond what there was at first."""

    def __enter__(self) -> AnonymousMemory:
        self.peak = self._start = _anonymous_bytes()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self.peak = max(self.peak, _anonymous_bytes()) - self._start

    def _watch(self) -> None:
        while not self._is_over.wait(0.002):
            self.peak = max(self.peak, _anonymous_bytes())


def _anonymous_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))


def load_here(model_name: str, path: str) -> dict[str, Any]:
    """Load a file into one of our models."""
    import prototorch as pt

    with AnonymousMemory() as memory:
        model = pt.load_model(model_name)
        size = sum(array.nbytes for array in model.weights.values())
        seconds, processor = _seconds(lambda: model.load_weights(path))
    return {"seconds": seconds, "processor": processor, "memory": memory.peak, "bytes": size}


def load_in_torch(model_name: str, path: str) -> dict[str, Any]:
    """Load a file into torchvision's module."""
    import torch
    from safetensors.torch import load_file

    from tests.interop.torchvision_nets import torchvision_module

    torchvision_module()
    import torchvision

    def load() -> None:
        state = load_file(path) if path.endswith(".safetensors") else torch.load(path, mmap=False, weights_only=True)
        module.load_state_dict(state)

    with AnonymousMemory() as memory:
        module = getattr(torchvision.models, model_name)(weights=None)
        size = sum(tensor.nbytes for tensor in module.state_dict().values())
        seconds, processor = _seconds(load)
    return {"seconds": seconds, "processor": processor, "memory": memory.peak, "bytes": size}


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Of the clock, and of the processor."""
    begin, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begin, time.process_time() - processor


def write_files(model_name: str, folder: Path) -> None:
    """The same random weights in each format."""
    import torch
    from safetensors.torch import save_file

    import prototorch as pt
    from tests.interop.torchvision_nets import torchvision_net

    state = torchvision_net(model_name).state_dict()
    torch.save(state, folder / "zip.pt")
    torch.save(state, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    save_file(dict(state), folder / "w.safetensors", metadata={"format": "pt"})
    model = pt.load_model(model_name)
    model.load_weights(folder / "zip.pt")
    model.save(folder / "ours.h5")


def measure(model_name: str, turns: int) -> list[dict[str, Any]]:
    """A row for each file: medians of seconds and memory of both sides."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write = [sys.executable, "-m", "benchmarks.weight_loading", "--write", model_name, str(folder)]
        result = run_isolated(write, LIMIT)
        assert result.code == 0, result.err[-2000:]
        rows = []
        for file, sides in FILES.items():
            figures: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
            for _ in range(turns):
                for side in sides:
                    command = [sys.executable, "-m", "benchmarks.weight_loading", "--side", side, model_name]
                    result = run_isolated([*command, str(folder / file)], LIMIT)
                    assert result.code == 0, result.err[-2000:]
                    figures[side].append(json.loads(result.out.splitlines()[-1]))
            rows.append({"file": file, **{side: _summary(figures[side]) for side in sides}})
    return rows


def _summary(figures: list[dict[str, Any]]) -> dict[str, float]:
    return {
        "seconds": statistics.median(f["seconds"] for f in figures),
        "processor": statistics.median(f["processor"] for f in figures),
        "memory": max(f["memory"] / f["bytes"] for f in figures),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """The rows as a table in Markdown."""
    print(
        "| file | prototorch, s (processor) | PyTorch, s (processor) | ratio | of the processor | memory | PyTorch's |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        ours, theirs = row["prototorch"], row.get("torch")
        cells = [row["file"], f"{ours['seconds']:.2f} ({ours['processor']:.2f})"]
        if theirs is None:
            cells += ["-", "-", "-", f"{ours['memory']:.2f}", "-"]
        else:
            ratios = [f"{ours[key] / theirs[key]:.2f}" for key in ("seconds", "processor")]
            cells += [f"{theirs['seconds']:.2f} ({theirs['processor']:.2f})", *ratios]
            cells += [f"{ours['memory']:.2f}", f"{theirs['memory']:.2f}"]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vgg16")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_files(options.arguments[0], Path(options.arguments[1]))
    elif options.side:
        print(json.dumps({"prototorch": load_here, "torch": load_in_torch}[options.side](*options.arguments)))
    else:
        rows = measure(options.model, options.turns)
        print(json.dumps(rows)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
