"""The vocabulary of a tokenizer.json."""

from __future__ import annotations

from typing import Any

from prototorch.errors import DataError

__all__ = ["MAX_IDS", "read_vocabulary"]

MAX_IDS = 1 << 21


def read_vocabulary(table: dict[Any, Any]) -> dict[str, int]:
    """Token -> id. Raises DataError for ids that are none, or twice."""
    ids = list(table.values())
    if any(isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < MAX_IDS for i in ids):
        raise DataError(f"tokenizer file: ids must be integers from 0 to {MAX_IDS - 1:,}")
    if len(set(ids)) != len(ids):
        raise DataError("tokenizer file: an id stands for two tokens")
    if not ids:
        raise DataError("tokenizer file: the vocabulary is empty")
    return {str(token): i for token, i in table.items()}
