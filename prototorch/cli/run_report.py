"""What `prototorch run` reports of the model that it saved: an evaluation of the file, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prototorch.data.loader import Loader
from prototorch.model.model import Model
from prototorch.train.builtin_callbacks import History
from prototorch.train.progress import format_logs

__all__ = ["RunReport", "evaluate_saved"]


@dataclass(frozen=True)
class RunReport:
    """The report of a run.

    evaluation: loss and metrics of the saved file over the validation data, or the training data where
        ``has_validation`` is false. training: loss and metrics that were logged for the epoch of the saved weights.
    epochs, epochs_planned: numbers of epochs; weights_epoch: the epoch of the saved weights, counted from 1.
    stop_reason: why the training ended early, or None. callbacks: a line of each callback that monitors a value.
    environment: the device, and the precision that it computes in ("fp32", "tf32", "bf16", ...).
    samples, skipped: numbers of samples by use ("training", "validation").
    """

    model: Path
    evaluation: Mapping[str, Any]
    training: Mapping[str, Any]
    has_validation: bool
    epochs: int
    epochs_planned: int
    weights_epoch: int | None
    stop_reason: str | None
    callbacks: tuple[str, ...]
    environment: Mapping[str, str]
    samples: Mapping[str, int]
    skipped: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The content of ``result.json``."""
        values = {name: value for name, value in vars(self).items() if name not in ("model", "has_validation")}
        return {"model": self.model.name, "evaluated_on": self.evaluated_on, **values}

    @property
    def evaluated_on(self) -> str:
        """Which samples the file was evaluated on: "validation" or "training"."""
        return "validation" if self.has_validation else "training"

    def lines(self) -> list[str]:
        """The report as text."""
        lines = []
        if self.stop_reason is not None:
            lines.append(f"stopped after epoch {self.epochs} of {self.epochs_planned}: {self.stop_reason}")
        lines += self.callbacks
        epoch = f", epoch {self.weights_epoch}" if self.weights_epoch is not None else ""
        training = format_logs(self.training)
        lines.append(f"trained on {self._count('training')}{epoch}{': ' if training else ''}{training}")
        count = self._count(self.evaluated_on)
        lines.append(f"evaluated {self.model.name} on {count}: {format_logs(self.evaluation)}")
        return lines

    def _count(self, use: str) -> str:
        skipped = self.skipped.get(use, 0)
        count = f"{self.samples[use] - skipped:,} {use} samples" if use in self.samples else f"the {use} data"
        return count + (f" ({skipped:,} could not be read)" if skipped else "")


def evaluate_saved(model: Model, path: Path, history: History) -> RunReport:
    """Read the weights of the saved file back into the trained model, evaluate it, and report.

    Raises ModelFileError for a file that cannot be read back, and as `Model.evaluate`.
    """
    trainer, block = model.trainer, model.fit_block
    assert block is not None
    loaders = {"training": trainer.loader, "validation": trainer.validation_loader}
    counts = {use: len(loader.dataset) for use, loader in loaders.items() if isinstance(loader, Loader)}
    skipped = dict(trainer.skipped_samples)
    model.load_weights(path)
    evaluation = model.evaluate(return_dict=True)
    row = history.epoch.index(history.weights_epoch) if history.weights_epoch in history.epoch else None
    logged = {} if row is None else {k: v[row] for k, v in history.history.items() if len(v) == len(history.epoch)}
    rates = trainer.rate_logs()
    training = {k: v for k, v in logged.items() if not k.startswith("val_") and k not in rates}
    return RunReport(
        model=path,
        evaluation=evaluation,
        training=training,
        has_validation=trainer.validation_loader is not None,
        epochs=len(history.epoch),
        epochs_planned=block.epochs,
        weights_epoch=None if history.weights_epoch is None else history.weights_epoch + 1,
        stop_reason=history.stop_reason,
        callbacks=tuple(line for callback in block.callbacks if (line := callback.report()) is not None),
        environment={"device": trainer.plan_cache.backend.name, "precision": trainer.plan_cache.backend.precision.name},
        samples=counts,
        skipped=skipped,
    )
