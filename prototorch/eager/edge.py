"""Places on the tape."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Edge"]


class Edge(NamedTuple):
    """Output ``output`` of an entry; a tensor that no op has made (a leaf) stands for itself instead."""

    entry: Any
    output: int
