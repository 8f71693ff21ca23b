"""Digests of files as publishers declare them: a whole SHA-256, its first digits (torchvision), an MD5 (Keras)."""

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
    md5: str


@dataclass(frozen=True)
class Digest:
    """A declared digest: its ``kind``, "sha256" or "md5", and its digits, at least 8 of a SHA-256."""

    kind: str
    digits: str

    def matches(self, digests: FileDigests) -> bool:
        """Whether a file's digests agree with it."""
        return getattr(digests, self.kind).startswith(self.digits)

    def __str__(self) -> str:
        return f"{self.kind} {self.digits}"


def parse_digest(text: str | None) -> Digest | None:
    """A declared digest, "sha256:" with 8 to 64 digits or "md5:" with 32; None for None. Raises UsageError."""
    if text is None:
        return None
    kind, _, digits = text.partition(":")
    pattern = {"sha256": "[0-9a-f]{8,64}", "md5": "[0-9a-f]{32}"}.get(kind)
    if pattern is None or not re.fullmatch(pattern, digits):
        raise UsageError(
            f"the digest {text!r:.100} must be 'sha256:' with 8 to 64 hexadecimal digits, or 'md5:' with 32"
        )
    return Digest(kind, digits)


def digests_of_file(path: str | os.PathLike[str]) -> FileDigests:
    """SHA-256 and MD5 of a file. Raises FileError."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                sha256.update(block)
                md5.update(block)
    except OSError as error:
        raise FileError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None
    return FileDigests(sha256.hexdigest(), md5.hexdigest())


def sha256_of_text(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
