"""From batches of columns to the inputs of a plan: shapes, targets, sample weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.data.batch import Place
from prototorch.data.binding import Bound, Indices, Target, bind
from prototorch.data.dataset import Columns, Dataset
from prototorch.engine.runner import Runner
from prototorch.errors import DataError, ShapeError, UsageError
from prototorch.graph.net import Net
from prototorch.spec import Spec
from prototorch.train.program import COUNTED, PREDICT, TARGET, TRAIN, WEIGHT, Program, Term
from prototorch.train.transform import Preparation


def target_of(term: Term, output: Spec) -> Target:
    """What a loss wants to be given at its output, which is of this spec, as the data room says it."""
    loss, spec = term.loss, term.target_spec(output)
    classes = output.shape[loss.class_axis] if loss.target_kind == "classes" else None
    return Target(spec.shape[1:], loss.target_kind, classes, type(loss).__name__, loss.class_axis, loss.ignored_class)


def bound(program: Program, dataset: Dataset, preparation: Preparation, supervised: bool) -> Bound:
    """The data set as the model sees it. Raises DataError where it does not fit."""
    inputs: dict[str, tuple[int | None, ...]] = {i.name: i.shape for i in program.net.inputs}
    if preparation.needed:
        column = preparation.name if preparation.name in dataset.inputs else (*dataset.inputs, "")[0]
        if column in dataset.columns:
            raw = dataset.columns[column]
            try:
                made = preparation.spec(Spec((1, *raw.shape), raw.dtype)).shape[1:]
            except ShapeError as exc:
                raise DataError(
                    f"{dataset.name}: a sample of shape {list(raw.shape)} cannot be prepared: {exc}"
                ) from exc
            wanted = inputs[preparation.name]
            if not _fits(made, wanted):
                raise DataError(
                    f"{dataset.name}: a sample of shape {list(raw.shape)} has shape {list(made)} after preprocess, "
                    f"the input {preparation.name!r} wants {_text(wanted)}; a Resizing or Reshape layer in preprocess "
                    "can mend it"
                )
            inputs[preparation.name] = raw.shape
    sizes = bind(dataset, inputs)
    targets = {}
    if supervised:
        specs = program.output_specs(input_specs(program.net, sizes, preparation, 1))
        own = own_targets(program, sizes)
        targets = {t.output: target_of(t, specs[t.output]) for t in program.terms if t.output not in own}
    said = {t.output: t.target for t in program.terms if t.target is not None}
    return bind(dataset, inputs, targets, said, indices_of(program.net, preparation))


def indices_of(net: Net, preparation: Preparation) -> dict[str, Indices]:
    """The inputs that a layer looks up in a table just as they are in the data."""
    prepared = preparation.name if preparation.needed else None
    return {name: Indices(count, layer) for name, (layer, count) in net.indexed().items() if name != prepared}


def own_targets(program: Program, data: Bound) -> dict[str, str]:
    """Outputs that learn one of the inputs, as it is after preparation: output -> input column."""
    return {t.output: t.target for t in program.terms if t.target is not None and t.target in data.inputs}


def input_specs(net: Net, data: Bound, preparation: Preparation, batch: int) -> dict[str, Spec]:
    """The specs of the net's inputs for a batch of this size."""
    specs = {}
    for node in net.inputs:
        column = data.columns[data.input_of[node.name]]
        raw = Spec((batch, *column.shape), column.dtype)
        if preparation.needed and node.name == preparation.name:
            raw = preparation.spec(raw)
        specs[node.name] = Spec(raw.shape, node.dtype)
    return specs


FEWEST = 4  # a training step on less than this part of a batch is not filled up: it would cost too much more


class Feed:
    """Knows how the columns of one bound data set feed one program. ``whole``: the samples of most batches, where
    others may have fewer; a backend whose kernels are made for one size then gets these filled up."""

    def __init__(self, program: Program, data: Bound, preparation: Preparation, training: bool,
                 class_weight: Mapping[int, float] | None = None, whole: int = 0):  # fmt: skip
        self.program, self.data, self.preparation, self.training = program, data, preparation, training
        self.class_weight = checked(program, {} if class_weight is None else class_weight)
        self._specs: dict[int, dict[str, Spec]] = {}
        self._runners: dict[tuple[str, int], Runner] = {}
        self._ones: dict[int, np.ndarray] = {}
        self._own = own_targets(program, data) if program.terms else {}
        self._learned = {**data.target_of, **self._own}
        #: whether the step prepares its input itself, on a device, from what is in the data
        self.on_device = self._may_prepare_there()
        self.whole = whole if program.backend.specialised and not self.on_device else 0

    def _may_prepare_there(self) -> bool:
        backend, preparation = self.program.backend, self.preparation
        if backend.device is None or not preparation.needed:
            return False
        if self.data.input_of[preparation.name] in self._learned.values():
            return False  # the target is the prepared input
        return preparation.accepted(backend, self._raw(1), self.training)

    def transform(self, columns: Columns, place: Place) -> Columns:
        """For the loader: the input column prepared by the model's own layers."""
        name = self.data.input_of[self.preparation.name]
        return {**columns, name: self.preparation(columns[name], self.training, lambda: place.key)}

    def work(self, batch: int) -> int:
        """About how many bytes the transform of a batch of this size moves."""
        return self.preparation.work(self._raw(batch), self.training)

    def _raw(self, batch: int) -> Spec:
        column = self.data.columns[self.data.input_of[self.preparation.name]]
        return Spec((batch, *column.shape), column.dtype)

    def size(self, phase: str, count: int) -> int:
        """The batch size of the plan that so many samples go through; they are filled up where it is larger."""
        few = phase == TRAIN and count * FEWEST < self.whole
        return count if few or count > self.whole or not self._filled(phase) else self.whole

    def _filled(self, phase: str) -> bool:
        return self.whole > 1 and self.program.fillable(phase, self.specs(self.whole))

    def filled(self, phase: str, count: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a step on so many samples as its plan takes them: filled up with the last sample, which does
        not count where it is repeated."""
        size, fed = self.size(phase, count), dict(inputs)
        if phase != PREDICT and size == self.whole and self._filled(phase):
            fed[COUNTED] = (np.arange(size) < count).astype(np.float32)
        if size == count:
            return fed
        own = {node.name for node in self.program.net.inputs}
        for name in fed:
            if name in own or name.startswith(TARGET):
                fed[name] = _repeated(fed[name], size)
            elif name.startswith(WEIGHT):
                fed[name] = np.concatenate([fed[name], np.zeros(size - count, np.float32)])
        return fed

    def runner(self, phase: str, batch: int) -> Runner | None:
        """The bound plan of a phase for batches of this size, where it has been prepared."""
        return self._runners.get((phase, batch))

    def prepared(self, phase: str, batch: int) -> Runner:
        """The bound plan of a phase for batches of this size. Raises ResourceError where it would not fit in memory."""
        preparation = self.preparation if self.on_device else None
        size = self.size(phase, batch)
        made = self._runners.get((phase, size))
        if made is None:
            counted = size == self.whole and self._filled(phase)
            made = self._runners[phase, size] = self.program.runner(phase, self.fed(size), preparation, counted)
        self._runners[phase, batch] = made
        if self.preparation.needed and not self.on_device:
            self.preparation.ready(self._raw(batch), self.training)
        return made

    def specs(self, batch: int) -> dict[str, Spec]:
        """The specs of the net's inputs for a batch of this size."""
        if batch not in self._specs:
            self._specs[batch] = input_specs(self.program.net, self.data, self.preparation, batch)
        return self._specs[batch]

    def fed(self, batch: int) -> dict[str, Spec]:
        """The specs of what is fed for a batch of this size: those of the net's inputs, or of what they are made of."""
        return {**self.specs(batch), self.preparation.name: self._raw(batch)} if self.on_device else self.specs(batch)

    def inputs(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The net's inputs of a batch."""
        return {name: columns[column] for name, column in self.data.input_of.items()}

    def supervision(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Targets and sample weights of a batch."""
        fed: dict[str, Any] = {}
        for output, column in self._learned.items():
            target = columns[column]
            if output in self._own:
                target = self._as_target(output, target)
            fed[TARGET + output], fed[WEIGHT + output] = target, self._weights(target, columns)
        return fed

    def _weights(self, target: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        ones = self._ones.get(len(target))
        if ones is None:
            ones = self._ones[len(target)] = np.ones(len(target), np.float32)
        if self.class_weight:
            ones = ones * class_weights(target, self.class_weight)
        if self.data.weight is not None:
            ones = ones * columns[self.data.weight].astype(np.float32).reshape(-1)
        return ones

    def _as_target(self, output: str, array: np.ndarray) -> np.ndarray:
        """An input as the target of an output; DataError where it has another number of elements."""
        term = next(t for t in self.program.terms if t.output == output)
        wanted = term.target_spec(self.program.output_specs(self.specs(len(array)))[output])
        if array.size != wanted.size:
            raise DataError(
                f"{self.data.name}: a sample has shape {list(array.shape[1:])} after preparation, the output "
                f"{output!r} that learns it has {list(wanted.shape[1:])}"
            )
        return array.reshape(wanted.shape)


def _repeated(array: np.ndarray, size: int) -> np.ndarray:
    """An array [n, ...] with its last row repeated: [size, ...]."""
    return np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])


def checked(program: Program, weights: Mapping[int, float]) -> dict[int, float]:
    """Class weights that make sense. Raises UsageError for more outputs than one, or where there are no classes."""
    if not isinstance(weights, Mapping):
        raise UsageError(
            f"class_weight is a dict of a number for each class number, {{0: 1.0, 1: 5.0}}, not {weights!r}"
        )
    if not weights:
        return {}
    if len(program.terms) != 1:
        raise UsageError("class_weight is for models with one loss; sample_weight can weigh the samples of any model")
    loss = program.terms[0].loss
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


def class_weights(target: np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """A weight for each sample by its class: labels [n] or [n, 1], or one-hot rows."""
    labels = target.argmax(-1) if target.ndim > 1 and target.shape[-1] > 1 else target.reshape(len(target))
    found = np.ones(len(labels), np.float32)
    for label, weight in weights.items():
        found[labels == int(label)] = weight
    return found


def _fits(have: tuple[int, ...], want: tuple[int | None, ...]) -> bool:
    return len(have) == len(want) and all(w is None or w == n for n, w in zip(have, want, strict=True))


def _text(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
