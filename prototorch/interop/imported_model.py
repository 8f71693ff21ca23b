"""A whole model read from another system's file: its net in our layers, and its weights by our names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from prototorch.graph.net import Net
from prototorch.text.syntax_tree import Field

__all__ = ["ImportedModel"]


@dataclass(frozen=True)
class ImportedModel:
    """The result of an importer.

    weights: all weights of the net by name (``layer/weight``), in our layouts. notes: what a user must know of the
    conversion, a sentence each. original_names: the name that a layer had in the file, by our name, where it differs.
    classes: the names of the classes, where the file tells them. sections: further fields of the model's text
    (``compile``), where the file tells how the model is trained. has_inner_models: whether layers are in models inside
    the model, so that their names alone tell which they are in other files of it.
    """

    net: Net
    weights: Mapping[str, np.ndarray]
    notes: tuple[str, ...] = ()
    original_names: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    sections: tuple[Field, ...] = ()
    has_inner_models: bool = False
