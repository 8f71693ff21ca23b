"""From batches of columns to the inputs of a plan: shapes, targets, sample weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.backends.executor import Executor
from prototorch.data.batch import BatchContext
from prototorch.data.binding import BoundDataset, IndexRange, TargetSpec, bind
from prototorch.data.dataset import Columns, Dataset
from prototorch.errors import DataError, ShapeError, UsageError
from prototorch.graph.net import Net
from prototorch.spec import Spec
from prototorch.train.loss_terms import LossTerm
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor
from prototorch.train.step_inputs import PREDICT, SAMPLE_MASK, SAMPLE_WEIGHT_PREFIX, TARGET_PREFIX, TRAIN


def make_target(term: LossTerm, output: Spec) -> TargetSpec:
    """What a loss wants to be given at its output, which is of this spec, as the data room says it."""
    loss, spec = term.loss, term.target_spec(output)
    classes = output.shape[loss.class_axis] if loss.target_kind == "classes" else None
    return TargetSpec(
        spec.shape[1:], loss.target_kind, classes, type(loss).__name__, loss.class_axis, loss.ignored_class
    )


def bind_dataset(program: PlanCache, dataset: Dataset, preparation: Preprocessor, supervised: bool) -> BoundDataset:
    """The data set as the model sees it. Raises DataError where it does not fit."""
    inputs: dict[str, tuple[int | None, ...]] = {i.name: i.shape for i in program.net.inputs}
    if preparation.has_layers:
        column = preparation.name if preparation.name in dataset.inputs else (*dataset.inputs, "")[0]
        if column in dataset.columns:
            raw = dataset.columns[column]
            try:
                made = preparation.output_spec(Spec((1, *raw.shape), raw.dtype)).shape[1:]
            except ShapeError as exc:
                raise DataError(
                    f"{dataset.name}: a sample of shape {list(raw.shape)} cannot be prepared: {exc}"
                ) from exc
            wanted = inputs[preparation.name]
            if not _shape_matches(made, wanted):
                raise DataError(
                    f"{dataset.name}: a sample of shape {list(raw.shape)} has shape {list(made)} after preprocess, "
                    f"the input {preparation.name!r} wants {_format_shape(wanted)}; a Resizing or Reshape layer in "
                    "preprocess can mend it"
                )
            inputs[preparation.name] = raw.shape
    sizes = bind(dataset, inputs)
    targets = {}
    if supervised:
        specs = program.output_specs(input_specs(program.net, sizes, preparation, 1))
        own = input_targets(program, sizes)
        targets = {t.output: make_target(t, specs[t.output]) for t in program.loss_terms if t.output not in own}
    said = {t.output: t.target for t in program.loss_terms if t.target is not None}
    return bind(dataset, inputs, targets, said, index_inputs(program.net, preparation))


def index_inputs(net: Net, preparation: Preprocessor) -> dict[str, IndexRange]:
    """The inputs that a layer looks up in a table just as they are in the data."""
    prepared = preparation.name if preparation.has_layers else None
    return {name: IndexRange(count, layer) for name, (layer, count) in net.index_inputs().items() if name != prepared}


def input_targets(program: PlanCache, data: BoundDataset) -> dict[str, str]:
    """Outputs that learn one of the inputs, as it is after preparation: output -> input column."""
    return {t.output: t.target for t in program.loss_terms if t.target is not None and t.target in data.inputs}


def input_specs(net: Net, data: BoundDataset, preparation: Preprocessor, batch: int) -> dict[str, Spec]:
    """The specs of the net's inputs for a batch of this size."""
    specs = {}
    for node in net.inputs:
        column = data.columns[data.input_columns[node.name]]
        raw = Spec((batch, *column.shape), column.dtype)
        if preparation.has_layers and node.name == preparation.name:
            raw = preparation.output_spec(raw)
        specs[node.name] = Spec(raw.shape, node.dtype)
    return specs


MAX_PADDING_RATIO = 4  # a training step on less than this part of a batch is not filled up: it would cost too much more


class BatchFeeder:
    """Knows how the columns of one bound data set feed one program. ``whole``: the samples of most batches, where
    others may have fewer; a backend whose kernels are made for one size then gets these filled up."""

    def __init__(self, program: PlanCache, data: BoundDataset, preparation: Preprocessor, training: bool,
                 class_weight: Mapping[int, float] | None = None, whole: int = 0):  # fmt: skip
        self.plan_cache, self.data, self.preprocessor, self.training = program, data, preparation, training
        self.class_weight = check_class_weights(program, {} if class_weight is None else class_weight)
        self._specs: dict[int, dict[str, Spec]] = {}
        self._executors: dict[tuple[str, int], Executor] = {}
        self._unit_weights: dict[int, np.ndarray] = {}
        self._input_targets = input_targets(program, data) if program.loss_terms else {}
        self._target_columns = {**data.target_columns, **self._input_targets}
        #: whether the step prepares its input itself, on a device, from what is in the data
        self.preprocesses_on_device = self._can_preprocess_on_device()
        self.full_batch = whole if program.backend.is_shape_specialized and not self.preprocesses_on_device else 0

    def _can_preprocess_on_device(self) -> bool:
        backend, preparation = self.plan_cache.backend, self.preprocessor
        if not backend.preprocesses_in_step or not preparation.has_layers:
            return False
        if self.data.input_columns[preparation.name] in self._target_columns.values():
            return False  # the target is the prepared input
        return preparation.is_supported(backend, self._raw_spec(1), self.training)

    def preprocess(self, columns: Columns, place: BatchContext) -> Columns:
        """For the loader: the input column prepared by the model's own layers."""
        name = self.data.input_columns[self.preprocessor.name]
        return {**columns, name: self.preprocessor(columns[name], self.training, lambda: place.key)}

    def preprocess_bytes(self, batch: int) -> int:
        """About how many bytes the transform of a batch of this size moves."""
        return self.preprocessor.bytes_moved(self._raw_spec(batch), self.training)

    def _raw_spec(self, batch: int) -> Spec:
        column = self.data.columns[self.data.input_columns[self.preprocessor.name]]
        return Spec((batch, *column.shape), column.dtype)

    def plan_batch_size(self, phase: str, count: int) -> int:
        """The batch size of the plan that so many samples go through; they are filled up where it is larger."""
        few = phase == TRAIN and count * MAX_PADDING_RATIO < self.full_batch
        return count if few or count > self.full_batch or not self._pads(phase) else self.full_batch

    def _pads(self, phase: str) -> bool:
        return self.full_batch > 1 and self.plan_cache.can_pad(phase, self.specs(self.full_batch))

    def pad(self, phase: str, count: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a step on so many samples as its plan takes them: filled up with the last sample, which does
        not count where it is repeated."""
        size, fed = self.plan_batch_size(phase, count), dict(inputs)
        if phase != PREDICT and size == self.full_batch and self._pads(phase):
            fed[SAMPLE_MASK] = (np.arange(size) < count).astype(np.float32)
        if size == count:
            return fed
        own = {node.name for node in self.plan_cache.net.inputs}
        for name in fed:
            if name in own or name.startswith(TARGET_PREFIX):
                fed[name] = _pad_with_last(fed[name], size)
            elif name.startswith(SAMPLE_WEIGHT_PREFIX):
                fed[name] = np.concatenate([fed[name], np.zeros(size - count, np.float32)])
        return fed

    def executor(self, phase: str, batch: int) -> Executor | None:
        """The bound plan of a phase for batches of this size, where it has been prepared."""
        return self._executors.get((phase, batch))

    def prepare_executor(self, phase: str, batch: int) -> Executor:
        """The bound plan of a phase for batches of this size. Raises ResourceError where it would not fit in memory."""
        preparation = self.preprocessor if self.preprocesses_on_device else None
        size = self.plan_batch_size(phase, batch)
        made = self._executors.get((phase, size))
        if made is None:
            counted = size == self.full_batch and self._pads(phase)
            made = self._executors[phase, size] = self.plan_cache.executor(
                phase, self.fed_specs(size), preparation, counted
            )
        self._executors[phase, batch] = made
        if self.preprocessor.has_layers and not self.preprocesses_on_device:
            self.preprocessor.prepare(self._raw_spec(batch), self.training)
        return made

    def specs(self, batch: int) -> dict[str, Spec]:
        """The specs of the net's inputs for a batch of this size."""
        if batch not in self._specs:
            self._specs[batch] = input_specs(self.plan_cache.net, self.data, self.preprocessor, batch)
        return self._specs[batch]

    def fed_specs(self, batch: int) -> dict[str, Spec]:
        """The specs of what is fed for a batch of this size: those of the net's inputs, or of what they are made of."""
        return (
            {**self.specs(batch), self.preprocessor.name: self._raw_spec(batch)}
            if self.preprocesses_on_device
            else self.specs(batch)
        )

    def inputs(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The net's inputs of a batch."""
        return {name: columns[column] for name, column in self.data.input_columns.items()}

    def targets_and_weights(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Targets and sample weights of a batch."""
        fed: dict[str, Any] = {}
        for output, column in self._target_columns.items():
            target = columns[column]
            if output in self._input_targets:
                target = self._as_target(output, target)
            fed[TARGET_PREFIX + output], fed[SAMPLE_WEIGHT_PREFIX + output] = (
                target,
                self._sample_weights(target, columns),
            )
        return fed

    def _sample_weights(self, target: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        ones = self._unit_weights.get(len(target))
        if ones is None:
            ones = self._unit_weights[len(target)] = np.ones(len(target), np.float32)
        if self.class_weight:
            ones = ones * sample_class_weights(target, self.class_weight)
        if self.data.weight is not None:
            ones = ones * columns[self.data.weight].astype(np.float32).reshape(-1)
        return ones

    def _as_target(self, output: str, array: np.ndarray) -> np.ndarray:
        """An input as the target of an output; DataError where it has another number of elements."""
        term = next(t for t in self.plan_cache.loss_terms if t.output == output)
        wanted = term.target_spec(self.plan_cache.output_specs(self.specs(len(array)))[output])
        if array.size != wanted.size:
            raise DataError(
                f"{self.data.name}: a sample has shape {list(array.shape[1:])} after preparation, the output "
                f"{output!r} that learns it has {list(wanted.shape[1:])}"
            )
        return array.reshape(wanted.shape)


def _pad_with_last(array: np.ndarray, size: int) -> np.ndarray:
    """An array [n, ...] with its last row repeated: [size, ...]."""
    return np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])


def check_class_weights(program: PlanCache, weights: Mapping[int, float]) -> dict[int, float]:
    """Class weights that make sense. Raises UsageError for more outputs than one, or where there are no classes."""
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"class_weight is a dict of a number for each class number, {{0: 1.0, 1: 5.0}}, not {weights!r}"
        )
    if not weights:
        return {}
    if len(program.loss_terms) != 1:
        raise UsageError("class_weight is for models with one loss; sample_weight can weigh the samples of any model")
    loss = program.loss_terms[0].loss
    if loss.target_kind == "values":
        raise UsageError(f"class_weight: the targets of {type(loss).__name__} are no classes")
    found = {}
    for label, weight in weights.items():
        whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, complex | np.complexfloating)
        if not whole or not number or not 0 <= weight < float("inf"):
            raise UsageError(f"class_weight is a number for each class number, not {label!r}: {weight!r}")
        found[int(label)] = float(weight)
    return found


def sample_class_weights(target: np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """A weight for each sample by its class: labels [n] or [n, 1], or one-hot rows."""
    labels = target.argmax(-1) if target.ndim > 1 and target.shape[-1] > 1 else target.reshape(len(target))
    found = np.ones(len(labels), np.float32)
    for label, weight in weights.items():
        found[labels == int(label)] = weight
    return found


def _shape_matches(have: tuple[int, ...], want: tuple[int | None, ...]) -> bool:
    return len(have) == len(want) and all(w is None or w == n for n, w in zip(have, want, strict=True))


def _format_shape(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
