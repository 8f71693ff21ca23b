"""Definitions that leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prototorch.layers.base import Layer
from prototorch.ops.operators import OPS


@contextmanager
def temporary_definitions() -> Iterator[None]:
    """Layers and ops that are defined inside are removed afterwards."""
    family = Layer._family
    assert family is not None
    tables: tuple[dict[str, Any], ...] = (family.members, family.names, OPS)
    copies = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, before in zip(tables, copies, strict=True):
            table.clear()
            table.update(before)
