"""Fingerprints of data sets, by which a resumed training recognises that its data are not the same any more.

The fingerprint is the number of samples and a SHA-256 of what they consist of: of arrays in memory their bytes, of
image files the last two parts of their paths, their sizes and bytes. More than 64 MiB are sampled: evenly spaced rows
or files, always the same ones. Times of modification do not matter, so that a copied data set is the same one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from prototorch.errors import DataError

__all__ = ["Fingerprinted", "check_fingerprint", "fingerprint", "update_with_array", "update_with_files"]

MAX_BYTES = 1 << 26  # of a column or of a set of files; larger ones are sampled. 64 MiB take 50 ms
MAX_ROWS = 4096  # rows of an array, or files, that are sampled
MAX_FILES = 20_000  # files whose sizes are looked at


class Fingerprinted(Protocol):
    """A data set: a name and a number of samples, and `update_fingerprint`."""

    name: str

    def __len__(self) -> int:
        """The number of samples."""

    def update_fingerprint(self, digest: Any) -> None:
        """Feed the content of the samples to a hash."""


def fingerprint(dataset: Fingerprinted) -> dict[str, Any]:
    """What identifies the samples, as JSON values: ``samples`` and ``sha256`` (hexadecimal)."""
    digest = hashlib.sha256()
    dataset.update_fingerprint(digest)
    return {"samples": len(dataset), "sha256": digest.hexdigest()}


def check_fingerprint(dataset: Fingerprinted, saved: Mapping[str, Any], what: str = "samples") -> None:
    """Raise DataError, with both sides, if a data set is not the one of a saved fingerprint."""
    current = fingerprint(dataset)
    if current != saved:
        raise DataError(
            f"{dataset.name}: the training cannot be resumed exactly: its {what} have changed since the snapshot: it "
            f"had {_describe(saved)}, now there are {_describe(current)}. Put the data back as they were, or begin a "
            "new training: run without --resume, or fit(resume=False)"
        )


def update_with_array(digest: Any, name: str, array: np.ndarray) -> None:
    """Feed a column [samples, ...] to a hash: its name, dtype, shape and bytes, or those of evenly spaced rows."""
    digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
    if array.nbytes > MAX_BYTES:
        array = array[_spaced(len(array), max(1, min(MAX_ROWS, MAX_BYTES * len(array) // array.nbytes)))]
    digest.update(np.ascontiguousarray(array).tobytes())


def update_with_files(digest: Any, paths: Sequence[str | os.PathLike[str]]) -> None:
    """Feed files to a hash: the last two parts of their paths, sizes and bytes. A file that cannot be read counts as
    such."""
    sample_paths = [os.fspath(paths[i]) for i in _spaced(len(paths), MAX_FILES)]
    sizes = [_size_of(path) for path in sample_paths]
    for path, size in zip(sample_paths, sizes, strict=True):
        digest.update(f"{os.sep.join(path.split(os.sep)[-2:])} {size};".encode("utf-8", "surrogateescape"))
    is_small = sum(sizes) <= MAX_BYTES
    limit = MAX_BYTES if is_small else MAX_BYTES // 1024
    for path in sample_paths if is_small else [sample_paths[i] for i in _spaced(len(sample_paths), 1024)]:
        try:
            with open(path, "rb") as file:
                digest.update(file.read(limit))
        except OSError as error:
            digest.update(f"{error.errno};".encode())


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _spaced(count: int, limit: int) -> np.ndarray:
    """Up to ``limit`` evenly spaced indices below ``count``, the first and the last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, limit)).astype(np.int64))


def _describe(saved: Mapping[str, Any]) -> str:
    return f"{saved['samples']:,} samples with the SHA-256 {saved['sha256'][:12]}"
