"""Digests of files as publishers declare them: SHA-256, its first digits (torchvision), SHA-1 (Caffe), MD5 (Keras)."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from prototorch.errors import FileError, UsageError

__all__ = ["Digest", "FileDigests", "digests_of_file", "parse_digest", "sha256_of_text"]

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class FileDigests:
    """The digests of a file, in hexadecimal."""

    sha256: str
    sha1: str = ""
    md5: str = ""


@dataclass(frozen=True)
class Digest:
    """A declared digest: its ``kind``, "sha256", "sha1" or "md5", and its digits, at least 8 of a SHA-256."""

    kind: str
    digits: str

    def matches(self, digests: FileDigests) -> bool:
        """Whether a file's digests agree with it."""
        return self.of(digests).startswith(self.digits)

    def of(self, digests: FileDigests) -> str:
        """The digest of this kind of a file."""
        return getattr(digests, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.digits}"


def parse_digest(text: str | None) -> Digest | None:
    """A declared digest: "sha256:" with 8 to 64 digits, "sha1:" with 40, "md5:" with 32; None for None.

    Raises UsageError.
    """
    if text is None:
        return None
    kind, _, digits = text.partition(":")
    pattern = {"sha256": "[0-9a-f]{8,64}", "sha1": "[0-9a-f]{40}", "md5": "[0-9a-f]{32}"}.get(kind)
    if pattern is None or not re.fullmatch(pattern, digits):
        raise UsageError(
            f"the digest {text!r:.100} must be 'sha256:' with 8 to 64 digits, 'sha1:' with 40 or 'md5:' with 32"
        )
    return Digest(kind, digits)


def digests_of_file(path: str | os.PathLike[str]) -> FileDigests:
    """The digests of a file. Raises FileError."""
    hashes = [hashlib.new(kind, usedforsecurity=kind == "sha256") for kind in ("sha256", "sha1", "md5")]
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                for one in hashes:
                    one.update(block)
    except OSError as error:
        raise FileError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None
    return FileDigests(*(one.hexdigest() for one in hashes))


def sha256_of_text(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
