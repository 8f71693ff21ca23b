"""Data sets with a name: the one inside the package, and those whose IDX files are found on this machine."""

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

__all__ = [
    "DATASET_NAMES",
    "find_dataset_folder",
    "find_idx_files",
    "find_labels_file",
    "load_builtin_dataset",
    "read_idx_pair",
    "read_idx_splits",
    "search_folders",
]

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
    """The splits ``train`` and ``test`` of a named data set: ``image`` uint8 [1, 28, 28], ``label`` int64 [].

    Args:
        name: one of `DATASET_NAMES`.
        folder: the folder that is candidate first, for sets that are not in the package.

    Raises:
        DataError: the files are not found (the message lists files and folders), damaged, or not of this set.
    """
    if name == "fashion-mnist-mini":
        return _load_mini()
    dataset_folder = find_dataset_folder(name, folder)
    if dataset_folder is not None:
        splits = read_idx_splits(find_idx_files(dataset_folder), _LOCAL_DATASETS[name], name)
        for split, dataset in splits.items():
            if dataset.columns["image"].shape != (1, 28, 28):
                raise DataError(
                    f"{printable_path(dataset_folder)}: expected 28 x 28 images in the {split} split of {name}, "
                    f"got {dataset}"
                )
        return splits
    folders = search_folders(name, folder)
    files = ", ".join(f"{split}-{kind}-ubyte[.gz]" for split in SPLIT_FILES.values() for kind in _IDX_KINDS)
    listing = "\n".join(f"  {printable_path(candidate)}" for candidate in folders)
    raise DataError(
        f"the files of {name!r} are not on this machine. Expected {files} in one of\n{listing}\n"
        f"(the environment variable PROTOTORCH_DATA names the folder that contains {name}/); {_INSTALL_HINTS[name]}. "
        "Nothing is downloaded. The set 'fashion-mnist-mini' is always available."
    )


def find_dataset_folder(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder in which a named set is found; None for the set of the package, and where there is none."""
    if name not in _LOCAL_DATASETS:
        return None
    return next((candidate for candidate in search_folders(name, folder) if find_idx_files(candidate)), None)


def search_folders(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders that are candidate for a named set, in order."""
    folders = []
    if folder is not None:
        folders += [expand_path(folder) / name, expand_path(folder)]
    for root in filter(None, os.environ.get("PROTOTORCH_DATA", "").split(os.pathsep)):
        folders.append(expand_path(root) / name)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return [*folders, expand_path(cache) / "prototorch" / name, Path("/usr/share/datasets") / name]


_IDX_KINDS = ("images-idx3", "labels-idx1")


def find_idx_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Split -> (images, labels), the IDX files in a folder; empty if there is no training split.

    File names are those of MNIST, with or without ``.gz``, also with a prefix (``emnist-letters-train-images-...``)
    if the folder contains only one set.

    Raises:
        DataError: images without labels, or several sets in one folder.
    """
    pairs: dict[str, tuple[Path, Path]] = {}
    for path in _list_idx_images(folder):
        split = next((s for s, word in SPLIT_FILES.items() if word in path.name or s in path.name), None)
        if split is None:
            continue
        if split in pairs and pairs[split][0].name.removesuffix(".gz") != path.name.removesuffix(".gz"):
            raise DataError(
                f"{printable_path(folder)}: contains several sets ({pairs[split][0].name}, {path.name}); "
                "give the path of one file"
            )
        pairs[split] = (path, find_labels_file(path))
    return pairs if "train" in pairs else {}


def find_labels_file(images: Path) -> Path:
    """The label file that belongs to an IDX file of images. Raises DataError if it does not exist."""
    stem = images.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for name in (stem, stem + ".gz"):
        if (images.parent / name).exists() and name != images.name:
            return images.parent / name
    raise DataError(f"{printable_path(images)}: its label file {stem}[.gz] is not in the same folder")


def read_idx_pair(images: Path, labels: Path, classes: tuple[str, ...] = (), name: str = "") -> ArrayDataset:
    """A data set of two IDX files, images and labels; grey images [n, h, w] become [n, 1, h, w].

    Raises:
        DataError: damaged files, or different numbers of images and labels.
    """
    return read_idx_splits({"": (images, labels)}, classes, name or printable_path(images))[""]


def read_idx_splits(
    paths: Mapping[str, tuple[Path, Path]], classes: tuple[str, ...], name: str
) -> dict[str, ArrayDataset]:
    """As `read_idx_pair` for several splits; their files are read concurrently."""
    files = [path for pair in paths.values() for path in pair]
    arrays = iter(map_in_threads(read_idx, files))
    return {
        part: _make_dataset(
            next(arrays),
            next(arrays),
            classes,
            f"{name} ({part})" if part else name,
            f"{printable_path(images)}, row {{}}",
        )
        for part, (images, _) in paths.items()
    }


def _load_mini() -> dict[str, ArrayDataset]:
    splits = {}
    for split, word in SPLIT_FILES.items():
        images, labels = (
            _read_verified(FILES / f"fashion-mnist-mini-{word}-{kind}-ubyte.gz", f"fashion-mnist-mini {kind}")
            for kind in _IDX_KINDS
        )
        splits[split] = _make_dataset(
            decode_idx(*images), decode_idx(*labels), FASHION_MNIST_CLASSES, f"fashion-mnist-mini ({split})", ""
        )
    return splits


def _read_verified(path: Path, name: str) -> tuple[bytes | bytearray, str]:
    data = read_file(path)
    if hashlib.sha256(data).hexdigest() != _MINI_SHA256[path.name]:
        raise DataError(
            f"{printable_path(path)}: its checksum is wrong: the installation is damaged, reinstall prototorch"
        )
    return data, name


def _make_dataset(
    images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], name: str, origins: str
) -> ArrayDataset:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{name}: the labels are {labels.dtype}{list(labels.shape)}, expected one integer per image")
    if images.ndim < 2:
        raise DataError(f"{name}: the images are {images.dtype}{list(images.shape)}, expected [n, height, width]")
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
