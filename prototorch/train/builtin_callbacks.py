"""The callbacks of prototorch, by the names and definitions of Keras."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable
from typing import Any, NoReturn, Self

from prototorch.data.csv_writer import escape_cell
from prototorch.errors import TrainingError, UsageError, did_you_mean
from prototorch.schema import field
from prototorch.schema.neutral_arguments import neutral
from prototorch.text.diagnostics import Report
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Field
from prototorch.train.callbacks import Callback, LambdaCallback, Logs
from prototorch.train.learning_rate_scheduler import LearningRateScheduler
from prototorch.train.log_names import LogNames
from prototorch.train.monitors import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau
from prototorch.train.output_paths import check_file_path
from prototorch.train.profiler import data_wait_share
from prototorch.train.state_fields import (
    Flag,
    Integer,
    ListField,
    LogValue,
    MapField,
    OptionalField,
    Record,
    Text,
)
from prototorch.train.unfreeze import Unfreeze

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
    "Unfreeze",
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

    saved_state = Record({"epoch": ListField(Integer()), "history": MapField(ListField(LogValue()))})

    def state(self) -> dict[str, Any]:
        return {"epoch": list(self.epoch), "history": {k: list(v) for k, v in self.history.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch, self.history = list(state["epoch"]), {k: list(v) for k, v in state["history"].items()}
        if self.epoch and not self.model.trainer.batch:
            self.weights_epoch = self.epoch[-1]

    @classmethod
    def from_fields(cls, fields: Iterable[Field], report: Report, span: Span | None = None) -> Self | None:
        """A text cannot declare one: that is reported."""
        report.add("History is what fit returns, and is always there: leave it out", span)
        return None

    saved_history = Record(
        {"epoch": ListField(Integer()), "history": MapField(ListField(LogValue()))},
        {"weights_epoch": OptionalField(Integer())},
    )

    def to_json(self) -> dict[str, Any]:
        """What a saved model keeps of it: ``epoch``, ``history`` and ``weights_epoch``."""
        return {**self.state(), "weights_epoch": self.weights_epoch}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The history that `to_json` has written. Raises StateError for what it cannot have written."""
        cls.saved_history.check(value, "")
        one = cls()
        one.epoch, one.history = list(value["epoch"]), {name: list(v) for name, v in value["history"].items()}
        one.weights_epoch = value.get("weights_epoch")
        return one

    def __repr__(self) -> str:
        return f"<History of {len(self.epoch)} epochs: {', '.join(self.history)}>"


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
                others = ("seconds", "waiting", *self.model.trainer.rate_logs())
                self._columns += [f"val_{name}" for name in logs if name not in others]
        try:
            with self.open_output(self.filename, "w" if first and not self.append else "a") as file:
                writer = csv.writer(file, delimiter=self.separator)
                if first and file.tell() == 0:
                    writer.writerow(map(escape_cell, self._columns))
                writer.writerow([epoch, *(escape_cell(logs.get(name, "")) for name in self._columns[1:])])
                self._size = file.tell()
        except OSError as exc:
            raise UsageError(f"CSVLogger cannot write {self.filename}: {exc.strerror}") from exc

    saved_state = Record({"columns": OptionalField(ListField(Text(1000))), "size": Integer()}, {"appends": Flag()})

    def state(self) -> dict[str, Any]:
        return {"columns": self._columns, "size": self._size, "appends": self.append}

    def restore(self, state: dict[str, Any]) -> None:
        self._columns, self._size = state["columns"], state["size"]
        try:
            path = self.output_path(self.filename)
            if (self._columns is not None or state.get("appends")) and os.path.getsize(path) > self._size:
                with self.open_output(self.filename, "r+") as file:
                    file.truncate(self._size)  # rows of epochs that will run again
        except OSError:
            self._columns = None  # the file is gone: a new one is created


class TerminateOnNaN(Callback):
    """Stop with a TrainingError when the validation's loss is not finite.

    `fit` stops at the first training step whose loss is not finite by itself, with or without this callback, and
    reports the layer and the samples.
    """

    neutral_arguments = {"raise_error": neutral(False, True, hint="it raises TrainingError")}

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("val_loss")
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(f"the validation's loss is {loss} after epoch {epoch + 1}")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"there is no callback {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
