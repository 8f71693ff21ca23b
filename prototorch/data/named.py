"""Data sets known by name: the one inside the package, and those found in IDX files on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import DataError
from .bounded import read_file, resolve, shown
from .dataset import Arrays
from .idx import decode_idx, read_idx
from .workers import at_once

FILES = Path(__file__).parent / "files"
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_MINI = {
    "fashion-mnist-mini-train-images-idx3-ubyte.gz": "8cdd6eb3db9f71d038db812672f156fd89a164a94f767144b5586d415d3cfa4f",
    "fashion-mnist-mini-train-labels-idx1-ubyte.gz": "ad10c5b63cc571a1b1e3466e319c5712cf94438f98643f47a64c2239b56ea625",
    "fashion-mnist-mini-t10k-images-idx3-ubyte.gz": "1d883f3966f98d7fc5011e0ff22f6e190d3b994ad0583bfd53c4b120eb39f754",
    "fashion-mnist-mini-t10k-labels-idx1-ubyte.gz": "4f81dd80fbbee90c38545ee999e120b1c191bf127f0aa516f21ef7e023d316a9",
}
_SEARCHED = {"fashion-mnist": FASHION, "mnist": tuple("0123456789")}
_HOW = {
    "fashion-mnist": "Debian's package dataset-fashion-mnist brings them (apt install dataset-fashion-mnist), as does "
    "https://github.com/zalandoresearch/fashion-mnist",
    "mnist": "they come from http://yann.lecun.com/exdb/mnist/ and its mirrors",
}
SPLIT_FILES = {"train": "train", "test": "t10k"}
NAMES = ("fashion-mnist-mini", *_SEARCHED)


def load_named(name: str, folder: str | os.PathLike[str] | None = None) -> dict[str, Arrays]:
    """The parts ``train`` and ``test`` of a data set known by name: ``image`` uint8 [1, 28, 28], ``label`` int64 [].

    Args:
        name: one of `NAMES`.
        folder: where to look first, for those that are not in the package.

    Raises:
        DataError: the files are not found (says which, and where they were looked for), damaged, or not of this set.
    """
    if name == "fashion-mnist-mini":
        return _mini()
    for place in places(name, folder):
        paths = idx_files(place)
        if paths:
            found = idx_parts(paths, _SEARCHED[name], name)
            for split, part in found.items():
                if part.columns["image"].shape != (1, 28, 28):
                    raise DataError(f"{shown(place)}: the {split} part of {name} has pictures of another size: {part}")
            return found
    wanted = ", ".join(f"{part}-{kind}-ubyte[.gz]" for part in SPLIT_FILES.values() for kind in _KINDS)
    looked = "\n".join(f"  {shown(place)}" for place in places(name, folder))
    raise DataError(
        f"the files of {name!r} are not on this machine. Wanted are {wanted} in one of\n{looked}\n"
        f"(the environment variable PROTOTORCH_DATA names the folder that holds {name}/); {_HOW[name]}. "
        "Nothing is downloaded. The set 'fashion-mnist-mini' is always there."
    )


def places(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where a named set is looked for, in order."""
    found = []
    if folder is not None:
        found += [resolve(folder) / name, resolve(folder)]
    for root in filter(None, os.environ.get("PROTOTORCH_DATA", "").split(os.pathsep)):
        found.append(resolve(root) / name)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return [*found, resolve(cache) / "prototorch" / name, Path("/usr/share/datasets") / name]


_KINDS = ("images-idx3", "labels-idx1")


def idx_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The pairs (pictures, labels) of IDX files in a folder, by part; empty where there is no training pair.

    File names are those of MNIST, with or without ``.gz``, also with a prefix (``emnist-letters-train-images-...``)
    as long as only one set is there.

    Raises:
        DataError: pictures without labels, or several sets in one folder.
    """
    pairs: dict[str, tuple[Path, Path]] = {}
    for path in _idx_pictures(folder):
        split = next((s for s, word in SPLIT_FILES.items() if word in path.name or s in path.name), None)
        if split is None:
            continue
        if split in pairs and pairs[split][0].name.removesuffix(".gz") != path.name.removesuffix(".gz"):
            raise DataError(f"{shown(folder)}: holds several sets ({pairs[split][0].name}, {path.name}); name one file")
        pairs[split] = (path, labels_beside(path))
    return pairs if "train" in pairs else {}


def labels_beside(pictures: Path) -> Path:
    """The file of labels that belongs to an IDX file of pictures. Raises DataError where it is not there."""
    stem = pictures.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for name in (stem, stem + ".gz"):
        if (pictures.parent / name).exists() and name != pictures.name:
            return pictures.parent / name
    raise DataError(f"{shown(pictures)}: the file with its labels, {stem}[.gz], is not beside it")


def idx_pair(pictures: Path, labels: Path, classes: tuple[str, ...] = (), name: str = "") -> Arrays:
    """Pictures and labels from two IDX files; grey pictures [n, h, w] become [n, 1, h, w].

    Raises:
        DataError: damaged files, or not as many labels as pictures.
    """
    return idx_parts({"": (pictures, labels)}, classes, name or shown(pictures))[""]


def idx_parts(paths: Mapping[str, tuple[Path, Path]], classes: tuple[str, ...], name: str) -> dict[str, Arrays]:
    """As `idx_pair` for several parts; their files are read at the same time."""
    files = [path for pair in paths.values() for path in pair]
    arrays = iter(at_once(read_idx, files))
    return {
        part: _pair(
            next(arrays), next(arrays), classes, f"{name} ({part})" if part else name, f"{shown(pictures)}, row {{}}"
        )
        for part, (pictures, _) in paths.items()
    }


def _mini() -> dict[str, Arrays]:
    found = {}
    for split, word in SPLIT_FILES.items():
        images, labels = (
            _verified(FILES / f"fashion-mnist-mini-{word}-{kind}-ubyte.gz", f"fashion-mnist-mini {kind}")
            for kind in _KINDS
        )
        found[split] = _pair(decode_idx(*images), decode_idx(*labels), FASHION, f"fashion-mnist-mini ({split})", "")
    return found


def _verified(path: Path, name: str) -> tuple[bytes | bytearray, str]:
    data = read_file(path)
    if hashlib.sha256(data).hexdigest() != _MINI[path.name]:
        raise DataError(f"{shown(path)}: its checksum is wrong: this installation is damaged, install prototorch again")
    return data, name


def _pair(images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], name: str, origins: str) -> Arrays:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{name}: the labels are {labels.dtype}{list(labels.shape)}, not one whole number a picture")
    if images.ndim < 2:
        raise DataError(f"{name}: the pictures are {images.dtype}{list(images.shape)}, not [n, height, width]")
    if images.ndim == 3:
        images = images[:, None]
    return Arrays(
        {"image": images, "label": labels.astype("int64")},
        ["image"],
        ["label"],
        classes={"label": classes} if classes else {},
        name=name,
        origins=origins,
    )


def _idx_pictures(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as error:
        raise DataError(f"{shown(folder)}: cannot be read: {error.strerror or error}") from None
    for name in names:
        if "images" in name and "idx3" in name:
            yield folder / name
