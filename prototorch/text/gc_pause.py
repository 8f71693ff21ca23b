"""A pause of garbage collection while a text is parsed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """Disable garbage collection: syntax trees have no reference cycles; finding none costs more than parsing."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
