"""Names: from a class name to the word a text uses for it."""

from __future__ import annotations

import re

# Names whose capitals do not mark words.
_BRANDS = {"PReLU": "Prelu", "ReLU": "Relu", "SiLU": "Silu", "RMSprop": "Rmsprop", "AdamW": "Adamw", "IoU": "Iou"}
_BRAND = re.compile("|".join(_BRANDS))
_WORD_BOUNDARY = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """``HeNormal`` -> ``he_normal``, ``Conv2DTranspose`` -> ``conv2d_transpose``, ``LeakyReLU`` -> ``leaky_relu``."""
    return _WORD_BOUNDARY.sub("_", _BRAND.sub(lambda m: _BRANDS[m.group()], name)).lower()
