"""The base class of callbacks, with the hooks of Keras."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from prototorch.engine.storage.atomic_write import open_in_place
from prototorch.errors import PrototorchError, did_you_mean
from prototorch.schema import Block, field
from prototorch.schema.overrides import CONFIG_METHODS, refuse_overrides
from prototorch.text.diagnostics import Report
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Field
from prototorch.train.log_names import LogNames
from prototorch.train.output_paths import default_run_dir, resolve_inside
from prototorch.train.state_fields import Record, StateField

__all__ = [
    "Callback",
    "DeferredActions",
    "LambdaCallback",
    "LazyLogs",
    "Logs",
    "bind_output_dirs",
    "verbose_field",
]

Logs = dict[str, Any]


class LazyLogs(dict[str, Any]):
    """Logs that are computed at their first access: reading the loss of a step waits for the device."""

    def __init__(self, make: Callable[[], Logs]):
        super().__init__()
        self._make: Callable[[], Logs] | None = make

    def _read(self) -> Self:
        make, self._make = self._make, None
        if make is not None:
            super().update(make())
        return self

    def __missing__(self, name: str) -> Any:
        if self._make is None:
            raise KeyError(name)
        return self._read()[name]

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self._read(), name)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._read())

    def __len__(self) -> int:
        return dict.__len__(self._read())

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._read(), other)

    def __repr__(self) -> str:
        return dict.__repr__(self._read())

    def keys(self) -> Any:
        """The names of the logs."""
        return dict.keys(self._read())

    def values(self) -> Any:
        """The values of the logs; reading them waits for the device."""
        return dict.values(self._read())

    def items(self) -> Any:
        """Pairs (name, value)."""
        return dict.items(self._read())

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, ``default`` where there is none."""
        return dict.get(self._read(), name, default)

    def copy(self) -> Logs:
        """A plain dict of the logs, read now."""
        return dict(self.items())


class Callback(Block, family="callback"):
    """Called between steps and epochs. Subclass it and define the hooks you need; ``self.model`` is the model.

    Hooks are called as Keras calls them: ``on_epoch_end(epoch, logs)``, ``on_train_end(logs)`` with the logs of the
    last epoch. ``logs`` is a dict, empty where there are none.

    A callback may have attributes of its own. State that must survive an interruption goes through `state` and
    `restore`. ``logs`` are the loss and the metrics so far; the names of validation results begin with ``val_``.
    """

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(("call", "__call__"), "define a hook, such as `on_epoch_end(self, epoch, logs)`"),
    }
    #: whether it only displays, and is left out of checkpoints
    display: ClassVar[bool] = False
    #: the model, and facts of the fit: epochs, steps, samples, batch_size (None if unknown), validation
    #: (bool), directions ("min" or "max" of each loss and metric)
    model: ClassVar[Any] = None
    params: ClassVar[dict[str, Any]] = {}
    #: the run folder, which a callback declared in a model text may not write outside of; None for one made in Python
    output_dir: ClassVar[Path | None] = None
    #: what `state` gives, where a class defines it: checked when a file is read. Without it, the state may be anything
    saved_state: ClassVar[StateField] = Record({})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises UsageError for a method ``on_...`` that is no hook; see `Block`."""
        if "family" not in kwargs:
            hooks = _hook_names()
            hint = f"There are {', '.join(hooks)}; a method of your own needs a name without on_"
            for name in vars(cls):
                if name.startswith("on_") and name not in hooks and callable(vars(cls)[name]):
                    refuse_overrides(cls, {name: f"it is no hook.{did_you_mean(name, hooks)} {hint}"})
        super().__init_subclass__(**kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)

    def __eq__(self, other: object) -> bool:
        """Compares the declared fields; a callback with an ``__init__`` of its own equals only itself."""
        if self is other or type(self).__init__ is not Block.__init__ or not type(self).specs():
            return self is other
        return type(self) is type(other) and isinstance(other, Callback) and self.field_values() == other.field_values()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return super().__repr__() if type(self).__init__ is Block.__init__ else object.__repr__(self)

    def output_path(self, path: str) -> str:
        """The path of a file to write: as it is, but inside the run folder for a callback declared in a model text.

        Raises UsageError for a declared path outside of the run folder, after resolving links.
        """
        return path if self.output_dir is None else resolve_inside(path, self.output_dir)

    def open_output(self, path: str, mode: str) -> IO[str]:
        """Open the file at `output_path` to change it in place ("w", "a", "r+"), as text in UTF-8 with its newlines as
        they are; in a run folder never one that has another name outside of it. Raises OSError."""
        opener = None if self.output_dir is None else open_in_place
        return open(self.output_path(path), mode, newline="", encoding="utf-8", opener=opener)

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint: numbers, strings, arrays, and lists and dicts (with string keys) of them."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state` of an earlier run; called after `on_train_begin`."""

    def announce(self, text: str) -> None:
        """Print a line about what the callback has done on standard error, where its field ``verbose`` is set."""
        if getattr(self, "verbose", 0):
            print(f"{type(self).__name__}: {text}", file=sys.stderr)

    def set_model(self, model: Any) -> None:
        """Called before the first hook, with the model."""
        object.__setattr__(self, "model", model)

    def set_params(self, params: dict[str, Any]) -> None:
        """Called before the first hook, with the facts of the fit."""
        object.__setattr__(self, "params", params)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first step."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last step."""

    def check_logs(self, names: LogNames) -> None:
        """Before the first step: raise UsageError for what does not fit the names that this fit will log."""

    def on_snapshot_request(self) -> None:
        """After the step in which the process received SIGHUP; the training goes on. Without a callback that defines
        it, SIGHUP is not handled."""

    def report(self) -> str | None:
        """A line on the result of a training, such as the best value, for the end of ``prototorch run``; or None."""
        return None

    def on_failure(self) -> None:
        """Called instead of `on_train_end` when the fit ends with an error: release resources here."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before an epoch (counted from 0)."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After an epoch and its validation."""

    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Another name of `on_train_batch_begin`, as in Keras."""

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Another name of `on_train_batch_end`, as in Keras."""

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Before a step (counted from 0 in each epoch)."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a step; ``logs`` hold the epoch's loss and metrics so far."""
        self.on_batch_end(batch, logs=logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Before an evaluation."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """After an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a batch of an evaluation."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Before a prediction."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """After a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a batch of a prediction; ``logs["outputs"]`` are its outputs."""


def _hook_names() -> list[str]:
    return [name for name in dir(Callback) if name.startswith("on_")]


def verbose_field() -> Any:
    """The field ``verbose`` of a callback that may say what it does."""
    return field(default=0, min=0, max=2, doc="Whether it prints a line when it acts (0: it does not).")


class LambdaCallback(Callback):
    """A callback from functions: ``LambdaCallback(on_epoch_end=lambda epoch, logs: ...)``. Python only.

    Any hook of `Callback` may be given by its name; the first six also by position, in Keras' order.
    """

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        on_train_batch_begin: Callable[..., Any] | None = None,
        on_train_batch_end: Callable[..., Any] | None = None,
        **hooks: Callable[..., Any] | None,
    ):
        hooks.update(
            on_epoch_begin=on_epoch_begin,
            on_epoch_end=on_epoch_end,
            on_train_begin=on_train_begin,
            on_train_end=on_train_end,
            on_train_batch_begin=on_train_batch_begin,
            on_train_batch_end=on_train_batch_end,
        )
        hook_names = _hook_names()
        for name, function in hooks.items():
            if name not in hook_names:
                self.refuse(f"there is no hook {name!r}.{did_you_mean(name, hook_names)}")
            if function is not None and not callable(function):
                self.refuse(f"{name} must be a function, not {function!r}")
            if function is not None:
                setattr(self, name, function)

    @classmethod
    def from_fields(cls, fields: Iterable[Field], report: Report, span: Span | None = None) -> Self | None:
        """A text cannot hold functions: that is reported."""
        report.add("LambdaCallback consists of Python functions, which a text cannot hold: give it to fit", span)
        return None


def bind_output_dirs(
    callbacks: Iterable[Callback], declared: Iterable[Callback], name: str, run_dir: str | PathLike[str] | None
) -> None:
    """Bind the callbacks that a model text declares to the run folder, and the others to none.

    The run folder is ``run_dir``, by default ``runs/NAME``. Raises UsageError for a name that leads elsewhere.
    """
    declared_ids = {id(callback) for callback in declared}
    for callback in callbacks:
        folder = None
        if id(callback) in declared_ids:
            folder = default_run_dir(name) if run_dir is None else Path(run_dir)
        if folder != callback.output_dir:
            object.__setattr__(callback, "output_dir", folder)


class DeferredActions(threading.local):
    """Actions that callbacks want to run after all callbacks of the same hook; each thread has its own."""

    _pending: list[Callable[[], None]] | None = None

    def defer(self, action: Callable[[], None]) -> None:
        """Run an action at the end of the innermost `run` of this thread; at once where there is none."""
        if self._pending is None:
            action()
        else:
            self._pending.append(action)

    def run(self, work: Callable[..., None], *args: Any, after_errors: bool = False) -> None:
        """Run ``work(*args)``, and then the actions that it deferred.

        After an error of ``work`` they run only with ``after_errors``; the error is raised then, with a note of what
        else went wrong.
        """
        outer, actions = self._pending, list[Callable[[], None]]()
        self._pending = actions
        try:
            work(*args)
        except Exception as error:
            self._pending = outer
            for action in actions if after_errors else ():
                try:
                    action()
                except PrototorchError as another:
                    error.add_note(str(another))
            raise
        finally:
            self._pending = outer
        for action in actions:
            action()
