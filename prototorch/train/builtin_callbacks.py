"""The callbacks of prototorch, by the names and definitions of Keras."""

from __future__ import annotations

import csv
import inspect
import math
import os
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import numpy as np

from prototorch.data.csv_writer import escape_cell
from prototorch.errors import TrainingError, UsageError, did_you_mean
from prototorch.metrics.base import Direction
from prototorch.schema import field
from prototorch.train.callbacks import Callback, LambdaCallback, Logs
from prototorch.train.log_names import LogNames
from prototorch.train.output_paths import check_file_path, format_path
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
    """The result of `fit`: ``history`` maps each log to its values, one for each epoch; ``epoch`` are their numbers.

    ``timing`` are the seconds of each epoch of this process by purpose: ``steps``, ``data`` (waiting for data),
    ``validation``, ``callbacks``, ``prepare`` (planning and compiling) and ``total``. ``waiting`` is the share of the
    training that was spent waiting for data, from 0 to 1. They are not part of the state.

    ``weights_epoch`` is the epoch (from 0, as in ``epoch``) at whose end the model had the weights that it has after
    the fit: the last one, or the best one where `EarlyStopping` restored it; None after an interruption in the middle
    of an epoch. ``stop_reason`` says why a callback ended the fit before its last epoch, None where none did.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self.timing: list[dict[str, float]] = []
        self.weights_epoch: int | None = None
        self.stop_reason: str | None = None

    @property
    def waiting(self) -> list[float]:
        """For each epoch of this process, the share of the training that was spent waiting for data."""
        return [data_wait_share(one) for one in self.timing]

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.weights_epoch = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.weights_epoch = epoch
        self.epoch.append(epoch)
        self.timing.append(self.model.trainer.epoch_seconds)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)

    def state(self) -> dict[str, Any]:
        return {"epoch": list(self.epoch), "history": {k: list(v) for k, v in self.history.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch, self.history = list(state["epoch"]), {k: list(v) for k, v in state["history"].items()}
        if self.epoch and not self.model.trainer.batch:
            self.weights_epoch = self.epoch[-1]

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


class _Monitor(Callback, abstract=True):
    """A callback that monitors one of the logs."""

    monitor: str = field(default="val_loss", doc="The log that is monitored.")
    mode: Literal["auto", "min", "max"] = field(
        default="auto", doc='Whether smaller (min) or larger (max) is better; "auto": as the loss or metric declares.'
    )

    def check_logs(self, names: LogNames) -> None:
        names.require(self.monitor, f"{type(self).__name__} monitors")
        if not names.is_open or self.monitor in names.epoch:
            self._direction(names.directions)

    def monitored_value(self, logs: Logs | None) -> float | None:
        """The monitored value; None after an epoch without validation. Raises UsageError where the logs have no such
        name."""
        logs = logs or {}
        if self.monitor in logs:
            return float(logs[self.monitor])
        has_validation = any(name.startswith("val_") for name in logs)
        if self.monitor.startswith("val_") and self.params.get("validation") and not has_validation:
            return None
        hint = (
            "; give fit validation_data or validation_split"
            if self.monitor.startswith("val_") and not has_validation
            else ""
        )
        raise UsageError(f"{type(self).__name__} monitors {self.monitor!r}, but the logs have {', '.join(logs)}{hint}")

    @property
    def sign(self) -> int:
        """-1 where smaller is better, else 1; with "auto" as the loss or metric declares.

        Raises UsageError with "auto" for a value that is no loss or metric, or a metric that declares no direction.
        """
        return -1 if self._direction(self.params.get("directions", {})) == "min" else 1

    def _direction(self, directions: Mapping[str, Direction | None]) -> str:
        mode: str | None = self.mode
        if mode == "auto":
            name = self.monitor.removeprefix("val_")
            mode = directions.get(name, "min" if name.endswith("loss") else None)
        if mode is None:
            raise UsageError(
                f"{type(self).__name__} cannot tell whether a smaller or a larger {self.monitor!r} is better: "
                "expected mode: min or mode: max"
            )
        return mode

    def is_better(self, value: float, than: float | None, by: float = 0.0) -> bool:
        """Whether a value is better than another by more than ``by``; any value but NaN is better than None."""
        sign = self.sign
        return not math.isnan(value) if than is None else sign * (value - than) > by


class EarlyStopping(_Monitor):
    """Stop when the monitored value has not improved for ``patience`` epochs, and restore the best weights."""

    min_delta: float = field(default=0.0, min=0, doc="The smallest change that counts as an improvement.")
    patience: int = field(default=0, min=0, doc="Number of epochs without improvement before it acts.")
    baseline: float | None = field(default=None, doc="A value that must be exceeded for an improvement to count.")
    restore_best_weights: bool = field(default=True, doc="Whether the best weights are restored at the end.")
    start_from_epoch: int = field(default=0, min=0, doc="Number of epochs before monitoring starts.")

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
            self.model.trainer.stop_reason = (
                f"{self.monitor} has not improved for {self.wait} epochs"
                if self.best is not None
                else f"{self.monitor} was not a number for {self.wait} epochs"
            )

    def on_train_end(self, logs: Logs | None = None) -> None:
        was_interrupted = (
            self.model.trainer.interrupt_signal is not None
        )  # then the training continues from its present weights
        if self.restore_best_weights and self.best_weights is not None and not was_interrupted:
            self.model.set_weights(self.best_weights)
            self.model.history.weights_epoch = self.best_epoch

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "wait": self.wait,
                "stopped_epoch": self.stopped_epoch, "best_weights": self.best_weights or {}}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.wait = state["best"], state["best_epoch"], state["wait"]
        self.stopped_epoch, self.best_weights = state["stopped_epoch"], state["best_weights"] or None


class ModelCheckpoint(_Monitor):
    """Save the model after each epoch (or every n steps), or only when the monitored value has improved.

    ``filepath`` may hold ``{epoch}`` (from 1), ``{batch}`` (from 1, of the epoch) and the names of logs:
    ``"best-{epoch:02d}-{val_loss:.3f}.h5"``. It is saved after the other callbacks, with their state.
    """

    filepath: str = field(doc="The path, ending in .h5; folders are created.")
    save_best_only: bool = field(default=False, doc="Save only when the monitored value is the best so far.")
    save_weights_only: bool = field(default=False, doc="Save weights only, without the training state.")
    save_freq: int | Literal["epoch"] = field(default="epoch", doc='"epoch", or a number of steps between two saves.')
    initial_value_threshold: float | None = field(default=None, doc="The initial best value.")

    def check(self) -> None:
        if self.save_freq != "epoch" and self.save_freq < 1:
            self.refuse("save_freq is at least 1 step", "save_freq")

    def check_logs(self, names: LogNames) -> None:
        per_batch = self.save_freq != "epoch"
        if self.save_best_only:
            names.require(self.monitor, "ModelCheckpoint monitors", per_batch)
            if not names.is_open or self.monitor in names.epoch:
                self._direction(names.directions)
        fields: dict[str, object] = dict.fromkeys(names.batch if per_batch else names.epoch, 0.5)
        fields |= {"batch": 1, "epoch": 1} if per_batch else {"epoch": 1}
        if not names.is_open:
            check_file_path(self._format_filepath(fields), "ModelCheckpoint.filepath", creates_folders=True)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best = self.initial_value_threshold
        self.best_epoch: int | None = None
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
            self.best, self.best_epoch = value, epoch
        path = self._format_filepath(
            {**(logs or {}), **({} if batch is None else {"batch": batch + 1}), "epoch": epoch + 1}
        )
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save = self.model.save_weights if self.save_weights_only else self.model.save
        self.model.trainer.defer(lambda: save(path))

    def _format_filepath(self, fields: Mapping[str, object]) -> str:
        try:
            return self.output_path(format_path(self.filepath, fields))
        except UsageError as error:
            raise UsageError(f"ModelCheckpoint.filepath: {error}") from None

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.steps = state["best"], state.get("best_epoch"), state["steps"]


class ReduceLROnPlateau(_Monitor):
    """Multiply the learning rate by ``factor`` when the monitored value has not improved for ``patience`` epochs."""

    factor: float = field(default=0.1, above=0, below=1, doc="Factor of the learning rate.")
    patience: int = field(default=10, min=0, doc="Number of epochs without improvement before it acts.")
    min_delta: float = field(default=1e-4, min=0, doc="The smallest change that counts as an improvement.")
    cooldown: int = field(default=0, min=0, doc="Number of epochs to wait after a reduction.")
    min_lr: float = field(default=0.0, min=0, doc="Lower bound of the learning rate.")

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
    """Set the learning rate before each epoch to ``schedule(epoch, learning_rate)`` or ``schedule(epoch)``.

    Python only (a function)."""

    schedule: Any = field(doc="A function of the epoch (from 0) and the learning rate.")

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        try:
            single = len(inspect.signature(self.schedule).parameters) == 1
        except (TypeError, ValueError):
            single = False  # a function without a signature is called with both
        rate = self.schedule(epoch) if single else self.schedule(epoch, self.model.learning_rate)
        if isinstance(rate, bool) or not isinstance(rate, int | float | np.floating | np.integer) or not rate >= 0:
            raise UsageError(
                f"LearningRateScheduler: the schedule gave {rate!r} for epoch {epoch}, not a learning rate"
            )
        self.model.learning_rate = float(rate)


class CSVLogger(Callback):
    """Write the logs of each epoch as a row of a CSV file. A resumed training continues in its file."""

    filename: str = field(doc="Path of the file.")
    separator: str = field(default=",", doc="Separator of the values.")
    append: bool = field(default=False, doc="Whether rows are appended to an existing file.")
    timing: bool = field(
        default=False, doc="Whether there are columns for the epoch's seconds and the share spent waiting for data."
    )

    def check(self) -> None:
        if len(self.separator) != 1:
            self.refuse(f"separator must be one character, got {self.separator!r}", "separator")

    def check_logs(self, names: LogNames) -> None:
        check_file_path(self.output_path(self.filename), "CSVLogger.filename")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._columns: list[str] | None = None
        try:
            self._size = os.path.getsize(self.output_path(self.filename)) if self.append else 0
        except OSError:  # there is no file yet
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
        return {"columns": self._columns, "size": self._size, "appends": self.append}

    def restore(self, state: dict[str, Any]) -> None:
        self._columns, self._size = state["columns"], state["size"]
        try:
            path = self.output_path(self.filename)
            if (self._columns is not None or state.get("appends")) and os.path.getsize(path) > self._size:
                os.truncate(path, self._size)  # rows of epochs that will run again
        except OSError:
            self._columns = None  # the file is gone: a new one is created


class TerminateOnNaN(Callback):
    """Stop with a TrainingError when the validation's loss is not finite.

    `fit` stops at the first training step whose loss is not finite by itself, with or without this callback, and
    reports the layer and the samples.
    """

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("val_loss")
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(f"the validation's loss is {loss} after epoch {epoch + 1}")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"there is no callback {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
