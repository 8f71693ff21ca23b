"""Blocks that every text may use without an include: those of ``models/blocks/standard.proto``."""

from __future__ import annotations

from functools import cache

from prototorch.base.package_files import package_folder
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import BlockDef

__all__ = ["shipped_blocks"]

_NAME = "models/blocks/standard.proto"  # as messages show it


@cache
def shipped_blocks() -> dict[str, BlockDef]:
    """The blocks by name."""
    text = (package_folder("models") / "blocks" / "standard.proto").read_text(encoding="utf-8")
    return {s.name: s for s in parse(text, _NAME).statements if isinstance(s, BlockDef)}
