"""Post-processors: the special tokens before and after the ids of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.fields import MAX_PARTS, Part, kind_of, value

__all__ = ["read_template"]


def read_template(part: Any) -> tuple[list[int], list[int]]:
    """The ids before and after those of a text. Raises DataError for post-processors that are not supported."""
    if part is None:
        return [], []
    kind = kind_of(part, "post-processor")
    if kind == "ByteLevel":
        return [], []
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [_token_id(part, "cls")], [_token_id(part, "sep")]
    if kind == "TemplateProcessing":
        return _read_pieces(part)
    if kind == "Sequence":
        processors = value(part, "processors", list)
        if len(processors) > MAX_PARTS or any(kind_of(p, "post-processor") == "Sequence" for p in processors):
            raise DataError(f"tokenizer file: a sequence of post-processors is a list of at most {MAX_PARTS}")
        before, after = list[int](), list[int]()
        for inner in processors:
            first, last = read_template(inner)
            before, after = first + before, after + last
        return before, after
    raise DataError(f"tokenizer file: the post-processor {kind[:60]!r} is not supported")


def _token_id(part: Part, name: str) -> int:
    pair = part.get(name)
    if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[1], bool) or not isinstance(pair[1], int):
        raise DataError(f"tokenizer file: {name!r} of {part.get('type')} must be a pair of a token and its id")
    return pair[1]


def _read_pieces(part: Part) -> tuple[list[int], list[int]]:
    pieces, table = value(part, "single", list), value(part, "special_tokens", dict, {"": None})
    before, after, is_after = list[int](), list[int](), False
    for piece in pieces[: MAX_PARTS + 1]:
        special = piece.get("SpecialToken") if isinstance(piece, Mapping) else None
        if isinstance(special, Mapping):
            entry = table.get(special.get("id"))
            ids = entry.get("ids") if isinstance(entry, Mapping) else None
            if not isinstance(ids, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
                raise DataError("tokenizer file: the template has a special token without ids")
            (after if is_after else before).extend(ids)
        elif isinstance(piece, Mapping) and "Sequence" in piece and not is_after:
            is_after = True
        else:
            raise DataError("tokenizer file: a template has special tokens, and the text once")
    if not is_after or len(pieces) > MAX_PARTS:
        raise DataError("tokenizer file: a template has special tokens, and the text once")
    return before, after
