"""The callbacks that monitor one of the logs, by the names and definitions of Keras."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from prototorch.engine.storage.atomic_write import check_writable
from prototorch.engine.storage.checkpoint import check_ending
from prototorch.errors import UsageError
from prototorch.metrics.base import Direction
from prototorch.schema import field
from prototorch.train.callbacks import Callback, Logs, verbose_field
from prototorch.train.learning_rates import optimizer_field, rates_to_change
from prototorch.train.log_names import LogNames
from prototorch.train.output_paths import check_file_path, format_path
from prototorch.train.state_fields import ArrayField, Integer, MapField, Number, OptionalField, Record

__all__ = ["EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"]


_BEST = OptionalField(Number(allows_infinity=True))


class _Monitor(Callback, abstract=True):
    """A callback that monitors one of the logs."""

    monitor: str = field(default="val_loss", doc="The log that is monitored.")
    mode: Literal["auto", "min", "max"] = field(
        default="auto", doc='Whether smaller (min) or larger (max) is better; "auto": as the loss or metric declares.'
    )
    verbose: int = verbose_field()

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

    positional = (
        "monitor",
        "min_delta",
        "patience",
        "verbose",
        "mode",
        "baseline",
        "restore_best_weights",
        "start_from_epoch",
    )

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
            self.announce(f"stops after epoch {epoch + 1}: the best {self.monitor} was that of {self.best_epoch + 1}")
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

    def report(self) -> str | None:
        if self.best is None:
            return None
        restored = ", whose weights were restored" if self.best_weights is not None else ""
        return f"EarlyStopping: best {self.monitor} {self.best:.6g} in epoch {self.best_epoch + 1}{restored}"

    saved_state = Record(
        {
            "best": _BEST,
            "best_epoch": Integer(),
            "wait": Integer(),
            "stopped_epoch": OptionalField(Integer()),
            "best_weights": MapField(ArrayField()),
        }
    )

    def state(self) -> dict[str, Any]:
        return {
            "best": self.best,
            "best_epoch": self.best_epoch,
            "wait": self.wait,
            "stopped_epoch": self.stopped_epoch,
            "best_weights": self.best_weights or {},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.wait = state["best"], state["best_epoch"], state["wait"]
        self.stopped_epoch, self.best_weights = state["stopped_epoch"], state["best_weights"] or None


class ModelCheckpoint(_Monitor):
    """Save the model after each epoch (or every n steps), or only when the monitored value has improved.

    ``filepath`` may hold ``{epoch}`` (from 1), ``{batch}`` (from 1, of the epoch) and the names of logs:
    ``"best-{epoch:02d}-{val_loss:.3f}.h5"``. It is saved after the other callbacks, with their state.
    """

    positional = (
        "filepath",
        "monitor",
        "verbose",
        "save_best_only",
        "save_weights_only",
        "mode",
        "save_freq",
        "initial_value_threshold",
    )

    filepath: str = field(doc="The path, ending in .h5; folders are created.")
    save_best_only: bool = field(default=False, doc="Save only when the monitored value is the best so far.")
    save_weights_only: bool = field(default=False, doc="Save weights only, without the training state.")
    save_freq: int | Literal["epoch"] = field(default="epoch", doc='"epoch", or a number of steps between two saves.')
    initial_value_threshold: float | None = field(default=None, doc="The initial best value.")

    def check(self) -> None:
        if self.save_freq != "epoch" and self.save_freq < 1:
            self.refuse("save_freq is at least 1 step", "save_freq")
        try:
            check_ending(self.filepath)
        except UsageError as error:
            self.refuse(str(error), "filepath")

    def check_logs(self, names: LogNames) -> None:
        per_batch = self.save_freq != "epoch"
        if self.save_best_only:
            names.require(self.monitor, "ModelCheckpoint monitors", per_batch)
            if not names.is_open or self.monitor in names.epoch:
                self._direction(names.directions)
        fields: dict[str, object] = dict.fromkeys(names.batch if per_batch else names.epoch, 0.5)
        fields |= {"batch": 1, "epoch": 1} if per_batch else {"epoch": 1}
        if not names.is_open:
            path = self._format_filepath(fields)
            check_file_path(path, "ModelCheckpoint.filepath", creates_folders=True)
            self._check_space(os.path.dirname(path) or ".")

    def _check_space(self, folder: str) -> None:
        """Check that a checkpoint fits beside the one that it replaces. Raises SnapshotError; warns where each file has
        a name of its own, and all of them do not fit."""
        variables = self.model.trainer.plan_cache.variables
        arrays = self.model.weights.items() if self.save_weights_only else variables.current_arrays()
        epochs, steps = self.params.get("epochs") or 1, self.params.get("steps") or 1
        saves = epochs if self.save_freq == "epoch" else epochs * steps // self.save_freq
        total = saves if "{" in self.filepath and not self.save_best_only else 0
        check_writable(folder, sum(array.nbytes for _, array in arrays), min(saves, 2), total)

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
        self.announce(f"epoch {epoch + 1}: saves {path}")
        self.model.trainer.defer(lambda: save(path))

    def report(self) -> str | None:
        if not self.save_best_only or self.best is None or self.best_epoch is None:
            return None
        return (
            f"ModelCheckpoint: best {self.monitor} {self.best:.6g} in epoch {self.best_epoch + 1}, in {self.filepath}"
        )

    def _format_filepath(self, fields: Mapping[str, object]) -> str:
        try:
            return self.output_path(format_path(self.filepath, fields))
        except UsageError as error:
            raise UsageError(f"ModelCheckpoint.filepath: {error}") from None

    saved_state = Record({"best": _BEST, "steps": Integer()}, {"best_epoch": OptionalField(Integer())})

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.steps = state["best"], state.get("best_epoch"), state["steps"]


class ReduceLROnPlateau(_Monitor):
    """Multiply the learning rate by ``factor`` when the monitored value has not improved for ``patience`` epochs."""

    positional = ("monitor", "factor", "patience", "verbose", "mode", "min_delta", "cooldown", "min_lr")

    factor: float = field(default=0.1, above=0, below=1, doc="Factor of the learning rate.")
    patience: int = field(default=10, min=0, doc="Number of epochs without improvement before it acts.")
    min_delta: float = field(default=1e-4, min=0, doc="The smallest change that counts as an improvement.")
    cooldown: int = field(default=0, min=0, doc="Number of epochs to wait after a reduction.")
    min_lr: float = field(default=0.0, min=0, doc="Lower bound of the learning rate.")
    optimizer: str | None = optimizer_field()

    def check_logs(self, names: LogNames) -> None:
        super().check_logs(names)
        rates_to_change(self.model, self)

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
            rates = self.model.learning_rates
            names = [name for name in rates_to_change(self.model, self) if rates[name] > self.min_lr]
            if self.wait >= self.patience and names:
                for name in names:
                    rates[name] = max(rates[name] * self.factor, self.min_lr)
                    of = f" of {name}" if len(rates) > 1 else ""
                    self.announce(f"after epoch {epoch + 1} the learning rate{of} is {rates[name]:.4g}")
                self.cooldown_counter, self.wait = self.cooldown, 0

    saved_state = Record({"best": _BEST, "wait": Integer(), "cooling": Integer()})

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "wait": self.wait, "cooling": self.cooldown_counter}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.wait, self.cooldown_counter = state["best"], state["wait"], state["cooling"]
