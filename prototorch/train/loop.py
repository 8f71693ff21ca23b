"""The loop: epochs and steps, validation, callbacks, stopping at a step's end, going on from a state."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from prototorch.data.batch import Batch
from prototorch.data.binding import Bound
from prototorch.data.loader import Loader
from prototorch.data.stream import Stream
from prototorch.errors import DataError, TrainingError, UsageError
from prototorch.graph.trace import KEY
from prototorch.optim import Schedule
from prototorch.train.ahead import Ahead
from prototorch.train.around import closing, stopping
from prototorch.train.callbacks import Callback, CallbackList, Later
from prototorch.train.clock import CALLBACKS, DATA, PREPARE, STEPS, VALIDATION, Clock
from prototorch.train.clock import epoch as epoch_of
from prototorch.train.diagnosis import ADVICE, NotFiniteError, cause, guard, named
from prototorch.train.feed import Feed
from prototorch.train.program import PREDICT, RATE, STEP, TEST, TRAIN, Program, key_of
from prototorch.train.standard import History
from prototorch.train.transform import DRAWS, Preparation

#: what `Trainer.state` gives, and of a fit
STATE = {"step", "passes", "set_rate", "fit"}
FIT_STATE = {"epoch", "batch", "seen", "inside", "trained", "over", "stopped", "kind", "loader", "callbacks"}


class Supply(NamedTuple):
    """Data bound to the model, and what makes batches of them."""

    bound: Bound
    batches: Loader | Stream

    def steps(self) -> int | None:
        """The batches of an epoch, where that is known."""
        if isinstance(self.batches, Stream):
            return self.batches.steps
        return len(self.batches)


class _Waiting(threading.local):
    """What a thread does when all its callbacks have been called; None while none is called."""

    actions: list[Callable[[], None]] | None = None


class Begun(NamedTuple):
    """A training step that was begun: where it stands, and what it was fed."""

    step: int
    batch: int
    feed: Feed
    inputs: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    samples: int


_trainers: WeakSet[Trainer] = WeakSet()


def _after_fork() -> None:
    """A forked child has none of the threads that may have held a turn."""
    for trainer in _trainers:
        trainer._locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Trainer:
    """Trains, evaluates and predicts with one program. Holds what changes while training: step, epoch, learning rate.

    Attributes:
        step: training steps taken so far. passes: how often the data have been gone through, over all fits: it decides
            the order of the next pass, so that two fits of one epoch are one fit of two.
        epoch, batch: where the fit stands: the epoch under way, and the steps taken in it.
        seen: samples of this epoch so far.
        set_rate: a learning rate that was set, in the place of the optimiser's own.
        interrupted: the signal that ended the last fit, or None.
        pending: a state of an earlier fit, for the next one to go on from.
        clock: where the time of the last fit went; timing: that of its last epoch, seconds by purpose. They decide
            nothing and are in no state.
        turn: whoever holds it may run a step, and read what it gave. Several threads may use a trainer: their steps
            take turns. One fit runs at a time, and one evaluation.
    """

    def __init__(self, program: Program, preparation: Preparation):
        self.program, self.preparation = program, preparation
        self.step = self.passes = 0
        self.epoch = self.batch = self.seen = 0
        self.set_rate: float | None = None
        self.stop_training = False
        self.interrupted: int | None = None
        self.loader: Loader | Stream | None = None
        self.pending: dict[str, Any] | None = None
        self.callbacks: list[Callback] = []
        self.clock, self.timing = Clock(), dict[str, float]()
        self._inside = self._trained = self._over = self._fitting = False
        self._recent: list[Begun] = []
        self._locks()
        self._later = _Waiting()
        self._unread: Later | None = None
        self._ahead: Ahead | None = None
        _trainers.add(self)

    def _locks(self) -> None:
        self.turn, self._evaluating = threading.RLock(), threading.RLock()

    # ---------------------------------------------------------------- steps

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        if self.set_rate is not None:
            return self.set_rate
        rate = self.program.optimizer.learning_rate
        return rate.value(self.step) if isinstance(rate, Schedule) else float(rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        number = not isinstance(value, bool | str | bytes) and np.ndim(value) == 0
        rate = float(value) if number and value is not None else math.nan
        if not 0 <= rate < math.inf:
            raise UsageError(f"learning_rate must be a number of at least 0, not {value!r}")
        self.set_rate = rate

    def run(self, phase: str, feed: Feed, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
        """One step on a batch. What it gives back is the plan's memory, good until the next step: who reads it holds
        ``turn`` until then.

        Raises TrainingError with the cause where the loss of a training step is not finite; the weights are then as
        they were before the step.
        """
        with self.turn:
            if self._unread is not None:
                self._unread.keys()  # they tell of the step before
            return self._run(phase, feed, columns, count)

    def _run(self, phase: str, feed: Feed, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
        runner = feed.runner(phase, count)
        if runner is None:
            with self.clock(PREPARE):
                if self._ahead is not None:
                    self._ahead.wait()
                runner = feed.prepared(phase, count)
        inputs = feed.inputs(columns)
        if phase != PREDICT:
            inputs.update(feed.supervision(columns))
        if KEY in runner.plan.inputs:
            inputs[KEY] = key_of(self.program.seed, self.step)
        if DRAWS in runner.plan.inputs:
            inputs[DRAWS] = key_of(columns.place.key if isinstance(columns, Batch) else 0, 0)
        if phase == TRAIN:
            inputs[RATE], inputs[STEP] = np.float32(self.learning_rate), np.int64(self.step + 1)
        if phase != TRAIN:
            outputs = runner(feed.filled(phase, count, inputs))
            filled = phase == PREDICT and feed.size(phase, count) != count
            return {name: array[:count] for name, array in outputs.items()} if filled else outputs
        begun = Begun(self.step, self.batch, feed, inputs, columns, count)
        self._recent = [*self._recent, begun][-1 - runner.lag :]
        fed = feed.filled(phase, count, inputs)
        outputs = self._watched(lambda: runner(fed, guard))
        self.step += 1
        return outputs

    def settle(self) -> None:
        """Wait until all steps are done, and look at their losses.

        Raises TrainingError as `run` does. A GPU tells of a loss that is not finite some steps later; no weight has
        been changed since.
        """
        with self.turn:
            for runner in self.program.runners():
                self._watched(partial(runner.settle, guard))
            self._recent = []

    def idle(self, what: str) -> None:
        """Raise UsageError where a fit is under way: ``what`` cannot be done beside it."""
        if self._fitting:
            raise UsageError(
                f"{what}: the model is in the middle of a fit (this is called by a callback, or another thread trains "
                "it); set model.stop_training = True to end that one, and wait for it"
            )

    def _watched(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except NotFiniteError as stop:
            begun = self._recent[-1 - stop.late]
            self.step, self.batch, self._recent = begun.step, begun.batch, []
            raise TrainingError(self._failure(stop.loss, *begun[2:])) from None

    def _failure(self, loss: float, feed: Feed, inputs: Mapping[str, Any], columns: Mapping[str, np.ndarray],
                 count: int) -> str:  # fmt: skip
        """What is said of a loss that is not finite."""
        at = f"step {self.batch + 1} of epoch {self.epoch + 1}" if self._fitting else f"step {self.step + 1}"
        indices = columns.place.indices if isinstance(columns, Batch) else None
        known = indices is not None and len(indices) == count and int(indices.max()) < len(feed.data)
        try:
            why = cause(self.program, feed.fed(count), inputs,
                        named(count, indices if known else None, feed.data.origin if known else None),
                        self.preparation if feed.on_device else None)  # fmt: skip
        except MemoryError:
            why = "there is not enough memory to look for the layer"
        return f"the loss is {loss} at {at}: {why}. No weight has been changed by this step. {ADVICE}"

    # ---------------------------------------------------------------- fit

    def fit(self, model: Any, data: Supply, validation: Supply | None, *, epochs: int, callbacks: Sequence[Callback],
            history: History, class_weight: Mapping[int, float] | None = None, steps_per_epoch: int | None = None,
            validation_steps: int | None = None, validation_freq: int = 1, initial_epoch: int = 0,
            resume: bool | None = None) -> History:  # fmt: skip
        """Train. See `Model.fit`."""
        state = self._taken(resume, epochs)
        loader = data.batches
        feed = self.feed(data, True, class_weight)
        whole = len(data.bound) if isinstance(loader, Stream) else min(loader.batch_size, len(data.bound))
        with self.clock(PREPARE):  # now: what would not fit in memory is told before all else
            feed.prepared(TRAIN, whole)
        self.loader, self.callbacks = loader, [history, *callbacks]
        params = {"epochs": epochs, "steps": steps_per_epoch or data.steps(), "samples": len(data.bound),
                  "batch_size": loader.batch_size, "validation": validation is not None}  # fmt: skip
        if isinstance(loader, Stream):
            params["samples"] = params["batch_size"] = None
        self.stop_training, self.interrupted, self.epoch = False, None, initial_epoch
        self._inside = self._trained = self._over = False
        self.passes = max(self.passes, initial_epoch)
        loader.epoch, loader.position = self.passes, 0
        calls = CallbackList(self.callbacks, model, params)
        self._fitting = True
        try:
            if state is not None:
                self._restore(state, loader)
                self.program.resolve(feed.specs(1))
            self._call(calls, "on_train_begin")
            if state is not None:
                self._restore_callbacks(state)
            with stopping(self), self._prepared_ahead(feed, whole):
                while self.epoch < epochs and not self.stop_training:
                    began = self.clock.reading()
                    logs = self._one_epoch(feed, calls, steps_per_epoch)
                    if logs is None:
                        break
                    if validation is not None and (self.epoch + 1) % validation_freq == 0:
                        with self.clock(VALIDATION):
                            found = self.evaluate(model, validation, steps=validation_steps, callbacks=calls)
                        if self.interrupted is not None:
                            break
                        logs.update({f"val_{k}": v for k, v in found.items()})
                    logs["learning_rate"] = self.learning_rate
                    epoch, self.epoch, self.batch = self.epoch, self.epoch + 1, 0
                    self._inside = self._trained = False
                    self.timing = epoch_of(began, self.clock.reading())
                    self._call(calls, "on_epoch_end", epoch, logs)
        except BaseException:
            for callback in self.callbacks:
                callback.on_failure()
            raise
        finally:
            self._fitting, self._unread = False, None
        if self.interrupted is None:
            self.program.finish()
        self._call(calls, "on_train_end")
        self._over = self.interrupted is None
        return history

    @contextmanager
    def _prepared_ahead(self, feed: Feed, whole: int) -> Iterator[None]:
        """Inside, the plan for the smaller last batch of an epoch is made beside the first steps, where it needs one of
        its own."""
        rest = len(feed.data) % whole if feed.whole else 0
        if not rest or feed.size(TRAIN, rest) == whole or feed.runner(TRAIN, rest) is not None:
            yield
            return
        with Ahead(self.program, TRAIN, feed.fed(rest)) as self._ahead:
            try:
                yield
            finally:
                self._ahead = None

    def _one_epoch(self, feed: Feed, calls: CallbackList, steps: int | None) -> dict[str, Any] | None:
        """Train for an epoch, or for the rest of one; its loss and metrics, None where it was interrupted."""
        if not self._inside:
            loader = self.loader
            assert loader is not None
            if steps is None or isinstance(loader, Stream):  # else the data go on where the epoch before ended
                loader.epoch, loader.position = self.passes, 0
            self.program.reset(TRAIN)
            self.batch = self.seen = 0
            self._call(calls, "on_epoch_begin", self.epoch)
            self._inside = True
        if not self._trained:
            self._trained = self._steps(feed, calls, steps)
            self.settle()
            if self._trained:
                self.passes += 1
            if self.interrupted is not None:
                return None
        return self.program.results(TRAIN)

    def _steps(self, feed: Feed, calls: CallbackList, steps: int | None) -> bool:
        """The steps of an epoch; whether it has come to its end."""
        if steps is not None and self.batch >= steps:
            return True
        wants = calls.wants("on_train_batch_end")
        assert self.loader is not None
        with closing(_batches(self.loader, steps)) as batches:
            while True:
                with self.clock(DATA):
                    batch = next(batches, None)
                if batch is None:
                    return True
                number = self.batch
                self._call(calls, "on_train_batch_begin", number)
                with self.clock(STEPS), self.turn:
                    outputs = self.run(TRAIN, feed, batch, batch.count)
                    logs = self._logs(outputs) if wants else {}
                self.batch, self.seen = number + 1, self.seen + batch.count
                self._call(calls, "on_train_batch_end", number, logs)
                self._unread = None
                if steps is not None and self.batch >= steps:
                    return True
                if self.stop_training:
                    return self.interrupted is None  # a callback ends the epoch here; a signal leaves it open

    def _logs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Loss and metrics so far; from a device they are read when somebody looks, or before its next step."""
        if self.program.backend.device is None:
            return self._read(outputs)
        self._unread = Later(partial(self._read, outputs))
        return self._unread

    def _read(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        loss = float(self.program.backend.to_numpy(outputs["loss"]))
        return {**self.program.results(TRAIN), "batch_loss": loss}

    def feed(self, data: Supply, training: bool, class_weight: Mapping[int, float] | None = None) -> Feed:
        """What feeds its batches to the program; the model's own preparation runs in its threads."""
        loader = data.batches
        whole = loader.batch_size if isinstance(loader, Loader) and loader.uneven else 0
        feed = Feed(self.program, data.bound, self.preparation, training, class_weight, whole)
        if self.preparation.needed and not feed.on_device:
            data.batches.transform = feed.transform
            if isinstance(data.batches, Loader):
                data.batches.work = feed.work(min(data.batches.batch_size, len(data.bound)))
        return feed

    # ---------------------------------------------------------------- callbacks and state

    def later(self, action: Callable[[], None]) -> None:
        """Do something when all callbacks have been called: what is saved then is what each of them knows by then."""
        if self._later.actions is None:
            action()
        else:
            self._later.actions.append(action)

    def _call(self, calls: CallbackList, hook: str, *args: Any) -> None:
        later, actions = self._later, list[Callable[[], None]]()
        waiting, later.actions = later.actions, actions
        with self.clock(CALLBACKS):
            try:
                calls.call(hook, *args)
            finally:
                later.actions = waiting
            for action in actions:
                action()

    def _taken(self, resume: bool | None, epochs: int) -> dict[str, Any] | None:
        """The state to go on from; it is taken but once."""
        state, self.pending = self.pending, None
        if resume is None:
            left = state is not None and not state["over"] and not state["stopped"] and state["epoch"] < epochs
            return state if left else None
        if not resume:
            return None
        if state is None and self.loader is not None:
            state = self.state()["fit"]
        if state is None:
            raise UsageError(
                "resume: this model holds no training that could go on; save the whole model while it trains"
            )
        return state

    def _restore(self, state: Mapping[str, Any], loader: Loader | Stream) -> None:
        kind = type(loader).__name__
        if state["kind"] != kind:
            raise TrainingError(
                f"the training cannot go on exactly: its data came from a {state['kind']}, now from a {kind}; "
                "fit(..., resume=False) begins a new one with these weights"
            )
        loader.restore(state["loader"])
        self.epoch, self.batch, self.seen = state["epoch"], state["batch"], state["seen"]
        self._inside, self._trained, self.stop_training = state["inside"], state["trained"], state["stopped"]

    def _restore_callbacks(self, state: Mapping[str, Any]) -> None:
        kept = [c for c in self.callbacks if not c.display]
        saved = state["callbacks"]
        if [c["class"] for c in saved] != (names := [type(c).__name__ for c in kept]):
            raise TrainingError(
                f"the training cannot go on exactly: it had the callbacks {', '.join(c['class'] for c in saved)}, now "
                f"{', '.join(names)}; fit(..., resume=False) begins a new one with these weights"
            )
        for callback, one in zip(kept, saved, strict=True):
            callback.restore(one["state"])

    def state(self) -> dict[str, Any]:
        """Where the training stands: with the variables, all that is needed to go on bit for bit."""
        state: dict[str, Any] = {
            "step": self.step,
            "passes": self.passes,
            "set_rate": self.set_rate,
            "fit": self.pending,
        }
        if self.loader is not None:
            state["fit"] = {
                "epoch": self.epoch, "batch": self.batch, "seen": self.seen, "inside": self._inside,
                "trained": self._trained, "over": self._over,
                "stopped": self.stop_training and self.interrupted is None,
                "kind": type(self.loader).__name__, "loader": self.loader.state(),
                "callbacks": [{"class": type(c).__name__, "state": c.state()} for c in self.callbacks if not c.display],
            }  # fmt: skip
        return state

    def take(self, state: Mapping[str, Any]) -> None:
        """Stand where a `state` was taken; the next fit goes on from there."""
        self.step, self.passes, self.set_rate = state["step"], state["passes"], state["set_rate"]
        self.pending = state["fit"]

    # ---------------------------------------------------------------- evaluate, predict

    def evaluate(self, model: Any, data: Supply, *, steps: int | None = None,
                 callbacks: CallbackList | None = None) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics over a data set."""
        with self._evaluating:
            return self._evaluated(data, steps, callbacks or CallbackList([], model))

    def _evaluated(self, data: Supply, steps: int | None, calls: CallbackList) -> dict[str, Any]:
        feed = self.feed(data, False)
        self.program.reset(TEST)
        self._call(calls, "on_test_begin")
        wants = calls.wants("on_test_batch_end")
        data.batches.epoch, data.batches.position = 0, 0
        with closing(iter(data.batches)) as batches:
            for number, batch in enumerate(batches):
                self._call(calls, "on_test_batch_begin", number)
                self.run(TEST, feed, batch, batch.count)
                self._call(calls, "on_test_batch_end", number, self.program.results(TEST) if wants else {})
                if (self._fitting and self.interrupted is not None) or number + 1 == steps:
                    break
        logs = self.program.results(TEST)
        self._call(calls, "on_test_end", logs)
        return logs

    def predict(self, model: Any, data: Supply, *, steps: int | None = None,
                callbacks: CallbackList | None = None) -> dict[str, np.ndarray]:  # fmt: skip
        """The net's outputs for every sample, in order."""
        feed = self.feed(data, False)
        calls = callbacks or CallbackList([], model)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self.program.net.outputs}
        self._call(calls, "on_predict_begin")
        with closing(iter(data.batches)) as batches:
            for number, batch in enumerate(batches):
                self._call(calls, "on_predict_batch_begin", number)
                with self.turn:
                    outputs = self.run(PREDICT, feed, batch, batch.count)
                    copied = {k: np.array(self.program.backend.to_numpy(v)) for k, v in outputs.items()}
                for name, array in copied.items():
                    parts[name].append(array)
                self._call(calls, "on_predict_batch_end", number, {"outputs": copied})
                if number + 1 == steps:
                    break
        self._call(calls, "on_predict_end")
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _batches(loader: Loader | Stream, steps: int | None) -> Iterator[Batch]:
    """The batches of an epoch; for a number of steps a data set is gone through as often as that takes."""
    yield from loader
    while steps is not None and isinstance(loader, Loader):
        count = 0
        for batch in loader:
            count += 1
            yield batch
        if not count:
            raise DataError(f"{loader.dataset.name}: no batch is left of it")
