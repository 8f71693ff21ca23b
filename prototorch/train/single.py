"""One batch at a time, as `Model.train_on_batch` and its likes take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from prototorch.data.batch import Batch, Place
from prototorch.data.binding import Bound, Target
from prototorch.data.checks import check_values
from prototorch.data.dataset import Arrays
from prototorch.train.feed import Feed
from prototorch.train.intake import Intake
from prototorch.train.loop import Trainer
from prototorch.train.program import PREDICT, TRAIN

MOST = 16  # kinds of batches that are remembered


class Kind(NamedTuple):
    """What is known of batches of some names, shapes and types: how they are bound, what their targets must be, and
    what feeds them."""

    bound: Bound
    targets: Mapping[str, Target]
    feed: Feed


class Singles:
    """Runs single batches. What the names, shapes and types of a batch tell is found out once; of the next ones of that
    kind the values alone are looked at."""

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self._kinds: dict[Any, Kind] = {}

    def run(self, phase: str, intake: Intake, data: Arrays,
            class_weight: Mapping[int, float] | None = None) -> dict[str, Any]:  # fmt: skip
        """One step on these samples; the outputs are the plan's memory, good until the next step.

        Raises DataError for what does not fit the model, TrainingError as `Trainer.run` does.
        """
        trainer = self.trainer
        kind = self._kind(phase, intake, data)
        held = kind.bound.over(data)
        check_values(held, kind.targets)
        feed = kind.feed
        if class_weight:
            feed = Feed(trainer.program, held, trainer.preparation, phase == TRAIN, class_weight)
        place = Place(trainer.program.seed, trainer.step if phase == TRAIN else 0, 0, np.arange(len(held)))
        columns = held.whole()
        if trainer.preparation.needed and not feed.on_device:
            columns = feed.transform(columns, place)
        feed.data = held
        if phase != PREDICT:
            trainer.program.reset(phase)
        try:
            outputs = trainer.run(phase, feed, Batch(columns, place), len(held))
            trainer.settle()
        finally:
            feed.data = kind.bound  # nobody's samples are kept
        return outputs

    def _kind(self, phase: str, intake: Intake, data: Arrays) -> Kind:
        key = phase, len(data), data.inputs, data.targets, data.weight, tuple(data.columns.items())
        found = self._kinds.get(key)
        if found is None:
            held = intake.bound(data, phase != PREDICT, warn=False)
            empty = held.over(data.emptied())
            feed = Feed(self.trainer.program, empty, self.trainer.preparation, phase == TRAIN)
            found = Kind(empty, intake.targets(held) if phase != PREDICT else {}, feed)
            if len(self._kinds) >= MOST:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[key] = found
        return found
