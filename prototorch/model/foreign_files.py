"""Other systems' files for a model. What reads and writes them is registered by the part of the package that knows
them, and imported with the first such file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from prototorch.base.index import Extension, load_extensions
from prototorch.engine.storage.load_report import LoadReport
from prototorch.graph.net import Net
from prototorch.runtime.variables import NamedWeights

__all__ = ["MatchedWeights", "ModelToWrite", "ModelWriter", "WeightReader", "model_writer", "weight_reader"]


class MatchedWeights(Protocol):
    """A file of weights whose names and shapes have been matched with a net's; nothing is changed yet."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def changes_preprocessing(self) -> bool:
        """Whether the file is that of a weight set, whose preprocessing and class names the model takes over."""

    @property
    def origin(self) -> Mapping[str, str]:
        """The name and the licence of the weight set, for exports; empty for a file that belongs to none."""

    def assign(self, net: Net, weights: NamedWeights) -> tuple[Net, str, LoadReport]:
        """Write the weights of the file; gives the net with what it takes over from a weight set, the lines that say
        so, and the report."""


@dataclass(frozen=True)
class WeightReader(Extension):
    """match: ``(block, net, specs, **options)`` matches the file of a `Weights` block with the weights of a net. The
    options and the errors are those of `Model.load_weights`; specs: of the weights by name, None where the net says."""

    match: Callable[..., MatchedWeights]


@dataclass(frozen=True)
class ModelToWrite:
    """A model for a writer.

    weights: all weights of the net by name (``layer/weight``), in our layouts. text: the model as canonical text.
    classes: the names of the classes, where they are known. shapes: of inputs whose sizes the text leaves open, without
    the batch dimension. metadata: what else is known as text ("license", "author", "source").
    """

    net: Net
    weights: Mapping[str, np.ndarray]
    text: str = ""
    classes: Sequence[str] = ()
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelWriter(Extension):
    """write: ``(path, model, format, **options)`` writes a model, see `Model.export`; returns the files' paths."""

    write: Callable[..., tuple[str, ...]]


def weight_reader() -> WeightReader:
    """What reads other systems' weights."""
    reader: WeightReader = load_extensions(WeightReader)[0]
    return reader


def model_writer() -> ModelWriter:
    """What writes other systems' files."""
    writer: ModelWriter = load_extensions(ModelWriter)[0]
    return writer
