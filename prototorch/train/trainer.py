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
from prototorch.data.binding import BoundDataset
from prototorch.data.loader import Loader
from prototorch.data.stream import BatchStream
from prototorch.errors import DataError, TrainingError, UsageError
from prototorch.graph.trace import RANDOM_KEY
from prototorch.optimizers import Schedule
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.builtin_callbacks import History
from prototorch.train.callbacks import Callback, CallbackList, LazyLogs
from prototorch.train.nan_diagnosis import (
    ADVICE,
    NonFiniteLossError,
    find_cause,
    make_sample_namer,
    raise_if_not_finite,
)
from prototorch.train.plan_cache import LEARNING_RATE, PREDICT, STEP, TEST, TRAIN, PlanCache, random_key
from prototorch.train.precompile import BackgroundCompilation
from prototorch.train.preprocessing import AUGMENT_KEY, Preprocessor
from prototorch.train.profiler import CALLBACKS, DATA, PREPARE, STEPS, VALIDATION, Profiler
from prototorch.train.profiler import epoch_seconds as epoch_of
from prototorch.train.signals import closing_batches, stop_on_signal

#: what `Trainer.state` gives, and of a fit
STATE_KEYS = {"step", "passes", "set_rate", "fit"}
FIT_STATE_KEYS = {"epoch", "batch", "seen", "inside", "trained", "over", "stopped", "kind", "loader", "callbacks"}


class BatchSource(NamedTuple):
    """Data bound to the model, and what makes batches of them."""

    dataset: BoundDataset
    batches: Loader | BatchStream

    def steps(self) -> int | None:
        """The batches of an epoch, where that is known."""
        if isinstance(self.batches, BatchStream):
            return self.batches.steps
        return len(self.batches)


class _DeferredActions(threading.local):
    """What a thread does when all its callbacks have been called; None while none is called."""

    pending: list[Callable[[], None]] | None = None


class StartedStep(NamedTuple):
    """A training step that was begun: where it stands, and what it was fed."""

    step: int
    batch: int
    feed: BatchFeeder
    inputs: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    samples: int


_trainers: WeakSet[Trainer] = WeakSet()


def _reset_locks_after_fork() -> None:
    """A forked child has none of the threads that may have held a turn."""
    for trainer in _trainers:
        trainer._make_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_locks_after_fork)


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

    def __init__(self, program: PlanCache, preparation: Preprocessor):
        self.plan_cache, self.preprocessor = program, preparation
        self.step = self.dataset_epochs = 0
        self.epoch = self.batch = self.samples_seen = 0
        self.learning_rate_override: float | None = None
        self.stop_training = False
        self.interrupt_signal: int | None = None
        self.loader: Loader | BatchStream | None = None
        self.resume_state: dict[str, Any] | None = None
        self.callbacks: list[Callback] = []
        self.profiler, self.epoch_seconds = Profiler(), dict[str, float]()
        self._inside = self._trained = self._over = self._is_fitting = False
        self._recent_steps: list[StartedStep] = []
        self._make_locks()
        self._deferred = _DeferredActions()
        self._unread_logs: LazyLogs | None = None
        self._precompilation: BackgroundCompilation | None = None
        _trainers.add(self)

    def _make_locks(self) -> None:
        self.lock, self._evaluate_lock = threading.RLock(), threading.RLock()

    # ---------------------------------------------------------------- steps

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        if self.learning_rate_override is not None:
            return self.learning_rate_override
        rate = self.plan_cache.optimizer.learning_rate
        return rate.value(self.step) if isinstance(rate, Schedule) else float(rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        number = not isinstance(value, bool | str | bytes) and np.ndim(value) == 0
        rate = float(value) if number and value is not None else math.nan
        if not 0 <= rate < math.inf:
            raise UsageError(f"learning_rate must be a number of at least 0, not {value!r}")
        self.learning_rate_override = rate

    def run_step(self, phase: str, feed: BatchFeeder, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
        """One step on a batch. What it gives back is the plan's memory, good until the next step: who reads it holds
        ``turn`` until then.

        Raises TrainingError with the cause where the loss of a training step is not finite; the weights are then as
        they were before the step.
        """
        with self.lock:
            if self._unread_logs is not None:
                self._unread_logs.keys()  # they tell of the step before
            return self._run_step(phase, feed, columns, count)

    def _run_step(self, phase: str, feed: BatchFeeder, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
        runner = feed.executor(phase, count)
        if runner is None:
            with self.profiler(PREPARE):
                if self._precompilation is not None:
                    self._precompilation.wait()
                runner = feed.prepare_executor(phase, count)
        inputs = feed.inputs(columns)
        if phase != PREDICT:
            inputs.update(feed.targets_and_weights(columns))
        if RANDOM_KEY in runner.plan.inputs:
            inputs[RANDOM_KEY] = random_key(self.plan_cache.seed, self.step)
        if AUGMENT_KEY in runner.plan.inputs:
            inputs[AUGMENT_KEY] = random_key(columns.context.key if isinstance(columns, Batch) else 0, 0)
        if phase == TRAIN:
            inputs[LEARNING_RATE], inputs[STEP] = np.float32(self.learning_rate), np.int64(self.step + 1)
        if phase != TRAIN:
            outputs = runner(feed.pad(phase, count, inputs))
            filled = phase == PREDICT and feed.plan_batch_size(phase, count) != count
            return {name: array[:count] for name, array in outputs.items()} if filled else outputs
        begun = StartedStep(self.step, self.batch, feed, inputs, columns, count)
        self._recent_steps = [*self._recent_steps, begun][-1 - runner.report_lag :]
        fed = feed.pad(phase, count, inputs)
        outputs = self._with_nan_guard(lambda: runner(fed, raise_if_not_finite))
        self.step += 1
        return outputs

    def synchronize(self) -> None:
        """Wait until all steps are done, and look at their losses.

        Raises TrainingError as `run` does. A GPU tells of a loss that is not finite some steps later; no weight has
        been changed since.
        """
        with self.lock:
            for runner in self.plan_cache.executors():
                self._with_nan_guard(partial(runner.synchronize, raise_if_not_finite))
            self._recent_steps = []

    def ensure_idle(self, what: str) -> None:
        """Raise UsageError where a fit is under way: ``what`` cannot be done beside it."""
        if self._is_fitting:
            raise UsageError(
                f"{what}: the model is in the middle of a fit (this is called by a callback, or another thread trains "
                "it); set model.stop_training = True to end that one, and wait for it"
            )

    def _with_nan_guard(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except NonFiniteLossError as stop:
            begun = self._recent_steps[-1 - stop.steps_since]
            self.step, self.batch, self._recent_steps = begun.step, begun.batch, []
            raise TrainingError(self._describe_failure(stop.loss, *begun[2:])) from None

    def _describe_failure(self, loss: float, feed: BatchFeeder, inputs: Mapping[str, Any],
                          columns: Mapping[str, np.ndarray], count: int) -> str:  # fmt: skip
        """What is said of a loss that is not finite."""
        at = f"step {self.batch + 1} of epoch {self.epoch + 1}" if self._is_fitting else f"step {self.step + 1}"
        indices = columns.context.indices if isinstance(columns, Batch) else None
        known = indices is not None and len(indices) == count and int(indices.max()) < len(feed.data)
        try:
            why = find_cause(self.plan_cache, feed.fed_specs(count), inputs,
                        make_sample_namer(count, indices if known else None, feed.data.origin if known else None),
                        self.preprocessor if feed.preprocesses_on_device else None)  # fmt: skip
        except MemoryError:
            why = "there is not enough memory to look for the layer"
        return f"the loss is {loss} at {at}: {why}. No weight has been changed by this step. {ADVICE}"

    # ---------------------------------------------------------------- fit

    def fit(self, model: Any, data: BatchSource, validation: BatchSource | None, *, epochs: int,
            callbacks: Sequence[Callback], history: History,
            class_weight: Mapping[int, float] | None = None, steps_per_epoch: int | None = None,
            validation_steps: int | None = None, validation_freq: int = 1, initial_epoch: int = 0,
            resume: bool | None = None) -> History:  # fmt: skip
        """Train. See `Model.fit`."""
        state = self._state_to_resume(resume, epochs)
        loader = data.batches
        feed = self.make_feeder(data, True, class_weight)
        whole = len(data.dataset) if isinstance(loader, BatchStream) else min(loader.batch_size, len(data.dataset))
        with self.profiler(PREPARE):  # now: what would not fit in memory is told before all else
            feed.prepare_executor(TRAIN, whole)
        self.loader, self.callbacks = loader, [history, *callbacks]
        params = {"epochs": epochs, "steps": steps_per_epoch or data.steps(), "samples": len(data.dataset),
                  "batch_size": loader.batch_size, "validation": validation is not None}  # fmt: skip
        if isinstance(loader, BatchStream):
            params["samples"] = params["batch_size"] = None
        self.stop_training, self.interrupt_signal, self.epoch = False, None, initial_epoch
        self._inside = self._trained = self._over = False
        self.dataset_epochs = max(self.dataset_epochs, initial_epoch)
        loader.epoch, loader.position = self.dataset_epochs, 0
        calls = CallbackList(self.callbacks, model, params)
        self._is_fitting = True
        try:
            if state is not None:
                self._restore(state, loader)
                self.plan_cache.resolve_metrics(feed.specs(1))
            self._call_hooks(calls, "on_train_begin")
            if state is not None:
                self._restore_callbacks(state)
            with stop_on_signal(self), self._precompile_last_batch(feed, whole):
                while self.epoch < epochs and not self.stop_training:
                    began = self.profiler.totals()
                    logs = self._train_epoch(feed, calls, steps_per_epoch)
                    if logs is None:
                        break
                    if validation is not None and (self.epoch + 1) % validation_freq == 0:
                        with self.profiler(VALIDATION):
                            found = self.evaluate(model, validation, steps=validation_steps, callbacks=calls)
                        if self.interrupt_signal is not None:
                            break
                        logs.update({f"val_{k}": v for k, v in found.items()})
                    logs["learning_rate"] = self.learning_rate
                    epoch, self.epoch, self.batch = self.epoch, self.epoch + 1, 0
                    self._inside = self._trained = False
                    self.epoch_seconds = epoch_of(began, self.profiler.totals())
                    self._call_hooks(calls, "on_epoch_end", epoch, logs)
        except BaseException:
            for callback in self.callbacks:
                callback.on_failure()
            raise
        finally:
            self._is_fitting, self._unread_logs = False, None
        if self.interrupt_signal is None:
            self.plan_cache.finalize_weights()
        self._call_hooks(calls, "on_train_end")
        self._over = self.interrupt_signal is None
        return history

    @contextmanager
    def _precompile_last_batch(self, feed: BatchFeeder, whole: int) -> Iterator[None]:
        """Inside, the plan for the smaller last batch of an epoch is made beside the first steps, where it needs one of
        its own."""
        rest = len(feed.data) % whole if feed.full_batch else 0
        if not rest or feed.plan_batch_size(TRAIN, rest) == whole or feed.executor(TRAIN, rest) is not None:
            yield
            return
        with BackgroundCompilation(self.plan_cache, TRAIN, feed.fed_specs(rest)) as self._precompilation:
            try:
                yield
            finally:
                self._precompilation = None

    def _train_epoch(self, feed: BatchFeeder, calls: CallbackList, steps: int | None) -> dict[str, Any] | None:
        """Train for an epoch, or for the rest of one; its loss and metrics, None where it was interrupted."""
        if not self._inside:
            loader = self.loader
            assert loader is not None
            if steps is None or isinstance(loader, BatchStream):  # else the data go on where the epoch before ended
                loader.epoch, loader.position = self.dataset_epochs, 0
            self.plan_cache.reset_metrics(TRAIN)
            self.batch = self.samples_seen = 0
            self._call_hooks(calls, "on_epoch_begin", self.epoch)
            self._inside = True
        if not self._trained:
            self._trained = self._train_steps(feed, calls, steps)
            self.synchronize()
            if self._trained:
                self.dataset_epochs += 1
            if self.interrupt_signal is not None:
                return None
        return self.plan_cache.metric_results(TRAIN)

    def _train_steps(self, feed: BatchFeeder, calls: CallbackList, steps: int | None) -> bool:
        """The steps of an epoch; whether it has come to its end."""
        if steps is not None and self.batch >= steps:
            return True
        wants = calls.overrides("on_train_batch_end")
        assert self.loader is not None
        with closing_batches(_batches(self.loader, steps)) as batches:
            while True:
                with self.profiler(DATA):
                    batch = next(batches, None)
                if batch is None:
                    return True
                number = self.batch
                self._call_hooks(calls, "on_train_batch_begin", number)
                with self.profiler(STEPS), self.lock:
                    outputs = self.run_step(TRAIN, feed, batch, batch.num_samples)
                    logs = self._logs(outputs) if wants else {}
                self.batch, self.samples_seen = number + 1, self.samples_seen + batch.num_samples
                self._call_hooks(calls, "on_train_batch_end", number, logs)
                self._unread_logs = None
                if steps is not None and self.batch >= steps:
                    return True
                if self.stop_training:
                    return self.interrupt_signal is None  # a callback ends the epoch here; a signal leaves it open

    def _logs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Loss and metrics so far; from a device they are read when somebody looks, or before its next step."""
        if not self.plan_cache.backend.is_asynchronous:
            return self._read_logs(outputs)
        self._unread_logs = LazyLogs(partial(self._read_logs, outputs))
        return self._unread_logs

    def _read_logs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        loss = float(self.plan_cache.backend.to_numpy(outputs["loss"]))
        return {**self.plan_cache.metric_results(TRAIN), "batch_loss": loss}

    def make_feeder(
        self, data: BatchSource, training: bool, class_weight: Mapping[int, float] | None = None
    ) -> BatchFeeder:
        """What feeds its batches to the program; the model's own preparation runs in its threads."""
        loader = data.batches
        whole = loader.batch_size if isinstance(loader, Loader) and loader.has_smaller_batches else 0
        feed = BatchFeeder(self.plan_cache, data.dataset, self.preprocessor, training, class_weight, whole)
        if self.preprocessor.has_layers and not feed.preprocesses_on_device:
            data.batches.transform = feed.preprocess
            if isinstance(data.batches, Loader):
                data.batches.transform_bytes = feed.preprocess_bytes(min(data.batches.batch_size, len(data.dataset)))
        return feed

    # ---------------------------------------------------------------- callbacks and state

    def defer(self, action: Callable[[], None]) -> None:
        """Do something when all callbacks have been called: what is saved then is what each of them knows by then."""
        if self._deferred.pending is None:
            action()
        else:
            self._deferred.pending.append(action)

    def _call_hooks(self, calls: CallbackList, hook: str, *args: Any) -> None:
        later, actions = self._deferred, list[Callable[[], None]]()
        waiting, later.pending = later.pending, actions
        with self.profiler(CALLBACKS):
            try:
                calls.call(hook, *args)
            finally:
                later.pending = waiting
            for action in actions:
                action()

    def _state_to_resume(self, resume: bool | None, epochs: int) -> dict[str, Any] | None:
        """The state to go on from; it is taken but once."""
        state, self.resume_state = self.resume_state, None
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

    def _restore(self, state: Mapping[str, Any], loader: Loader | BatchStream) -> None:
        kind = loader.state_kind
        if state["kind"] != kind:
            raise TrainingError(
                f"the training cannot go on exactly: its data came from a {state['kind']}, now from a {kind}; "
                "fit(..., resume=False) begins a new one with these weights"
            )
        loader.restore(state["loader"])
        self.epoch, self.batch, self.samples_seen = state["epoch"], state["batch"], state["seen"]
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
            "passes": self.dataset_epochs,
            "set_rate": self.learning_rate_override,
            "fit": self.resume_state,
        }
        if self.loader is not None:
            state["fit"] = {
                "epoch": self.epoch, "batch": self.batch, "seen": self.samples_seen, "inside": self._inside,
                "trained": self._trained, "over": self._over,
                "stopped": self.stop_training and self.interrupt_signal is None,
                "kind": self.loader.state_kind, "loader": self.loader.state(),
                "callbacks": [{"class": type(c).__name__, "state": c.state()} for c in self.callbacks if not c.display],
            }  # fmt: skip
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Stand where a `state` was taken; the next fit goes on from there."""
        self.step, self.dataset_epochs, self.learning_rate_override = state["step"], state["passes"], state["set_rate"]
        self.resume_state = state["fit"]

    # ---------------------------------------------------------------- evaluate, predict

    def evaluate(self, model: Any, data: BatchSource, *, steps: int | None = None,
                 callbacks: CallbackList | None = None) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics over a data set."""
        with self._evaluate_lock:
            return self._evaluate(data, steps, callbacks or CallbackList([], model))

    def _evaluate(self, data: BatchSource, steps: int | None, calls: CallbackList) -> dict[str, Any]:
        feed = self.make_feeder(data, False)
        self.plan_cache.reset_metrics(TEST)
        self._call_hooks(calls, "on_test_begin")
        wants = calls.overrides("on_test_batch_end")
        data.batches.epoch, data.batches.position = 0, 0
        with closing_batches(iter(data.batches)) as batches:
            for number, batch in enumerate(batches):
                self._call_hooks(calls, "on_test_batch_begin", number)
                self.run_step(TEST, feed, batch, batch.num_samples)
                self._call_hooks(
                    calls, "on_test_batch_end", number, self.plan_cache.metric_results(TEST) if wants else {}
                )
                if (self._is_fitting and self.interrupt_signal is not None) or number + 1 == steps:
                    break
        logs = self.plan_cache.metric_results(TEST)
        self._call_hooks(calls, "on_test_end", logs)
        return logs

    def predict(self, model: Any, data: BatchSource, *, steps: int | None = None,
                callbacks: CallbackList | None = None) -> dict[str, np.ndarray]:  # fmt: skip
        """The net's outputs for every sample, in order."""
        feed = self.make_feeder(data, False)
        calls = callbacks or CallbackList([], model)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self.plan_cache.net.outputs}
        self._call_hooks(calls, "on_predict_begin")
        with closing_batches(iter(data.batches)) as batches:
            for number, batch in enumerate(batches):
                self._call_hooks(calls, "on_predict_batch_begin", number)
                with self.lock:
                    outputs = self.run_step(PREDICT, feed, batch, batch.num_samples)
                    copied = {k: np.array(self.plan_cache.backend.to_numpy(v)) for k, v in outputs.items()}
                for name, array in copied.items():
                    parts[name].append(array)
                self._call_hooks(calls, "on_predict_batch_end", number, {"outputs": copied})
                if number + 1 == steps:
                    break
        self._call_hooks(calls, "on_predict_end")
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _batches(loader: Loader | BatchStream, steps: int | None) -> Iterator[Batch]:
    """The batches of an epoch; for a number of steps a data set is gone through as often as that takes."""
    yield from loader
    while steps is not None and isinstance(loader, Loader):
        count = 0
        for batch in loader:
            count += 1
            yield batch
        if not count:
            raise DataError(f"{loader.dataset.name}: no batch is left of it")
