"""Text from outside on a terminal: characters that a terminal obeys instead of showing are written as escapes.

Names, labels, paths and lines of files come from whoever wrote them. A control character in one of them could move the
cursor, change the title or the clipboard, or hide part of a message; a bidirectional control shows it in another order.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["EscapingStream", "escape_controls", "escape_line", "escaped_output"]

_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 (but for tab and line feed), delete, C1
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, line ends, bidi
    "\ud800-\udfff\U000e0000-\U000e007f]"  # lone surrogates, tags
    "|\r(?!\n)"
)
_LINE_CONTROLS = re.compile(f"{_CONTROLS.pattern}|[\t\r\n]")


def escape_controls(text: str) -> str:
    r"""The text with control characters (C0, C1), bidirectional and invisible format characters, line and paragraph
    separators and lone surrogates written as escapes (``\x1b``, ``\u202e``). Tabs, line feeds (also with a carriage
    return before them) and all other characters stay. A text that is escaped already stays as it is."""
    return _CONTROLS.sub(_escape, text)


def escape_line(text: str) -> str:
    r"""As `escape_controls`, and line feeds and tabs are escaped as well (``\n``): for a name or path in a line."""
    return _LINE_CONTROLS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


class EscapingStream:
    """A text stream that escapes what is written to it (`escape_controls`) and passes it on.

    A character that the encoding of the stream below lacks is written as an escape, too. rich's consoles, which write
    control sequences of their own, use the stream below (``rich_proxied_file``): what they show is escaped by its
    maker. A reader that is gone raises a BrokenPipeError without an error number, which click does not take for its
    own.
    """

    def __init__(self, stream: TextIO):
        self.rich_proxied_file = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self.errors = "backslashreplace"

    def write(self, text: str | bytes) -> int:
        """Write a text, or its bytes (click's completion of a shell); returns its length."""
        if isinstance(text, bytes):
            text = text.decode(self.encoding, self.errors)
        escaped = escape_controls(text).encode(self.encoding, self.errors).decode(self.encoding)
        try:
            self.rich_proxied_file.write(escaped)
        except BrokenPipeError:
            raise BrokenPipeError from None
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        try:
            self.rich_proxied_file.flush()
        except BrokenPipeError:
            raise BrokenPipeError from None

    def writable(self) -> bool:
        """True."""
        return True

    def isatty(self) -> bool:
        """Whether the stream below is a terminal."""
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        """The file descriptor of the stream below."""
        return self.rich_proxied_file.fileno()


@contextmanager
def escaped_output() -> Iterator[None]:
    """Standard output and standard error escape what is written to them, until the end of the block."""
    streams: tuple[Any, Any] = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (None if s is None else EscapingStream(s) for s in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
