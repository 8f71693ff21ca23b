"""What a model expects of data: names, shapes, dtypes, targets, index ranges, preprocessing, columns of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from prototorch.data.data_block import Data
from prototorch.data.dataset import Dataset
from prototorch.data.read_limits import ReadLimits
from prototorch.data.table_columns import TableColumns
from prototorch.data.text_source import TextInput, TextKind
from prototorch.spec import Spec
from prototorch.text.source import Span

__all__ = ["IndexRange", "LearnedOutput", "ModelSignature", "Shape", "TargetSpec"]

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class TargetSpec:
    """The target that the loss of one output expects.

    shape: of one target, without the batch dimension; for ``"classes"`` () or one label per position, e.g. (time,).
    kind: ``"classes"``: integers 0..classes-1; ``"one_hot"``: a distribution over ``axis``; ``"binary"``: numbers
        from 0 to 1; ``"values"``: any finite numbers.
    classes: the number of classes of the output, for ``"classes"``.
    loss: the loss's name, for messages.
    axis: the class axis of ``"one_hot"``, as an axis of [batch, ...].
    ignored_class: for ``"classes"``, a label outside 0..classes-1 that is allowed and excluded from the loss.
    loss_bounds: bounds of the values that the loss is made for.
    layer: the layer that gives the output, with its place in the text, for messages.
    activation: what the output ends with, for messages; bounds: of its values.
    max_classes: how many classes numbered targets may stand for; see `Loss.max_classes`.
    """

    shape: Shape
    kind: Literal["classes", "one_hot", "binary", "values"] = "values"
    classes: int | None = None
    loss: str = "the loss"
    axis: int = -1
    ignored_class: int | None = None
    loss_bounds: tuple[float, float] = (-math.inf, math.inf)
    layer: str = ""
    activation: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    max_classes: float = math.inf


@dataclass(frozen=True)
class IndexRange:
    """The valid values of a column of table indices: integers 0..count-1, for the layer of this name."""

    count: int
    layer: str

    def is_out_of_range(self, values: np.ndarray) -> np.ndarray:
        """True where a value is out of range; NaN is out of range."""
        return ~((values > -1) & (values < self.count))


@dataclass(frozen=True)
class LearnedOutput:
    """An output that a loss is taken at. column: the data column that the loss names; span: the place of that name."""

    output: str
    column: str | None = None
    span: Span | None = None


@dataclass(frozen=True)
class ModelSignature:
    """What a model expects of data.

    inputs: input -> shape without the batch dimension, None for a dimension of any size; dtypes: of each input.
    outputs: the names of targets that are given as arrays, in order.
    learned: the outputs with a loss; empty where nothing is learned (predict).
    indices: inputs that a layer uses as table indices -> their valid values.
    preprocessed: the input that ``preprocess`` and ``augment`` layers are applied to; None without such layers.
    preprocess: spec of a batch of raw samples -> spec of the preprocessed ones; raises ShapeError with its place.
    preprocess_span: the place of the last preprocess layer.
    targets: the data set, input specs of a batch of one sample, outputs whose target is an input -> the target of each
        other learned output. widen: input specs, targets -> the targets with None for sizes that follow open ones of
        the inputs.
    text_names: the inputs that are texts. texts: gives them with their tokenizers; raises UsageError where these are
        declared wrongly. text_kind: gives the kind of a text file by what the model predicts.
    data: the data block that the model was trained on, or is to be trained on. resizes_images, converts_color: whether
        preprocessing takes images of any size, and of any colour mode. cover_size: height and width that images of
        another aspect ratio are cropped to instead of being stretched, where preprocessing keeps the aspect ratio.
    has_channels_last: whether images have their channels last in the first input; image files are read with them first.
    table: the columns of tables that the model was trained on.
    seed: decides what is drawn. limits: on files that the model's own blocks name.
    """

    inputs: Mapping[str, Shape]
    dtypes: Mapping[str, str]
    outputs: tuple[str, ...]
    learned: tuple[LearnedOutput, ...]
    indices: Mapping[str, IndexRange]
    preprocessed: str | None
    preprocess: Callable[[Spec], Spec]
    preprocess_span: Span | None
    targets: Callable[[Dataset, Mapping[str, Spec], Mapping[str, str]], Mapping[str, TargetSpec]]
    widen: Callable[[Mapping[str, Spec], Mapping[str, TargetSpec]], Mapping[str, TargetSpec]]
    text_names: tuple[str, ...]
    texts: Callable[[], tuple[TextInput, ...]]
    text_kind: Callable[[], TextKind | None]
    cover_size: tuple[int, int] | None = None
    resizes_images: bool = False
    converts_color: bool = False
    has_channels_last: bool = False
    data: Data | None = None
    table: TableColumns = field(default_factory=TableColumns)
    seed: int = 0
    limits: ReadLimits | None = None

    @cached_property
    def without_targets(self) -> ModelSignature:
        """What the model expects for a prediction."""
        return replace(self, learned=()) if self.learned else self

    @property
    def input_shape(self) -> Shape | None:
        """The shape of the first input; None for a model without inputs."""
        return next(iter(self.inputs.values()), None)

    @property
    def image_shape(self) -> Shape | None:
        """`input_shape` as images are read, with the channels first."""
        shape = self.input_shape
        return (shape[2], *shape[:2]) if shape is not None and len(shape) == 3 and self.has_channels_last else shape

    @property
    def has_open_sizes(self) -> bool:
        """Whether an input has a dimension of any size."""
        return any(None in shape for shape in self.inputs.values())
