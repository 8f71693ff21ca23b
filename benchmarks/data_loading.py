"""Measure the feeding: how fast data are opened and made into batches, and what the loop around a step costs.

    python -m benchmarks.data_loading                       all rows
    python -m benchmarks.data_loading --rows arrays,loop    some of them
    python -m benchmarks.data_loading --json

Each figure is the best of several turns (what the machine can do; others may be using it), of data made up on the spot.
The rows of the loop run a real `fit` in which the step itself does nothing, or only keeps the processor busy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

import prototorch as pt
from prototorch.cuda.pinned_pool import PinnedPool
from prototorch.data import ArrayDataset, Data, Loader
from prototorch.data.idx import encode_idx
from prototorch.engine.backends.executor import HostExecutor

Rates = Iterator[tuple[str, float, str]]  # what, how much, of which unit
STEP = 6e-3  # seconds: a step of LeNet at batch size 64 on the machine of the goals
IMAGE_COUNT = 20_000  # images of 28 x 28


def best_seconds(call: Callable[[], Any], turns: int = 5) -> float:
    """The fewest seconds of several calls."""
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def make_images(count: int, folder: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Grey images as compressible as Fashion-MNIST, and their classes; with a folder also as gzip-compressed IDX."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    images[:, :, :7] = images[:, :, 21:] = images[:, :7] = 0
    labels = rng.integers(0, 10, count).astype(np.uint8)
    if folder is not None:
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(encode_idx(array), 6))
    return images, labels


def make_dataset(images: np.ndarray, labels: np.ndarray) -> ArrayDataset:
    """Pictures [n, channels, height, width] and their classes as a data set."""
    return ArrayDataset({"image": images, "label": labels.astype(np.int64)}, ["image"], ["label"])


def write_photos(folder: Path, count: int, size: tuple[int, int], kind: str) -> None:
    """Picture files in two classes; smooth colours with some noise, as large as photographs of this size are."""
    rng = np.random.default_rng(0)
    width, height = size
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (9, 12, 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC)).astype(np.int16)
        pixels = smooth + rng.integers(-12, 13, (height, width, 1)).astype(np.int16)
        target = folder / f"class{i % 2}"
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(target / f"{i:04d}.{kind}", quality=90)


def samples_per_second(loader: Loader) -> float:
    """Samples a second, of a whole epoch."""
    return len(loader.dataset) / best_seconds(lambda: [None for _ in loader], 3)


def arrays() -> Rates:
    """Batches out of arrays in memory, shuffled."""
    images, labels = make_images(IMAGE_COUNT)
    small = make_dataset(images[:, None], labels)
    for threads in (0, 1, 2):
        yield (
            f"arrays [1, 28, 28], {threads} threads",
            samples_per_second(Loader(small, 64, threads=threads)),
            "samples/s",
        )
    big = make_dataset(np.zeros((512, 3, 224, 224), np.uint8), labels[:512])
    for threads in (0, 2):
        yield (
            f"arrays [3, 224, 224], {threads} threads",
            samples_per_second(Loader(big, 64, threads=threads)),
            "samples/s",
        )


def files() -> Rates:
    """Opening files of arrays."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images, labels = make_images(60_000, folder)
        yield "open IDX, gzip, 60,000 images", best_seconds(Data(source=name).open, 3), "s"
        uncompressed, small = str(folder / "plain.npz"), str(folder / "small.npz")
        np.savez(uncompressed, x=images, y=labels)
        yield "open npz, 60,000 images", best_seconds(Data(source=uncompressed).open, 3), "s"
        np.savez_compressed(small, x=images[:IMAGE_COUNT], y=labels[:IMAGE_COUNT])
        yield f"open npz, compressed, {IMAGE_COUNT:,} images", best_seconds(Data(source=small).open, 3), "s"


def decode_images() -> Rates:
    """Decoding picture files, by threads."""
    kinds = (("jpg", (500, 375), 224, 256), ("png", (256, 256), 224, 256), ("png", (28, 28), 28, 2048))
    for kind, size, target_size, count in kinds:
        with tempfile.TemporaryDirectory() as name:
            write_photos(Path(name), count, size, kind)
            data = Data(source=name, size=target_size).open()
            for threads in (0, 1, 2, 4):
                got = samples_per_second(Loader(data, 64, threads=threads))
                yield f"{kind} {size[0]} x {size[1]} to {target_size}, {threads} threads", got, "samples/s"


def pinned() -> Rates:
    """Batches as a GPU gets them: copied by the step's thread into memory that it copies from, and read there by the
    loader's threads. The memory is ordinary here; the step's thread does nothing else."""
    images = np.random.default_rng(0).integers(0, 256, (2048, 3, 227, 227)).astype(np.uint8)
    sets = {"uint8": images, "float32": images[:512].astype(np.float32)}
    for name, array in sets.items():
        data = make_dataset(array, np.zeros(len(array), np.uint8))
        for is_assembled in (False, True):
            for threads in (1, 2, 4):
                seconds = best_seconds(partial(feed, data, threads, is_assembled), 3)
                how = "assembled there" if is_assembled else "copied there"
                yield f"{name} [3, 227, 227], {how}, {threads} threads", array.nbytes / seconds / 1e6, "MB/s"


def feed(data: ArrayDataset, threads: int, is_assembled: bool) -> None:
    """An epoch of shuffled batches of 128, in memory that a GPU would copy from."""
    loader = Loader(data, 128, threads=threads)
    if is_assembled:
        loader.batch_memory = _POOL
    block = np.empty((128, *data.columns["image"].shape), data.columns["image"].dtype)
    for batch in loader:
        if not is_assembled:
            block[: batch.num_samples] = batch["image"]


_POOL = PinnedPool(lambda nbytes: np.zeros(nbytes, np.uint8), nullcontext(), 1 << 31)


def loop() -> Rates:
    """What a step of `fit` costs besides the step: LeNet with its preprocess, batch size 64."""
    images, labels = make_images(IMAGE_COUNT)
    busy = np.ones((300, 300), np.float32)
    real = HostExecutor.__call__

    def idle(until: float) -> None:
        while time.perf_counter() < until:
            busy @ busy

    for text, seconds in (("nothing", 0.0), (f"{STEP * 1e3:g} ms of work", STEP)):
        spent = [0.0]

        def call(
            self: HostExecutor, inputs: Any, guard: Any = None, seconds: float = seconds, spent: Any = spent
        ) -> Any:
            if "raw" in inputs:  # the preprocess
                return real(self, inputs, guard)
            begin = time.perf_counter()
            idle(begin + seconds)
            spent[0] += time.perf_counter() - begin
            return self._outputs

        model = pt.load_model("lenet")
        data = make_dataset(images[:, None], labels)
        with patch.object(HostExecutor, "__call__", call):
            model.fit(data, epochs=1, verbose=0)
            times = []
            for _ in range(3):
                spent[0], begin = 0.0, time.perf_counter()
                model.fit(data, epochs=1, verbose=0)
                times.append(time.perf_counter() - begin - spent[0])
        yield f"fit around a step that does {text}", min(times) / (IMAGE_COUNT / 64) * 1e6, "us a step"


def start() -> Rates:
    """Starting: a process that imports what `prototorch run` does."""
    codes = {
        "python alone": "pass",
        "import numpy": "import numpy",
        "import of the run command": "import prototorch.cli.commands.run",
    }
    for what, code in codes.items():
        yield what, best_seconds(partial(subprocess.run, [sys.executable, "-c", code], check=True)), "s"


BENCHMARKS: dict[str, Callable[[], Rates]] = {
    "start": start, "files": files, "arrays": arrays, "images": decode_images, "pinned": pinned, "loop": loop,
}  # fmt: skip


def main() -> None:
    """Run the rows asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(BENCHMARKS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = []
    if not args.json:
        versions = f"prototorch {pt.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
        print(f"{versions}, {os.cpu_count()} cores; batches of 64")
    for name in args.rows.split(","):
        for what, value, unit in BENCHMARKS[name]():
            results.append({"what": what, "value": value, "unit": unit})
            if not args.json:
                print(f"{what:45} {value:12,.{3 if unit == 's' else 0}f} {unit}", flush=True)
    if args.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
