"""Definitions that leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prototorch.layers.base import Layer
from prototorch.ops.operators import OPS


@contextmanager
def temporary_definitions() -> Iterator[None]:
    """Layers and ops that are defined inside are removed afterwards."""
    family = Layer._family
    assert family is not None
    ops = dict(OPS)
    with family.temporary_members():
        try:
            yield
        finally:
            OPS.clear()
            OPS.update(ops)
