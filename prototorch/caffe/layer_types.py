"""The types of layers that Caffe's files may name."""

from __future__ import annotations

from prototorch.caffe.interop import translate
from prototorch.caffe.interop.layer_import import known_types

__all__ = ["layer_type_list"]

_ = translate  # loads the translators


def layer_type_list() -> list[str]:
    """The types of layers, in alphabetical order."""
    return known_types()
