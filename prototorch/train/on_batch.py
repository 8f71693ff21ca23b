"""One batch at a time, as `Model.train_on_batch` and its likes take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from prototorch.data.batch import Batch, BatchContext
from prototorch.data.binding import BoundDataset, TargetSpec
from prototorch.data.checks import check_values
from prototorch.data.dataset import ArrayDataset
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.data_adapter import DataAdapter
from prototorch.train.step_inputs import PREDICT, TRAIN
from prototorch.train.trainer import Trainer

MAX_CACHED_BINDINGS = 16  # kinds of batches that are remembered


class BatchBinding(NamedTuple):
    """What is known of batches of some names, shapes and types: how they are bound, what their targets must be, and
    what feeds them."""

    dataset: BoundDataset
    targets: Mapping[str, TargetSpec]
    feed: BatchFeeder


class OnBatchRunner:
    """Runs single batches. What the names, shapes and types of a batch tell is found out once; of the next ones of that
    kind the values alone are looked at."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._bindings: dict[Any, BatchBinding] = {}

    def run(self, phase: str, intake: DataAdapter, data: ArrayDataset,
            class_weight: Mapping[int, float] | None = None) -> dict[str, Any]:  # fmt: skip
        """One step on these samples; the outputs are the plan's memory, good until the next step.

        Raises DataError for what does not fit the model, TrainingError as `Trainer.run_step` does.
        """
        trainer = self.trainer
        kind = self._bind(phase, intake, data)
        held = kind.dataset.rebind(data)
        check_values(held, kind.targets)
        feed = kind.feed
        if class_weight:
            feed = BatchFeeder(trainer.plan_cache, held, trainer.preprocessor, phase == TRAIN, class_weight)
        place = BatchContext(trainer.plan_cache.seed, trainer.step if phase == TRAIN else 0, 0, np.arange(len(held)))
        columns = held.arrays_in_memory()
        if trainer.preprocessor.has_layers and not feed.preprocesses_on_device:
            columns = feed.preprocess(columns, place)
        feed.data = held
        if phase != PREDICT:
            trainer.plan_cache.metrics.reset(phase)
        try:
            outputs = trainer.run_step(phase, feed, Batch(columns, place), len(held))
            trainer.synchronize()
        finally:
            feed.data = kind.dataset  # nobody's samples are kept
        return outputs

    def _bind(self, phase: str, intake: DataAdapter, data: ArrayDataset) -> BatchBinding:
        key = phase, len(data), data.inputs, data.targets, data.weight, tuple(data.columns.items())
        found = self._bindings.get(key)
        if found is None:
            held = intake.bind(data, phase != PREDICT, warn=False)
            empty = held.rebind(data.without_samples())
            feed = BatchFeeder(self.trainer.plan_cache, empty, self.trainer.preprocessor, phase == TRAIN)
            found = BatchBinding(empty, intake.make_targets(held) if phase != PREDICT else {}, feed)
            if len(self._bindings) >= MAX_CACHED_BINDINGS:
                del self._bindings[next(iter(self._bindings))]
            self._bindings[key] = found
        return found
