"""The callbacks that come with prototorch, by Keras' names and meanings."""

from __future__ import annotations

import csv
import inspect
import math
import os
from typing import Any, Literal, NoReturn

import numpy as np

from prototorch.data.csv_writer import escape_cell
from prototorch.errors import TrainingError, UsageError, did_you_mean
from prototorch.schema import field
from prototorch.train.callbacks import Callback, LambdaCallback, Logs
from prototorch.train.output_paths import format_path
from prototorch.train.profiler import data_wait_share

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
]


class History(Callback):
    """What `fit` gives back: ``history`` maps each name to its values, one an epoch; ``epoch`` are their numbers.

    ``timing`` says for each epoch of this process where its seconds went: ``steps``, ``data`` (waiting for data),
    ``validation``, ``callbacks``, ``prepare`` (planning and compiling) and ``total``. ``waiting`` is the share of the
    training that was spent waiting for data, 0..1. A state does not hold them: no two runs take the same time.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self.timing: list[dict[str, float]] = []

    @property
    def waiting(self) -> list[float]:
        """For each epoch of this process, the share of the training that was spent waiting for data."""
        return [data_wait_share(one) for one in self.timing]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        self.timing.append(self.model.trainer.epoch_seconds)
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

    def monitored_value(self, logs: Logs | None) -> float | None:
        """The watched value; None after an epoch without validation. UsageError where the logs will never have it."""
        logs = logs or {}
        if self.monitor in logs:
            return float(logs[self.monitor])
        validated = any(name.startswith("val_") for name in logs)
        if self.monitor.startswith("val_") and self.params.get("validation") and not validated:
            return None
        hint = (
            "; give fit validation_data or validation_split"
            if self.monitor.startswith("val_") and not validated
            else ""
        )
        raise UsageError(f"{type(self).__name__} watches {self.monitor!r}, but the logs have {', '.join(logs)}{hint}")

    @property
    def sign(self) -> int:
        """-1 where less is better, else 1; "auto" knows accuracies, AUC, precision, recall and F1 as more-is-better."""
        if self.mode != "auto":
            return -1 if self.mode == "min" else 1
        more = ("acc", "auc", "precision", "recall", "f1", "fbeta", "top_k", "similarity")
        return 1 if any(word in self.monitor for word in more) else -1

    def is_better(self, value: float, than: float | None, by: float = 0.0) -> bool:
        """Whether a value is better than another by more than this; anything but NaN is better than none."""
        return not math.isnan(value) if than is None else self.sign * (value - than) > by


class EarlyStopping(_Monitor):
    """Stop when the watched value has not become better for ``patience`` epochs, and give back the best weights."""

    min_delta: float = field(default=0.0, min=0, doc="How much better counts as better.")
    patience: int = field(default=0, min=0, doc="Epochs without improvement that are borne.")
    baseline: float | None = field(default=None, doc="A value that must be bettered, or improvement does not count.")
    restore_best_weights: bool = field(default=True, doc="Whether the model ends with its best weights.")
    start_from_epoch: int = field(default=0, min=0, doc="Epochs that are let pass first.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best: float | None = None
        self.best_epoch, self.wait = 0, 0
        self.best_weights: dict[str, np.ndarray] | None = None
        self.stopped_epoch: int | None = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if epoch < self.start_from_epoch:
            return
        value = self.monitored_value(logs)
        if value is None:
            return
        self.wait += 1
        if self.is_better(value, self.best, self.min_delta):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(value, self.baseline, self.min_delta):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        interrupted = self.model.trainer.interrupt_signal is not None  # then the training is to go on from where it is
        if self.restore_best_weights and self.best_weights is not None and not interrupted:
            self.model.set_weights(self.best_weights)

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "wait": self.wait,
                "stopped_epoch": self.stopped_epoch, "best_weights": self.best_weights or {}}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.wait = state["best"], state["best_epoch"], state["wait"]
        self.stopped_epoch, self.best_weights = state["stopped_epoch"], state["best_weights"] or None


class ModelCheckpoint(_Monitor):
    """Save the model after each epoch (or every n steps), or only when the watched value has become better.

    ``filepath`` may hold ``{epoch}`` (from 1), ``{batch}`` (from 1, of the epoch) and the names of logs:
    ``"best-{epoch:02d}-{val_loss:.3f}.h5"``. What is saved is what all callbacks know by then.
    """

    filepath: str = field(doc="Where to, with an ending of .h5; folders are made.")
    save_best_only: bool = field(default=False, doc="Only when the watched value is the best so far.")
    save_weights_only: bool = field(default=False, doc="Only weights, without the training state.")
    save_freq: int | Literal["epoch"] = field(default="epoch", doc="After each epoch, or every n steps.")
    initial_value_threshold: float | None = field(default=None, doc="The best value before there is one.")

    def check(self) -> None:
        if self.save_freq != "epoch" and self.save_freq < 1:
            self.refuse("save_freq is at least 1 step", "save_freq")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best = self.initial_value_threshold
        self.steps = 0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.steps += 1
        if self.save_freq != "epoch" and self.steps % self.save_freq == 0:
            self._save(self.model.trainer.epoch, batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, None, logs)

    def _save(self, epoch: int, batch: int | None, logs: Logs | None) -> None:
        if self.save_best_only:
            value = self.monitored_value(logs)
            if value is None or not self.is_better(value, self.best):
                return
            self.best = value
        named = {**(logs or {}), **({} if batch is None else {"batch": batch + 1}), "epoch": epoch + 1}
        try:
            path = self.output_path(format_path(self.filepath, named))
        except UsageError as error:
            raise UsageError(f"ModelCheckpoint.filepath: {error}") from None
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save = self.model.save_weights if self.save_weights_only else self.model.save
        self.model.trainer.defer(lambda: save(path))

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
        self.best: float | None = None
        self.wait = self.cooldown_counter = 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.monitored_value(logs)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.wait = self.cooldown_counter - 1, 0
        if self.is_better(value, self.best, self.min_delta):
            self.best, self.wait = value, 0
        elif self.cooldown_counter == 0:
            self.wait += 1
            old = self.model.learning_rate
            if self.wait >= self.patience and old > self.min_lr:
                self.model.learning_rate = max(old * self.factor, self.min_lr)
                self.cooldown_counter, self.wait = self.cooldown, 0

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "wait": self.wait, "cooling": self.cooldown_counter}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.wait, self.cooldown_counter = state["best"], state["wait"], state["cooling"]


class LearningRateScheduler(Callback):
    """Before each epoch the learning rate becomes ``schedule(epoch, learning rate)``, or ``schedule(epoch)``.

    Python only (a function)."""

    schedule: Any = field(doc="A function of the epoch (from 0) and the learning rate.")

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        try:
            single = len(inspect.signature(self.schedule).parameters) == 1
        except (TypeError, ValueError):
            single = False  # a function that does not tell is called with both
        rate = self.schedule(epoch) if single else self.schedule(epoch, self.model.learning_rate)
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating | np.integer) or not rate >= 0:
            raise UsageError(
                f"LearningRateScheduler: the schedule gave {rate!r} for epoch {epoch}, not a learning rate"
            )
        self.model.learning_rate = float(rate)


class CSVLogger(Callback):
    """Write each epoch's logs as a row of a CSV file. A training that goes on goes on in its file."""

    filename: str = field(doc="The file.")
    separator: str = field(default=",", doc="What stands between two values.")
    append: bool = field(default=False, doc="Whether rows are added to a file that is there.")
    timing: bool = field(
        default=False, doc="Whether columns tell the epoch's seconds and the share spent waiting for data."
    )

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._columns: list[str] | None = None
        self._size = 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        if self.timing:
            spent = self.model.trainer.epoch_seconds
            logs = {**logs, "seconds": spent["total"], "waiting": data_wait_share(spent)}
        first = self._columns is None
        if self._columns is None:
            self._columns = ["epoch", *logs]
            if self.params.get("validation") and not any(name.startswith("val_") for name in logs):
                self._columns += [f"val_{name}" for name in logs if name not in ("learning_rate", "seconds", "waiting")]
        try:
            path = self.output_path(self.filename)
            with open(path, "w" if first and not self.append else "a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, delimiter=self.separator)
                if first and file.tell() == 0:
                    writer.writerow(map(escape_cell, self._columns))
                writer.writerow([epoch, *(escape_cell(logs.get(name, "")) for name in self._columns[1:])])
                self._size = file.tell()
        except OSError as exc:
            raise UsageError(f"CSVLogger cannot write {self.filename}: {exc.strerror}") from exc

    def state(self) -> dict[str, Any]:
        return {"columns": self._columns, "size": self._size}

    def restore(self, state: dict[str, Any]) -> None:
        self._columns, self._size = state["columns"], state["size"]
        try:
            path = self.output_path(self.filename)
            if self._columns is not None and os.path.getsize(path) > self._size:
                os.truncate(path, self._size)  # rows of epochs that are trained again
        except OSError:
            self._columns = None  # the file has gone: a new one is begun


class TerminateOnNaN(Callback):
    """Stop with a TrainingError when the validation's loss is not finite.

    At the first step whose own loss is not finite `fit` stops by itself, with or without this callback, and says which
    layer and which samples it comes from.
    """

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("val_loss")
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(f"the validation's loss is {loss} after epoch {epoch + 1}")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"there is no callback {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
