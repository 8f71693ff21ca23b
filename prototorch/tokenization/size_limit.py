"""How much the parts of a tokenizer file may make of a text: a file cannot turn few characters into very many."""

from __future__ import annotations

from prototorch.errors import DataError

__all__ = ["SizeLimit"]

GROWTH = 64  # characters for each one of a text
SPARE = 4096  # and as many more, for a short text


class SizeLimit:
    """The characters that parts of a file may make of a text.

    Args:
        what: the parts, for messages.
        size: of the text, in characters.
    """

    def __init__(self, what: str, size: int):
        self._what, self._size, self._used = what, size, 0
        self._limit = GROWTH * size + SPARE

    def check(self, size: int) -> None:
        """Raises DataError where so many characters more are too many."""
        if self._used + size > self._limit:
            raise DataError(
                f"tokenizer file: its {self._what} make more than {self._limit:,} characters of {self._size:,}; at "
                f"most {GROWTH} for each one, and {SPARE:,} more, are allowed"
            )

    def take(self, size: int) -> None:
        """Check, and count them, as those of one part of the text."""
        self.check(size)
        self._used += size
