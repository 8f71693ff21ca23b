"""The training loop: epochs and steps, validation, callbacks, interruption after a step, and resuming."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from prototorch.data.loader import Loader
from prototorch.data.pipeline.batches import Batches, iterate_epoch
from prototorch.errors import ModelWarning, TrainingError, warn_user
from prototorch.optimizers.schedules.base import Schedule
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.builtin_callbacks import History
from prototorch.train.callback_list import CallbackList, check_callbacks
from prototorch.train.callbacks import Callback, LazyLogs
from prototorch.train.evaluation import evaluate, predict
from prototorch.train.fit_state import BeforeEpochEnd, EpochState
from prototorch.train.log_names import LogNames
from prototorch.train.precompile import BackgroundCompilation
from prototorch.train.profiler import CALLBACKS, DATA, PREPARE, STEPS, VALIDATION
from prototorch.train.profiler import epoch_seconds as epoch_of
from prototorch.train.schedule_length import check_schedule
from prototorch.train.signals import closing_batches, stop_on_signal
from prototorch.train.step_inputs import TRAIN
from prototorch.train.step_runner import StepRunner

__all__ = ["Trainer"]


class Trainer(StepRunner):
    """Trains, evaluates and predicts with one model. One fit and one evaluation run at a time; see `StepRunner`."""

    def fit(
        self,
        model: Any,
        data: Batches,
        validation: Batches | None,
        *,
        epochs: int,
        callbacks: Sequence[Callback],
        history: History,
        class_weight: Any = None,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_freq: int = 1,
        initial_epoch: int = 0,
        resume: bool | None = None,
    ) -> History:
        """Train. See `Model.fit`. Raises UsageError if another fit is running."""
        with self.claim_fit():
            calls = self._run_epochs(
                model,
                data,
                validation,
                epochs,
                [history, *callbacks],
                class_weight,
                steps_per_epoch,
                validation_steps,
                validation_freq,
                initial_epoch,
                resume,
            )
        if self.interrupt_signal is None:
            self.plan_cache.finalize_weights()
        self.skipped_samples = {"training": data.num_skipped()}
        data.warn_of_skipped("training samples")
        if validation is not None:
            self.skipped_samples["validation"] = validation.num_skipped()
            validation.warn_of_skipped("validation samples")
        self.call_hooks(calls, "on_train_end", dict(self.epoch_logs))
        history.stop_reason = self._stop_reason(epochs)
        if self.interrupt_signal is None and self.epoch_state is EpochState.BETWEEN_EPOCHS:
            self.epoch_state = EpochState.FINISHED
        return history

    def _run_epochs(
        self,
        model: Any,
        data: Batches,
        validation: Batches | None,
        epochs: int,
        callbacks: list[Callback],
        class_weight: Any,
        steps_per_epoch: int | None,
        validation_steps: int | None,
        validation_freq: int,
        initial_epoch: int,
        resume: bool | None,
    ) -> CallbackList:
        """All epochs of a fit; returns the callbacks for its end."""
        state = self._take_resume_state(resume, epochs)
        loader = data.batches
        feeder = self.make_feeder(data, True, class_weight)
        slots = self._slot_names()
        with self.profiler(PREPARE):  # first of all: a step that would not fit in memory is reported here
            for phase in self.plan_cache.training_phases:
                feeder.prepare_executor(phase, data.full_batch())
            self.note_states()
        if state is not None and self.step and (missing := sorted(self._slot_names() - slots)):
            raise TrainingError(
                f"the training cannot go on exactly: {len(missing)} arrays of the optimizer's state are not in the "
                f"file ({missing[0]!r}, ...); fit(..., resume=False) begins a new one with these weights"
            )
        self.loader, self.callbacks = loader, callbacks
        self.steps_per_epoch = steps_per_epoch or data.steps()
        params = {"epochs": epochs, "steps": self.steps_per_epoch, "samples": len(data.dataset),
                  "batch_size": loader.batch_size, "validation": validation is not None,
                  "directions": self.plan_cache.metrics.directions()}  # fmt: skip
        if not isinstance(loader, Loader):
            params["samples"] = params["batch_size"] = None
        self.stop_training, self.stop_reason, self.interrupt_signal = False, None, None
        self.epoch, self.is_snapshot_requested, self.epoch_logs = initial_epoch, False, {}
        self.validation_loader = None
        if validation is not None and isinstance(validation.batches, Loader):
            self.validation_loader = validation.batches
        self.epoch_state, self.before_epoch_end = EpochState.BETWEEN_EPOCHS, None
        self.dataset_epochs = max(self.dataset_epochs, initial_epoch)
        loader.epoch, loader.position = self.dataset_epochs, 0
        calls = CallbackList(self.callbacks, model, params)
        try:
            if state is not None:
                self._restore_position(state, loader)
                self.plan_cache.step_graphs.resolve_metrics(feeder.specs(1))
            has_validation = validation is not None and any(
                (epoch + 1) % validation_freq == 0 for epoch in range(initial_epoch, epochs)
            )
            metrics = self.plan_cache.metrics
            rates = tuple(self.plan_cache.update_rules.rate_names.values())
            names = LogNames.of_fit(metrics.names(), metrics.directions(), has_validation, rates)
            check_callbacks(self.callbacks, names)
            self._check_schedules(epochs)
            self._begin_training(calls, state)
            with (
                stop_on_signal(self, handle_hangup=calls.overrides("on_snapshot_request")),
                self._precompile_last_batch(feeder, data.full_batch()),
            ):
                while self.epoch_state is EpochState.ENDING or (self.epoch < epochs and not self.stop_training):
                    if self.epoch_state is not EpochState.ENDING:
                        before = self.profiler.totals()
                        logs = self._train_epoch(feeder, calls, steps_per_epoch)
                        if logs is None:
                            break
                        if validation is not None and (self.epoch + 1) % validation_freq == 0:
                            with self.profiler(VALIDATION):
                                results = evaluate(self, validation, calls, validation_steps)
                            if self.interrupt_signal is not None:
                                break
                            logs.update({f"val_{k}": v for k, v in results.items()})
                        self.epoch_seconds = epoch_of(before, self.profiler.totals())
                        self.epoch_logs = {**logs, **self.rate_logs()}
                    self._end_epoch(calls)
        except BaseException:
            for callback in self.callbacks:
                callback.on_failure()
            raise
        finally:
            self._unread_logs = None
        return calls

    def _slot_names(self) -> set[str]:
        return {name for name in self.plan_cache.variables if name.startswith(SLOT_PREFIX)}

    def _stop_reason(self, epochs: int) -> str | None:
        """Why the fit ended before its last epoch, None if it did not."""
        if self.epoch >= epochs:
            return None
        if self.interrupt_signal is not None:
            return f"it was interrupted by {signal.Signals(self.interrupt_signal).name}"
        return self.stop_reason or "a callback set stop_training"

    def _check_schedules(self, epochs: int) -> None:
        rules, steps, before = self.plan_cache.update_rules, self.steps_per_epoch, self.dataset_epochs
        if steps is not None and steps < rules.round_length:
            warn_user(
                f"an epoch has {steps} steps, and the steps {', '.join(step.name for step in rules.steps)} take "
                f"{rules.round_length} for a round: an epoch in which one of them does not run logs nan for its loss; "
                "give a smaller batch_size, or more steps_per_epoch",
                ModelWarning,
            )
        for group in rules.groups:
            schedule = group.optimizer.learning_rate
            if group.name in self.rate_overrides or not isinstance(schedule, Schedule) or self.epoch >= epochs:
                continue
            last = None if steps is None else self.step + steps * (epochs - self.epoch) - self.batch
            left = None if last is None else rules.iterations(group.name, last)
            is_counted = self.epoch_state in (EpochState.VALIDATING, EpochState.ENDING)
            begin = rules.iterations(group.name, self.step), before
            check_schedule(schedule, begin, (left, before + epochs - self.epoch - is_counted))

    def _begin_training(self, calls: CallbackList, state: Mapping[str, Any] | None) -> None:
        """Call the hooks for the beginning, and restore a saved fit: those of an epoch that had begun are called again,
        and what they change is as it was saved."""
        rates, is_stopped = dict(self.rate_overrides), self.stop_training
        self.call_hooks(calls, "on_train_begin")
        if state is None:
            return
        if self.epoch_state is not EpochState.BETWEEN_EPOCHS and not state["over"]:
            self.call_hooks(calls, "on_epoch_begin", self.epoch)
        self._restore_callbacks(state)
        self.rate_overrides, self.stop_training = rates, is_stopped

    def _end_epoch(self, calls: CallbackList) -> None:
        """Call the hooks for the end of an epoch. What is saved meanwhile, or after an error of one of them, is the
        state before all of them: when it is resumed, they are called again."""
        self.before_epoch_end = BeforeEpochEnd(self.callback_states(), dict(self.rate_overrides), self.stop_training)
        self.epoch_state = EpochState.ENDING

        def call() -> None:
            calls.call("on_epoch_end", self.epoch, dict(self.epoch_logs))
            self.epoch, self.batch = self.epoch + 1, 0
            self.epoch_state, self.before_epoch_end = EpochState.BETWEEN_EPOCHS, None

        with self.profiler(CALLBACKS):
            self._deferred.run(call, after_errors=True)
        if self.is_snapshot_requested:
            self._serve_snapshot_request(calls)

    def _serve_snapshot_request(self, calls: CallbackList) -> None:
        self.is_snapshot_requested = False
        self.synchronize()
        self.call_hooks(calls, "on_snapshot_request")

    def evaluate(
        self, model: Any, data: Batches, *, steps: int | None = None, callbacks: CallbackList | None = None
    ) -> dict[str, Any]:
        """Loss and metrics over a data set."""
        results = evaluate(self, data, callbacks or CallbackList([], model), steps)
        data.warn_of_skipped()
        return results

    def predict(
        self, model: Any, data: Batches, *, steps: int | None = None, callbacks: CallbackList | None = None
    ) -> dict[str, np.ndarray]:
        """The net's outputs for every sample, in order."""
        outputs = predict(self, data, callbacks or CallbackList([], model), steps)
        data.warn_of_skipped(consequence=" (the outputs have no rows for them)")
        return outputs

    @contextmanager
    def _precompile_last_batch(self, feeder: BatchFeeder, full_batch: int) -> Iterator[None]:
        """Inside, the plan for the smaller last batch of an epoch is made in the background, if it needs its own."""
        rest = len(feeder.data) % full_batch if feeder.full_batch else 0
        if len(self.plan_cache.training_phases) > 1:  # each is made when its turn comes
            rest = 0
        if not rest or feeder.plan_batch_size(TRAIN, rest) == full_batch or feeder.executor(TRAIN, rest) is not None:
            yield
            return
        with BackgroundCompilation(self.plan_cache, TRAIN, feeder.fed_specs(rest)) as self._precompilation:
            try:
                yield
            finally:
                self._precompilation = None

    def _train_epoch(self, feeder: BatchFeeder, calls: CallbackList, steps: int | None) -> dict[str, Any] | None:
        """Train for an epoch, or for the rest of one; gives its loss and metrics, None where it was interrupted."""
        if self.epoch_state not in (EpochState.TRAINING, EpochState.VALIDATING):
            loader = self.loader
            assert loader is not None
            if steps is None or not isinstance(loader, Loader):  # else the data continue where the last epoch ended
                loader.epoch, loader.position = self.dataset_epochs, 0
            self.plan_cache.metrics.reset(TRAIN)
            self.batch = self.samples_seen = 0
            self.call_hooks(calls, "on_epoch_begin", self.epoch)
            self.epoch_state = EpochState.TRAINING
        if self.epoch_state is EpochState.TRAINING:
            is_complete = self._train_steps(feeder, calls, steps)
            if is_complete:
                self.epoch_state = EpochState.VALIDATING
            self.synchronize()
            self.check_states()
            if is_complete:
                self.dataset_epochs += 1
            if self.interrupt_signal is not None:
                return None
        return self.plan_cache.metrics.results(TRAIN)

    def _train_steps(self, feeder: BatchFeeder, calls: CallbackList, steps: int | None) -> bool:
        """Run the steps of an epoch; gives whether it is complete."""
        if steps is not None and self.batch >= steps:
            return True
        needs_logs = calls.overrides("on_train_batch_end")
        assert self.loader is not None
        with closing_batches(iterate_epoch(self.loader, steps)) as batches:
            while True:
                with self.profiler(DATA):
                    batch = next(batches, None)
                if batch is None:
                    return True
                number = self.batch
                self.call_hooks(calls, "on_train_batch_begin", number)
                with self.profiler(STEPS), self.lock:
                    outputs = self.run_step(TRAIN, feeder, batch, batch.num_samples)
                    logs = self._logs(outputs) if needs_logs else {}
                self.batch, self.samples_seen = number + 1, self.samples_seen + batch.num_samples
                self.call_hooks(calls, "on_train_batch_end", number, logs)
                self._unread_logs = None
                if self.is_snapshot_requested:
                    self._serve_snapshot_request(calls)
                if steps is not None and self.batch >= steps:
                    return True
                if self.stop_training:
                    return self.interrupt_signal is None  # a callback ends the epoch; a signal leaves it incomplete

    def _logs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Loss and metrics so far; those on a device are read when a callback looks, or before its next step."""
        if not self.plan_cache.backend.is_asynchronous:
            return self._read_logs(outputs)
        self._unread_logs = LazyLogs(partial(self._read_logs, outputs))
        return self._unread_logs

    def _read_logs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        loss = float(self.plan_cache.backend.to_numpy(outputs["loss"]))
        return {**self.plan_cache.metrics.results(TRAIN), "batch_loss": loss}
