"""Names of blocks: after the layers' common names where these have one, else after the layers."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.interop.text_generation.name_parts import block_name
from prototorch.interop.text_generation.statements import REPEAT, Statement
from prototorch.layers.base import Layer
from prototorch.layers.merge import MergeLayer
from prototorch.text.case_conversion import snake_case
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS

__all__ = ["BlockNames"]

_RESERVED = TOP_LEVEL_BLOCKS | {"branch", "param", "block", "repeat", "if", "else", "in", "include", "name", "output"}


class BlockNames:
    """The names that blocks of a text have."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def name_for(self, items: Sequence[Statement], prefixes: Sequence[tuple[str, ...]]) -> str:
        """A new name for a block of these statements, whose uses have these names (none: no names)."""
        name = (block_name(prefixes) if prefixes else None) or _describe(items)
        if name in _RESERVED or _is_layer(name):
            name = "unit" if name == "block" else f"{name}_block"
        number, base = 1, name
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name


def _is_layer(name: str) -> bool:
    return name in {form for layer in Layer.member_names() for form in (layer, snake_case(layer), layer.lower())}


def _word(layer: type[Layer]) -> str:
    """The word for a layer beside others; the words of merging layers are for those that hold branches."""
    return "" if issubclass(layer, MergeLayer) else layer.block_word


def _describe(items: Sequence[Statement]) -> str:
    """``conv_bn_relu``, ``residual``."""
    if any(item.kind == REPEAT or item.head.startswith("stage") for item in items):
        return "stage"
    merges = (item.layer_class for item in items if item.bodies)
    merge = next((cls.block_word for cls in merges if cls is not None and cls.block_word), None)
    if merge == "concat" and len(next(i for i in items if i.bodies).bodies) > 2:
        merge = "inception"
    if merge is not None:
        return merge
    words: list[str] = []
    for item in items:
        layer = item.layer_class
        word = item.head.rstrip("0123456789") if layer is None else _word(layer)
        word = word or snake_case(item.head).replace("max_pooling", "pool").rstrip("123d").rstrip("_")
        words.extend(w for w in [word.strip("_")] if w and (not words or words[-1] != w))
    if len(words) > 3 and "depthwise" in words:
        return "depthwise_block"
    return "_".join(words[:3]) if len(words) <= 3 else f"{words[0]}_{words[1]}_block"
