"""Definitions that leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prototorch.ops.operators import OPS
from prototorch.schema import Block


@contextmanager
def temporary_definitions() -> Iterator[None]:
    """Ops, layers and members of other families that are defined inside are removed afterwards."""
    families = [root._family for root in Block.__subclasses__() if root._family is not None]
    tables: list[dict[str, Any]] = [OPS, *(t for f in families for t in (f.members, f.names, f.namesakes))]
    copies = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, before in zip(tables, copies, strict=True):
            table.clear()
            table.update(before)
