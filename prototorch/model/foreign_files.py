"""A model written for other systems. What writes it is registered by the part of the package that knows them, and
imported with the first such file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from prototorch.base.index import Extension, load_extensions
from prototorch.graph.net import Net

__all__ = ["ModelToWrite", "ModelWriter", "model_writer"]


@dataclass(frozen=True)
class ModelToWrite:
    """A model for a writer.

    weights: all weights of the net by name (``layer/weight``), in our layouts. text: the model as canonical text.
    classes: the names of the classes, where they are known. shapes: of inputs whose sizes the text leaves open, without
    the batch dimension. metadata: what else is known as text ("license", "author", "source"). input_dtypes: elements of
    the data that the model was trained on, before ``preprocess``, by input. notes: what the file does not hold, a
    sentence each; writers add to it.
    """

    net: Net
    weights: Mapping[str, np.ndarray]
    text: str = ""
    classes: Sequence[str] = ()
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    input_dtypes: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ModelWriter(Extension):
    """write: ``(path, model, format, **options)`` writes a model, see `Model.export`; returns the files' paths."""

    write: Callable[..., tuple[str, ...]]


def model_writer() -> ModelWriter:
    """What writes other systems' files."""
    writer: ModelWriter = load_extensions(ModelWriter)[0]
    return writer
