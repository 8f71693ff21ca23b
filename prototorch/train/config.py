"""The ``compile`` and ``fit`` blocks of a model file: the arguments of `Model.compile` and `Model.fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from prototorch.data import pipeline
from prototorch.data.data_block import Data
from prototorch.engine.backends.precision import MODEL_PRECISIONS
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.optimizers import Optimizer
from prototorch.schema import Block, Choice, FieldType, Identifier, example, field
from prototorch.schema.block_source import find_span, set_source
from prototorch.schema.call_schema import class_schema
from prototorch.schema.family import NestedBlock, NestedBlockList
from prototorch.schema.patterns import Pattern
from prototorch.schema.types import ListOf, Optional
from prototorch.schema.validation import ValidationError
from prototorch.text.call_schema import SchemaSource
from prototorch.text.case_conversion import snake_case
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Body, ListValue, Value, Word
from prototorch.train.callbacks import Callback
from prototorch.train.class_weight_field import ClassWeights
from prototorch.train.device_field import DeviceField
from prototorch.train.optimizer_blocks import OptimizersField, WeightOptimizer
from prototorch.train.step_blocks import Training

if TYPE_CHECKING:
    from prototorch.data.pipeline.columns import Columns
    from prototorch.data.pipeline.source import FitSources


class OutputLoss(Block):
    """A loss at one output: ``loss { output: "score"  type: mse  weight: 0.3 }``."""

    display_name = "loss"

    type: Loss = field(doc="The loss.")
    output: str | None = field(
        default=None, doc="The output of the net, or of any layer, that it is taken at; the only one if not given."
    )
    weight: float = field(default=1.0, doc="Its factor in the total.")
    target: str | None = field(default=None, doc="The data column it is compared with; the n-th for the n-th loss.")
    name: str | None = field(
        default=None, type=Identifier(), doc="Its name in the logs; that of the output with _loss if not given."
    )

    examples = [
        example("loss: sparse_categorical_crossentropy { from_logits: true }"),
        example('loss { output: "score"  type: mse  weight: 0.3 }'),
        example('loss { type: mse  target: "image" }'),
        example('loss { name: "raised"  output: "score"  type: mean  weight: -1 }'),
    ]


class OutputMetric(Block):
    """A metric at one output: ``metrics { output: "score"  type: mse }``.

    The word ``accuracy`` (or ``acc``) means what the loss at the output says: of class numbers, of one-hot rows, or of
    yes and no; likewise ``crossentropy`` (``ce``).
    """

    display_name = "metrics"

    type: Metric | Literal["accuracy", "acc", "crossentropy", "ce"] = field(doc="The metric.")
    output: str | None = field(default=None, doc="The output it is taken at; every one that has a loss if left out.")

    examples = [
        example("metrics: [mse, TopKCategoricalAccuracy { k: 3 }]"),
        example('metrics { output: "score"  type: mae }'),
    ]


MAX_TERMS = 1000  # losses, or metrics, that a text declares


class _PerOutput(FieldType):
    """A list of losses or metrics, each bare or in a block that names its output."""

    repeatable = True

    def __init__(self, block: Any):
        self.block = block

    def describe(self) -> str:
        return self._inner().describe()

    def label(self) -> str:
        return f"list of {self._inner().label()}"

    def _inner(self) -> FieldType:
        return self.block.specs()["type"].type

    def convert(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, dict):  # Keras: {output: loss}
            return tuple(self._at(v, k) for k, vs in value.items() for v in _as_list(vs))
        return tuple(self._at(v, None) for v in _as_list(value))

    def _at(self, value: Any, output: str | None) -> Any:
        if isinstance(value, self.block):
            return value
        return self._with_short_name(self.block(type=self._inner().convert(value), output=output), value)

    def _with_short_name(self, item: Any, word: Any) -> Any:
        """A metric that is declared by a short name ("mse") has that name in the logs, as in Keras."""
        metric = item.type
        if not isinstance(word, str) or not isinstance(metric, Metric) or word == metric.name:
            return item
        class_name = type(metric).__name__
        is_short = word not in (class_name, snake_case(class_name))
        return item.replace(type=metric.replace(name=word)) if is_short else item

    def read(self, value: Value, report: Report) -> tuple[Any, ...]:
        blocks = []
        items = value.items if isinstance(value, ListValue) else (value,)
        if len(items) > MAX_TERMS:  # each becomes a part of the step's graph
            raise ValidationError(f"must have at most {MAX_TERMS:,} items, and has {len(items):,}", right_kind=True)
        for item in items:
            if isinstance(item, Body):
                one = NestedBlock(self.block).read(item, report)
                word = next((f.value for f in item.fields if f.name == "type"), None)
                blocks.append(one if one is None else self._with_short_name(one, _word_of(word)))
                continue
            try:
                one = self.block(type=self._inner().read(item, report))
                set_source(one, item.span, {})
                blocks.append(self._with_short_name(one, _word_of(item)))
            except ValidationError as error:
                error.span = error.span or item.span
                raise
        return tuple(blocks)

    def write(self, value: Any) -> Value:
        return ListValue(
            tuple(
                Body(tuple(v.to_fields()))
                if len(v.to_fields()) > 1
                else _short_name(v.type) or self._inner().write(v.type)
                for v in value
            )
        )


def _word_of(value: Any) -> str | None:
    """The bare word or string of a value in a text, None for any other value."""
    text = getattr(value, "text", getattr(value, "value", None))
    return text if isinstance(text, str) else None


def _short_name(metric: Any) -> Value | None:
    """A metric whose name is one of its short names, as that word."""
    if not isinstance(metric, Metric) or Metric.family_registry is None:
        return None
    name = vars(metric)["name"]
    short = Metric.family_registry.find(name) is type(metric) and [f.name for f in metric.to_fields()] == ["name"]
    return Word(name) if short else None


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


class DecayFactor(Block):
    """A factor on the weight decay of some layers: ``decay_mult { layers: "**/bias"  factor: 0 }``.

    It multiplies the ``decay_mult`` that the layer has itself, and with it the optimizer's ``weight_decay``, ``l1`` and
    ``l2``. Of several blocks the last that matches counts.
    """

    display_name = "decay_mult"

    layers: tuple[str, ...] = field(type=ListOf(Pattern()), doc="Patterns of the layers or weights.")
    factor: float = field(min=0, doc="The factor; with 0 nothing decays.")

    examples = [example('decay_mult { layers: ["**/bias", "**/gamma"]  factor: 0 }')]


class LearningRateFactor(Block):
    """A factor on the learning rate of some layers: ``lr_mult { layers: "stage4/**"  factor: 0.1 }``.

    It multiplies the ``lr_mult`` that the layer has itself. Of several blocks the last that matches counts.
    """

    display_name = "lr_mult"

    layers: tuple[str, ...] = field(type=ListOf(Pattern()), doc="Patterns of the layers or weights.")
    factor: float = field(min=0, doc="The factor; with 0 gradients are computed, and nothing changes.")

    examples = [example('lr_mult { layers: ["backbone/**", "!**/bias"]  factor: 0.1 }')]


class _FactorsByPattern(NestedBlockList):
    """A list of blocks; in Python also a dict of factors by pattern."""

    def convert(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, Mapping) and "factor" not in value:
            assert isinstance(self.inner, NestedBlock)
            value = [self.inner.block(layers=pattern, factor=factor) for pattern, factor in value.items()]
        return super().convert(value)


class Compile(Block):
    """How the model is trained: ``compile { loss optimizer metrics ... }``, the arguments of `Model.compile`."""

    display_name = "compile"

    loss: tuple[OutputLoss, ...] = field(default=(), type=_PerOutput(OutputLoss), doc="The loss, one for each output.")
    optimizer: Optimizer | tuple[WeightOptimizer, ...] = field(
        default="adam",
        type=OptimizersField(),
        doc="The optimiser; or several, optimizer { layers: ...  type: ... } for the weights of each.",
    )
    metrics: tuple[OutputMetric, ...] = field(default=(), type=_PerOutput(OutputMetric), doc="What is also measured.")
    weighted_metrics: tuple[OutputMetric, ...] = field(
        default=(), type=_PerOutput(OutputMetric), doc="What is also measured, with the samples' and classes' weights."
    )
    freeze: tuple[str, ...] = field(
        default=(),
        type=ListOf(Pattern()),
        doc="Patterns of the layers (or weights) that are not trained; their normalization uses its moving statistics. "
        'The last pattern that matches decides, and "!logits" takes out again.',
    )
    lr_mult: tuple[LearningRateFactor, ...] = field(
        default=(),
        type=_FactorsByPattern(NestedBlock(LearningRateFactor)),
        doc="Factors on the learning rate of layers or weights, by patterns.",
    )
    decay_mult: tuple[DecayFactor, ...] = field(
        default=(),
        type=_FactorsByPattern(NestedBlock(DecayFactor)),
        doc="Factors on the weight decay of layers or weights, by patterns.",
    )
    train: Training | None = field(default=None, doc="Steps that alternate, each with losses and weights of its own.")
    device: str = field(
        default="auto",
        type=DeviceField(),
        doc='Where it runs: "cpu", "cuda" (an NVIDIA GPU), "cuda:1" (a GPU by its number, from 0), '
        '"auto": a GPU where one is.',
    )
    precision: str = field(
        default="auto",
        type=Choice(MODEL_PRECISIONS),
        doc='The arithmetic of a GPU: "fp32" (or "float32"), "tf32", "bf16" or "fp16"; "auto" is '
        'tf32. On the CPU it is float32 always; there "fp32" leaves out Winograd\'s '
        "convolutions, which are faster and round more (1e-5 of the largest).",
    )
    deterministic: bool = field(default=False, doc="Whether a GPU must give the same bits in every run.")
    autotune: bool = field(
        default=False,
        doc="Whether kernels are chosen by timing those that could do a step, once; the choices are kept on disk.",
    )
    memory: str = field(
        default="normal",
        type=Choice(("normal", "low")),
        doc='"low": a training step computes again, in its backward pass, what is cheap to compute '
        "instead of keeping it. The results are the same, bit for bit.",
    )
    seed: int = field(default=0, doc="Decides first weights, data order, dropout and augmentation.")
    threads: int | None = field(default=None, min=1, doc="Threads for the arithmetic; all cores where left out.")

    examples = [
        example("compile { loss: mse  optimizer: sgd  metrics: [mae] }"),
        example("compile { loss: hinge  optimizer: Adam { learning_rate: 1e-3 } }"),
        example('compile { loss: mse  freeze: ["**", "!logits"]  lr_mult { layers: "**/bias"  factor: 2 } }'),
        example('compile { loss: mse  optimizer: SGD { l2: 5e-4 }  decay_mult { layers: "**/bias"  factor: 0 } }'),
    ]


class Fit(Block):
    """What the model is trained on, and for how long: ``fit { data epochs ... }``, the arguments of `Model.fit`."""

    display_name = "fit"

    data: Data | None = field(default=None, doc="The training data.")
    validation: Data | None = field(default=None, doc="The validation data; else the data's own test part.")
    validation_split: float = field(default=0.0, min=0, below=1, doc="A share of the training data to validate on.")
    epochs: int = field(default=1, min=1, doc="How often the data are gone through.")
    batch_size: int = field(default=32, min=1, doc="Samples in one step.")
    steps_per_epoch: int | None = field(default=None, min=1, doc="Steps in an epoch; all the data where left out.")
    validation_steps: int | None = field(default=None, min=1, doc="Validation steps; all the data where left out.")
    validation_freq: int = field(default=1, min=1, doc="Validate after every n-th epoch.")
    shuffle: bool = field(default=True, doc="A new order in each epoch.")
    callbacks: tuple[Callback, ...] = field(default=(), doc="What happens between steps and epochs.")
    class_weight: str | tuple[float, ...] | None = field(
        default=None,
        type=Optional(ClassWeights()),
        doc="A factor in the loss for the samples of each class; balanced: the rarer the class, the larger.",
    )

    examples = [
        example('fit { data { source: "fashion-mnist-mini" }  epochs: 5  batch_size: 64 }'),
        example('fit { data { source: "photos" }  validation_split: 0.1  callbacks: EarlyStopping { patience: 3 } }'),
    ]


def fit_sources(block: Fit) -> FitSources:
    """The data that a fit block names."""
    return pipeline.FitSources(
        block.data, block.validation, block.validation_split, find_span(block, "validation_split")
    )


def record_class_names(block: Fit | None, columns: Columns) -> Fit | None:
    """The fit block with the names of the classes and columns of its data, so that a saved model has them.

    columns: those that were opened for `Model.fit`.
    """
    source, dataset = columns.block, columns.dataset
    if source is None or source.pairs or len(dataset.targets) != 1:
        return block
    changes: dict[str, Any] = {}
    if names := dataset.classes.get(dataset.targets[0]):
        changes["classes"] = list(names)
    if dataset.table_columns.features:
        changes["features"] = list(dataset.table_columns.features)
        changes["label"] = list(dataset.table_columns.labels)
    return (block or Fit()).replace(data=source.replace(**changes)) if changes else block


COMPILE_SCHEMA = SchemaSource(name="compile", find=lambda _: class_schema(Compile))
FIT_SCHEMA = SchemaSource(name="fit", find=lambda _: class_schema(Fit))
