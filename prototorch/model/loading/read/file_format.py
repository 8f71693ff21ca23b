"""What a reader's module declares: a `Format` at its top, with a function that recognizes its files and one that opens
them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from prototorch.base.index import Extension
from prototorch.data.safe_io import printable_path, read_head
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.tree_paths import find_name_error
from prototorch.engine.storage.zip_members import zip_members
from prototorch.errors import DataError, ModelFileError
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["Format", "UnknownFile", "check_weight_name"]

_HEAD_BYTES = 4096
MAX_NAME_LENGTH = 1000


class UnknownFile:
    """A file whose format is to be recognized.

    path: as it was given. is_folder: whether it is one; then there are no bytes. head: its first 4,096 bytes.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        self.is_folder = os.path.isdir(self.path)
        self.head = b""
        if not self.is_folder:
            try:
                self.head = read_head(self.path, _HEAD_BYTES)
            except DataError as error:
                raise ModelFileError(str(error)) from None

    @property
    def ending(self) -> str:
        """The last ending of its name, in lower case, with the dot."""
        return os.path.splitext(self.path)[1].lower()

    @property
    def is_zip(self) -> bool:
        """Whether it begins as a zip archive."""
        return self.head[:4] in (b"PK\x03\x04", b"PK\x05\x06")

    @cached_property
    def members(self) -> frozenset[str]:
        """The names in a zip archive; none for other files, and for an archive that cannot be read."""
        if not self.is_zip:
            return frozenset()
        try:
            return frozenset(zip_members(MappedFile(self.path)))
        except ModelFileError:
            return frozenset()

    def has_member(self, name: str) -> bool:
        """Whether a zip archive has a file of this name, at the top or in its one folder."""
        return any(member == name or member.partition("/")[2] == name for member in self.members)


@dataclass(frozen=True)
class Format(Extension):
    """A format of weight files.

    name: as messages name it. recognize: whether a file is of this format, by its content; it reads little. open: the
    file's weights, or ModelFileError with one sentence. endings: usual endings, for messages; none for a format that
    is recognized only to be refused.
    """

    name: str
    recognize: Callable[[UnknownFile], bool]
    open: Callable[[str], WeightFile]
    endings: tuple[str, ...] = ()


def check_weight_name(name: str, path: str | os.PathLike[str]) -> None:
    """Raise ModelFileError unless a name in a file is one that a weight can have: text without control characters and
    without the parts ``..`` and ``.``, of at most 1,000 characters."""
    problem = f"has {len(name):,} characters (at most {MAX_NAME_LENGTH:,})" if len(name) > MAX_NAME_LENGTH else None
    for part in name.split("/") if problem is None else ():
        problem = problem or find_name_error(part)
    if problem:
        raise ModelFileError(f"{printable_path(path)}: the weight's name {name[:60]!r} {problem}")
