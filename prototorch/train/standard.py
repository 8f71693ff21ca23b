"""The callbacks that come with prototorch, by Keras' names and meanings."""

from __future__ import annotations

import csv
import math
from typing import Any, Literal

import numpy as np

from prototorch.errors import TrainingError, UsageError
from prototorch.schema import field
from prototorch.train.callbacks import Callback, Logs


class History(Callback):
    """What `fit` gives back: ``history`` maps each name to its values, one an epoch; ``epoch`` are the epochs' numbers."""

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)

    def state(self) -> dict[str, Any]:
        return {"epoch": list(self.epoch), "history": {k: list(v) for k, v in self.history.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch, self.history = list(state["epoch"]), {k: list(v) for k, v in state["history"].items()}

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


class _Monitor(Callback, abstract=True):
    """A callback that watches one of the logs."""

    monitor: str = field(default="val_loss", doc="Which of the logs is watched.")
    mode: Literal["auto", "min", "max"] = field(default="auto", doc="Whether less or more of it is better.")

    def watched(self, logs: Logs | None) -> float:
        """The watched value; UsageError where the logs do not have it."""
        try:
            return float((logs or {})[self.monitor])
        except KeyError:
            have = ", ".join(logs or {})
            raise UsageError(f"{type(self).__name__} watches {self.monitor!r}, but the logs have {have}") from None

    @property
    def sign(self) -> int:
        """-1 where less is better, else 1; "auto" knows accuracies, AUC, precision, recall and F1 as more-is-better."""
        if self.mode != "auto":
            return -1 if self.mode == "min" else 1
        more = ("acc", "auc", "precision", "recall", "f1", "fbeta", "top_k", "similarity")
        return 1 if any(word in self.monitor for word in more) else -1


class EarlyStopping(_Monitor):
    """Stop when the watched value has not become better for ``patience`` epochs, and give back the best weights."""

    min_delta: float = field(default=0.0, min=0, doc="How much better counts as better.")
    patience: int = field(default=0, min=0, doc="Epochs without improvement that are borne.")
    baseline: float | None = field(default=None, doc="A value that must be bettered first.")
    restore_best_weights: bool = field(default=True, doc="Whether the model ends with its best weights.")
    start_from_epoch: int = field(default=0, min=0, doc="Epochs that are let pass first.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not hasattr(self, "best"):
            self.best: float | None = self.baseline
            self.best_epoch, self.wait, self.best_weights = 0, 0, None
        self.stopped_epoch: int | None = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if epoch < self.start_from_epoch:
            return
        value = self.watched(logs)
        if self.best is None or self.sign * (value - self.best) > self.min_delta:
            self.best, self.best_epoch, self.wait = value, epoch, 0
            if self.restore_best_weights:
                self.best_weights = {k: np.array(v) for k, v in self.model.weights.items()}
            return
        self.wait += 1
        if self.wait > self.patience or (self.patience and self.wait >= self.patience):
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.restore_best_weights and self.best_weights is not None:
            self.model.set_weights(self.best_weights)

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "wait": self.wait,
                "best_weights": self.best_weights or {}}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.wait = state["best"], state["best_epoch"], state["wait"]
        self.best_weights = state["best_weights"] or None


class ModelCheckpoint(_Monitor):
    """Save the model after each epoch (or every n steps), or only when the watched value has become better.

    ``filepath`` may hold ``{epoch}`` (from 1) and the names of logs: ``"best-{epoch:02d}-{val_loss:.3f}.h5"``.
    """

    filepath: str = field(doc="Where to, with an ending of .h5.")
    save_best_only: bool = field(default=False, doc="Only when the watched value is the best so far.")
    save_weights_only: bool = field(default=False, doc="Only weights, without the training state.")
    save_freq: int | Literal["epoch"] = field(default="epoch", doc="After each epoch, or every n steps.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not hasattr(self, "best"):
            self.best: float | None = None
            self.steps = 0
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.steps += 1
        if self.save_freq != "epoch" and self.steps % self.save_freq == 0:
            self._save(self._epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: Logs | None) -> None:
        if self.save_best_only:
            value = self.watched(logs)
            if self.best is not None and self.sign * (value - self.best) <= 0:
                return
            self.best = value
        try:
            path = self.filepath.format(epoch=epoch + 1, **(logs or {}))
        except KeyError as missing:
            have = ", ".join(logs or {})
            raise UsageError(f"ModelCheckpoint.filepath names {missing}, but the logs have {have}") from None
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.steps = state["best"], state["steps"]


class ReduceLROnPlateau(_Monitor):
    """Multiply the learning rate by ``factor`` when the watched value has not become better for ``patience`` epochs."""

    factor: float = field(default=0.1, above=0, below=1, doc="What the learning rate is multiplied by.")
    patience: int = field(default=10, min=0, doc="Epochs without improvement that are borne.")
    min_delta: float = field(default=1e-4, min=0, doc="How much better counts as better.")
    cooldown: int = field(default=0, min=0, doc="Epochs to wait after a reduction.")
    min_lr: float = field(default=0.0, min=0, doc="The learning rate never falls below this.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not hasattr(self, "best"):
            self.best: float | None = None
            self.wait = self.cooling = 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.watched(logs)
        if self.cooling > 0:
            self.cooling, self.wait = self.cooling - 1, 0
        if self.best is None or self.sign * (value - self.best) > self.min_delta:
            self.best, self.wait = value, 0
        elif self.cooling == 0:
            self.wait += 1
            if self.wait >= self.patience:
                old = self.model.learning_rate
                if old > self.min_lr:
                    self.model.learning_rate = max(old * self.factor, self.min_lr)
                self.cooling, self.wait = self.cooldown, 0

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "wait": self.wait, "cooling": self.cooling}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.wait, self.cooling = state["best"], state["wait"], state["cooling"]


class LearningRateScheduler(Callback):
    """Before each epoch the learning rate becomes ``schedule(epoch, learning rate)``. Python only (a function)."""

    schedule: Any = field(doc="A function of the epoch (from 0) and the learning rate.")

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.model.learning_rate = float(self.schedule(epoch, self.model.learning_rate))


class CSVLogger(Callback):
    """Write each epoch's logs as a row of a CSV file."""

    filename: str = field(doc="The file.")
    separator: str = field(default=",", doc="What stands between two values.")
    append: bool = field(default=False, doc="Whether rows are added to a file that is there.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._columns: list[str] | None = getattr(self, "_columns", None)
        self._fresh = not self.append and self._columns is None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        first = self._columns is None
        if self._columns is None:
            self._columns = ["epoch", *logs]
        try:
            with open(self.filename, "w" if self._fresh else "a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, delimiter=self.separator)
                if first and file.tell() == 0:
                    writer.writerow(self._columns)
                writer.writerow([epoch, *(logs.get(name, "") for name in self._columns[1:])])
        except OSError as exc:
            raise UsageError(f"CSVLogger cannot write {self.filename}: {exc.strerror}") from exc
        self._fresh = False

    def state(self) -> dict[str, Any]:
        return {"columns": self._columns}

    def restore(self, state: dict[str, Any]) -> None:
        self._columns = state["columns"]


class TerminateOnNaN(Callback):
    """Stop with a TrainingError at the first step whose loss is not finite."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("batch_loss", (logs or {}).get("loss"))
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {batch + 1} of the epoch: the training has gone wrong there. "
                "Try a smaller learning rate, clipnorm, or look for values that are not finite in the data"
            )
