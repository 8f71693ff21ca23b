"""Data sets known by name: the one inside the package, and those found in IDX files on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from prototorch.data.dataset import ArrayDataset
from prototorch.data.idx import decode_idx, read_idx
from prototorch.data.ordered_pool import map_in_threads
from prototorch.data.safe_io import expand_path, printable_path, read_file
from prototorch.errors import DataError

FILES = Path(__file__).parent / "files"
FASHION_MNIST_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_MINI_SHA256 = {
    "fashion-mnist-mini-train-images-idx3-ubyte.gz": "8cdd6eb3db9f71d038db812672f156fd89a164a94f767144b5586d415d3cfa4f",
    "fashion-mnist-mini-train-labels-idx1-ubyte.gz": "ad10c5b63cc571a1b1e3466e319c5712cf94438f98643f47a64c2239b56ea625",
    "fashion-mnist-mini-t10k-images-idx3-ubyte.gz": "1d883f3966f98d7fc5011e0ff22f6e190d3b994ad0583bfd53c4b120eb39f754",
    "fashion-mnist-mini-t10k-labels-idx1-ubyte.gz": "4f81dd80fbbee90c38545ee999e120b1c191bf127f0aa516f21ef7e023d316a9",
}
_LOCAL_DATASETS = {"fashion-mnist": FASHION_MNIST_CLASSES, "mnist": tuple("0123456789")}
_INSTALL_HINTS = {
    "fashion-mnist": "Debian's package dataset-fashion-mnist brings them (apt install dataset-fashion-mnist), as does "
    "https://github.com/zalandoresearch/fashion-mnist",
    "mnist": "they come from http://yann.lecun.com/exdb/mnist/ and its mirrors",
}
SPLIT_FILES = {"train": "train", "test": "t10k"}
DATASET_NAMES = ("fashion-mnist-mini", *_LOCAL_DATASETS)


def load_builtin_dataset(name: str, folder: str | os.PathLike[str] | None = None) -> dict[str, ArrayDataset]:
    """The parts ``train`` and ``test`` of a data set known by name: ``image`` uint8 [1, 28, 28], ``label`` int64 [].

    Args:
        name: one of `DATASET_NAMES`.
        folder: where to look first, for those that are not in the package.

    Raises:
        DataError: the files are not found (says which, and where they were looked for), damaged, or not of this set.
    """
    if name == "fashion-mnist-mini":
        return _load_mini()
    for place in search_folders(name, folder):
        paths = find_idx_files(place)
        if paths:
            found = read_idx_splits(paths, _LOCAL_DATASETS[name], name)
            for split, part in found.items():
                if part.columns["image"].shape != (1, 28, 28):
                    raise DataError(
                        f"{printable_path(place)}: the {split} part of {name} has pictures of another size: {part}"
                    )
            return found
    wanted = ", ".join(f"{part}-{kind}-ubyte[.gz]" for part in SPLIT_FILES.values() for kind in _IDX_KINDS)
    looked = "\n".join(f"  {printable_path(place)}" for place in search_folders(name, folder))
    raise DataError(
        f"the files of {name!r} are not on this machine. Wanted are {wanted} in one of\n{looked}\n"
        f"(the environment variable PROTOTORCH_DATA names the folder that holds {name}/); {_INSTALL_HINTS[name]}. "
        "Nothing is downloaded. The set 'fashion-mnist-mini' is always there."
    )


def search_folders(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where a named set is looked for, in order."""
    found = []
    if folder is not None:
        found += [expand_path(folder) / name, expand_path(folder)]
    for root in filter(None, os.environ.get("PROTOTORCH_DATA", "").split(os.pathsep)):
        found.append(expand_path(root) / name)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return [*found, expand_path(cache) / "prototorch" / name, Path("/usr/share/datasets") / name]


_IDX_KINDS = ("images-idx3", "labels-idx1")


def find_idx_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The pairs (pictures, labels) of IDX files in a folder, by part; empty where there is no training pair.

    File names are those of MNIST, with or without ``.gz``, also with a prefix (``emnist-letters-train-images-...``)
    as long as only one set is there.

    Raises:
        DataError: pictures without labels, or several sets in one folder.
    """
    pairs: dict[str, tuple[Path, Path]] = {}
    for path in _list_idx_images(folder):
        split = next((s for s, word in SPLIT_FILES.items() if word in path.name or s in path.name), None)
        if split is None:
            continue
        if split in pairs and pairs[split][0].name.removesuffix(".gz") != path.name.removesuffix(".gz"):
            raise DataError(
                f"{printable_path(folder)}: holds several sets ({pairs[split][0].name}, {path.name}); name one file"
            )
        pairs[split] = (path, find_labels_file(path))
    return pairs if "train" in pairs else {}


def find_labels_file(pictures: Path) -> Path:
    """The file of labels that belongs to an IDX file of pictures. Raises DataError where it is not there."""
    stem = pictures.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for name in (stem, stem + ".gz"):
        if (pictures.parent / name).exists() and name != pictures.name:
            return pictures.parent / name
    raise DataError(f"{printable_path(pictures)}: the file with its labels, {stem}[.gz], is not beside it")


def read_idx_pair(pictures: Path, labels: Path, classes: tuple[str, ...] = (), name: str = "") -> ArrayDataset:
    """Pictures and labels from two IDX files; grey pictures [n, h, w] become [n, 1, h, w].

    Raises:
        DataError: damaged files, or not as many labels as pictures.
    """
    return read_idx_splits({"": (pictures, labels)}, classes, name or printable_path(pictures))[""]


def read_idx_splits(
    paths: Mapping[str, tuple[Path, Path]], classes: tuple[str, ...], name: str
) -> dict[str, ArrayDataset]:
    """As `read_idx_pair` for several parts; their files are read at the same time."""
    files = [path for pair in paths.values() for path in pair]
    arrays = iter(map_in_threads(read_idx, files))
    return {
        part: _make_dataset(
            next(arrays),
            next(arrays),
            classes,
            f"{name} ({part})" if part else name,
            f"{printable_path(pictures)}, row {{}}",
        )
        for part, (pictures, _) in paths.items()
    }


def _load_mini() -> dict[str, ArrayDataset]:
    found = {}
    for split, word in SPLIT_FILES.items():
        images, labels = (
            _read_verified(FILES / f"fashion-mnist-mini-{word}-{kind}-ubyte.gz", f"fashion-mnist-mini {kind}")
            for kind in _IDX_KINDS
        )
        found[split] = _make_dataset(
            decode_idx(*images), decode_idx(*labels), FASHION_MNIST_CLASSES, f"fashion-mnist-mini ({split})", ""
        )
    return found


def _read_verified(path: Path, name: str) -> tuple[bytes | bytearray, str]:
    data = read_file(path)
    if hashlib.sha256(data).hexdigest() != _MINI_SHA256[path.name]:
        raise DataError(
            f"{printable_path(path)}: its checksum is wrong: this installation is damaged, install prototorch again"
        )
    return data, name


def _make_dataset(
    images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], name: str, origins: str
) -> ArrayDataset:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{name}: the labels are {labels.dtype}{list(labels.shape)}, not one whole number a picture")
    if images.ndim < 2:
        raise DataError(f"{name}: the pictures are {images.dtype}{list(images.shape)}, not [n, height, width]")
    if images.ndim == 3:
        images = images[:, None]
    return ArrayDataset(
        {"image": images, "label": labels.astype("int64")},
        ["image"],
        ["label"],
        classes={"label": classes} if classes else {},
        name=name,
        origins=origins,
    )


def _list_idx_images(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as error:
        raise DataError(f"{printable_path(folder)}: cannot be read: {error.strerror or error}") from None
    for name in names:
        if "images" in name and "idx3" in name:
            yield folder / name
