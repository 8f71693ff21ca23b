"""What kind of file this is, by its content alone; its name says nothing."""

from __future__ import annotations

import os
import unicodedata
import zlib
from typing import Literal

from prototorch.errors import FileError
from prototorch.storage.container import has_container_header
from prototorch.storage.hdf5_decoder import SIGNATURE

FileType = Literal[
    "own", "hdf5", "npz", "npy", "idx", "image", "safetensors", "lmdb", "torch", "keras", "zip", "gzip", "text",
    "folder", "empty", "unknown",
]  # fmt: skip

_HEAD_BYTES = 4096
_IDX_TYPES = (0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E)
_IMAGE_SIGNATURES = (
    b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*",
    b"P1\n", b"P2\n", b"P3\n", b"P4\n", b"P5\n", b"P6\n", b"P5 ", b"P6 ",
)  # fmt: skip
_LMDB_SIGNATURE = b"\xde\xc0\xef\xbe"
_WHITESPACE = frozenset("\t\n\r\f")


def detect_file_type(path: str | os.PathLike[str]) -> FileType:
    """The kind of a file.

    ``own``: written by prototorch. ``hdf5``: any other HDF5 file. ``npz``, ``npy``: NumPy's. ``idx``: MNIST's format,
    compressed or not. ``image``: JPEG, PNG, GIF, BMP, TIFF, WebP, PNM. ``safetensors``, ``lmdb``, ``keras`` (the zip of
    Keras 3), ``torch`` (a pickle, which is never read). ``zip``, ``gzip``: with something else inside. ``text``: UTF-8.
    ``folder``, ``empty``, ``unknown``. Raises FileError when it cannot be opened.
    """
    name = os.fspath(path)
    try:
        if os.path.isdir(path):
            return "folder"
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{name}: expected a regular file, found a device or pipe")
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
            place = 512
            while (
                not head.startswith(SIGNATURE)
                and not has_container_header(head)
                and place + 8 <= size
                and place < 1 << 30
            ):
                file.seek(place)
                if file.read(8) == SIGNATURE:
                    return "hdf5"
                place *= 2
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{name}: cannot open it: {getattr(error, 'strerror', None) or error}") from error
    return _detect_by_head(head, size)


def _detect_by_head(head: bytes, size: int) -> FileType:
    if not head:
        return "empty"
    if has_container_header(head):
        return "own"
    if head.startswith(SIGNATURE):
        return "hdf5"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if _is_idx(head):
        return "idx"
    if head.startswith(b"\x1f\x8b"):
        return "idx" if _is_idx(_inflate_head(head)) else "gzip"
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return _detect_zip_type(head)
    if head.startswith(_IMAGE_SIGNATURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return "image"
    if head[16:20] == _LMDB_SIGNATURE:
        return "lmdb"
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5":
        return "torch"
    return "text" if _is_text(head) else "unknown"


def _is_idx(head: bytes) -> bool:
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= 8


def _inflate_head(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 64)
    except zlib.error:
        return b""


def _detect_zip_type(head: bytes) -> FileType:
    """By the name of the first member."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first.endswith(b".npy") or head.startswith(b"PK\5\6"):
        return "npz"
    if first.endswith((b"/data.pkl", b"/.format_version", b"/byteorder")):
        return "torch"
    if first in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return "keras"
    return "zip"


def _is_text(head: bytes) -> bool:
    for short in range(4):  # the last character may be cut
        try:
            text = head[: len(head) - short].decode("utf-8-sig")
        except UnicodeDecodeError:
            if len(head) < _HEAD_BYTES:
                return False
            continue
        return not any(unicodedata.category(c) == "Cc" and c not in _WHITESPACE for c in text)
    return False
