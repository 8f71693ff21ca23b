"""Steps on single batches, for `Model.train_on_batch`, `test_on_batch` and `predict_on_batch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from prototorch.data.batch import Batch, BatchContext
from prototorch.data.binding import BoundDataset
from prototorch.data.checks import check_values
from prototorch.data.dataset import ArrayDataset
from prototorch.data.pipeline.bound import BoundColumns
from prototorch.data.pipeline.signature import TargetSpec
from prototorch.errors import UsageError
from prototorch.optimizers.schedules.base import Schedule
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.step_inputs import PREDICT, TRAIN
from prototorch.train.trainer import Trainer

__all__ = ["OnBatchRunner"]

MAX_CACHED_BINDINGS = 16


class BatchBinding(NamedTuple):
    """How batches of one phase with the same names, shapes and dtypes are bound and fed; without samples."""

    dataset: BoundDataset
    targets: Mapping[str, TargetSpec]
    feeder: BatchFeeder


class OnBatchRunner:
    """Runs single batches. A binding is made once for batches of the same names, shapes and dtypes; of further ones
    only the values are checked."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._bindings: dict[Any, BatchBinding] = {}

    def is_bound(self, phase: str, data: ArrayDataset) -> bool:
        """Whether there is a binding for batches like this one."""
        return _binding_key(phase, data) in self._bindings

    def bound_dataset(self, phase: str, data: ArrayDataset) -> BoundDataset:
        """The samples as they are fed; there must be a binding for them."""
        return self._bindings[_binding_key(phase, data)].dataset.rebind(data)

    def bind(self, phase: str, data: ArrayDataset, binding: BoundColumns) -> None:
        """Remember how batches like this one are bound, and forget the oldest binding where there are too many."""
        trainer, empty = self.trainer, binding.dataset.rebind(data.without_samples())
        feeder = BatchFeeder(
            trainer.plan_cache, empty, trainer.preprocessor, phase == TRAIN, has_loader=phase != PREDICT
        )
        if len(self._bindings) >= MAX_CACHED_BINDINGS:
            del self._bindings[next(iter(self._bindings))]
        self._bindings[_binding_key(phase, data)] = BatchBinding(empty, binding.targets, feeder)

    def run(self, phase: str, data: ArrayDataset, class_weight: Mapping[int, float] | None = None) -> dict[str, Any]:
        """One step on a batch that is bound; the outputs are the plan's memory, valid until the next step.

        Raises DataError for values that do not fit the model, TrainingError as `Trainer.run_step` does.
        """
        trainer = self.trainer
        if phase == TRAIN:
            _check_unit(trainer)
        binding = self._bindings[_binding_key(phase, data)]
        dataset, feeder = binding.dataset.rebind(data), binding.feeder
        check_values(dataset, binding.targets)
        if class_weight:
            feeder = BatchFeeder(trainer.plan_cache, dataset, trainer.preprocessor, phase == TRAIN, class_weight)
        rows = np.arange(len(dataset))
        context = BatchContext(trainer.plan_cache.seed, trainer.step if phase == TRAIN else 0, 0, rows)
        columns = dataset.arrays_in_memory()
        if trainer.preprocessor.has_layers and not feeder.preprocesses_on_device:
            columns = feeder.preprocess(columns, context)
        feeder.data = dataset
        if phase != PREDICT:
            trainer.plan_cache.metrics.reset(phase)
        try:
            outputs = trainer.run_step(phase, feeder, Batch(columns, context), len(dataset))
            trainer.synchronize()
        finally:
            feeder.data = binding.dataset  # the samples are released
        return outputs


def _check_unit(trainer: Trainer) -> None:
    """Raise UsageError for a schedule that counts epochs, of which single batches have none."""
    for group in trainer.plan_cache.update_rules.groups:
        rate = group.optimizer.learning_rate
        if isinstance(rate, Schedule) and rate.unit == "epochs" and group.name not in trainer.rate_overrides:
            raise UsageError(
                f"{type(rate).__name__} has unit: epochs, and train_on_batch counts no epochs: give unit: steps, or "
                "set model.learning_rate before each step"
            )


def _binding_key(phase: str, data: ArrayDataset) -> Any:
    return phase, len(data), data.inputs, data.targets, data.weight, tuple(data.columns.items())
