"""The loop: epochs and steps, validation, callbacks, stopping at a step's end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from prototorch.data.batch import Batch
from prototorch.data.binding import Bound
from prototorch.data.loader import Loader
from prototorch.errors import TrainingError
from prototorch.graph.trace import KEY
from prototorch.optim import Schedule
from prototorch.train.callbacks import Callback, CallbackList
from prototorch.train.feed import Feed
from prototorch.train.program import PREDICT, RATE, STEP, TEST, TRAIN, Program
from prototorch.train.standard import History
from prototorch.train.transform import Preparation


class Trainer:
    """Trains, evaluates and predicts with one program. Holds what changes while training: step, epoch, learning rate."""

    def __init__(self, program: Program, preparation: Preparation):
        self.program, self.preparation = program, preparation
        self.step = 0
        self.epoch = 0
        self.set_rate: float | None = None
        self.stop_training = False
        self.interrupted: int | None = None
        self.loader: Loader | None = None
        self.pending: dict[str, Any] | None = None  # a state to go on from, taken by the next fit
        self.callbacks: list[Callback] = []

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
        self.set_rate = float(value)

    def run(self, phase: str, feed: Feed, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
        """One step on a batch. What it gives back is the plan's memory, good until the next step."""
        runner = self.program.runner(phase, feed.specs(count))
        inputs = feed.inputs(dict(columns))
        if phase != PREDICT:
            inputs.update(feed.supervision(dict(columns)))
        if KEY in runner.plan.inputs:
            inputs[KEY] = np.array([self.program.seed & (2**64 - 1), self.step], np.uint64)
        if phase == TRAIN:
            inputs[RATE], inputs[STEP] = np.float32(self.learning_rate), np.int64(self.step + 1)
        outputs = runner(inputs)
        if phase == TRAIN:
            self.step += 1
        return outputs

    # ---------------------------------------------------------------- fit

    def fit(self, model: Any, data: Bound, loader: Loader, validation: tuple[Bound, Loader] | None, *,
            epochs: int, callbacks: Sequence[Callback], history: History, class_weight: Mapping[int, float] | None,
            steps_per_epoch: int | None, validation_steps: int | None, validation_freq: int,
            initial_epoch: int = 0) -> History:  # fmt: skip
        """Train. See `Model.fit`."""
        feed = Feed(self.program, data, self.preparation, True, class_weight)
        if self.preparation.needed:
            loader.transform = feed.transform
        self.loader, self.callbacks = loader, [history, *callbacks]
        steps = min(steps_per_epoch or len(loader), len(loader))
        params = {"epochs": epochs, "steps": steps, "samples": len(data), "batch_size": loader.batch_size}
        self.stop_training, self.interrupted, self.epoch = False, None, initial_epoch
        calls = CallbackList(self.callbacks, model, params)
        started_inside = self._resume(calls, loader)
        calls.call("on_train_begin")
        with stopping(self):
            while self.epoch < epochs and not self.stop_training:
                if not started_inside:
                    self.program.reset(TRAIN)
                    calls.call("on_epoch_begin", self.epoch)
                    loader.epoch, loader.position = self.epoch, 0
                self._epoch(feed, loader, calls, steps_per_epoch)
                started_inside = False
                if self.interrupted is not None:
                    break
                logs = self.program.results(TRAIN)
                if validation is not None and (self.epoch + 1) % validation_freq == 0:
                    found = self.evaluate(model, *validation, steps=validation_steps, callbacks=calls)
                    logs.update({f"val_{k}": v for k, v in found.items()})
                logs["learning_rate"] = self.learning_rate
                epoch, self.epoch = self.epoch, self.epoch + 1
                loader.epoch, loader.position = self.epoch, 0
                calls.call("on_epoch_end", epoch, logs)
                if self.interrupted is not None:
                    break
        if self.interrupted is None:
            self.program.finish()
        calls.call("on_train_end")
        return history

    def _epoch(self, feed: Feed, loader: Loader, calls: CallbackList, steps: int | None) -> None:
        wants = calls.wants("on_train_batch_end")
        number = loader.position // loader.batch_size
        with closing(iter(loader)) as batches:
            if steps is not None and number >= steps:
                return
            for batch in batches:
                calls.call("on_train_batch_begin", number)
                outputs = self.run(TRAIN, feed, batch, batch.count)
                logs: dict[str, Any] = {}
                if wants:
                    logs = {**self.program.results(TRAIN), "batch_loss": float(outputs["loss"])}
                calls.call("on_train_batch_end", number, logs)
                number += 1
                if self.stop_training or (steps is not None and number >= steps):
                    break

    def _resume(self, calls: CallbackList, loader: Loader) -> bool:
        """Take up a state left by an earlier run; whether it stands inside an epoch."""
        state, self.pending = self.pending, None
        if state is None:
            return False
        self.epoch, self.step, self.set_rate = state["epoch"], state["step"], state["set_rate"]
        loader.restore(state["loader"])
        kept = state["callbacks"]
        kept_by = [c for c in calls.callbacks if not c.display]
        names = [type(c).__name__ for c in kept_by]
        if [c["class"] for c in kept] != names:
            raise TrainingError(
                f"the training cannot go on exactly: it had the callbacks {[c['class'] for c in kept]}, now {names}"
            )
        for callback, saved in zip(kept_by, kept, strict=True):
            callback.restore(saved["state"])
        return loader.position > 0

    def state(self) -> dict[str, Any]:
        """Where the training stands: with the variables, all that is needed to go on bit for bit."""
        assert self.loader is not None, "there has been no fit"
        return {
            "epoch": self.epoch,
            "step": self.step,
            "set_rate": self.set_rate,
            "seed": self.program.seed,
            "loader": self.loader.state(),
            "callbacks": [{"class": type(c).__name__, "state": c.state()} for c in self.callbacks if not c.display],
        }

    # ---------------------------------------------------------------- evaluate, predict

    def evaluate(self, model: Any, data: Bound, loader: Loader, *, steps: int | None = None,
                 callbacks: CallbackList | None = None) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics over a data set."""
        feed = Feed(self.program, data, self.preparation, False)
        if self.preparation.needed:
            loader.transform = feed.transform
        calls = callbacks or CallbackList([], model)
        self.program.reset(TEST)
        calls.call("on_test_begin")
        loader.epoch, loader.position = 0, 0
        with closing(iter(loader)) as batches:
            for number, batch in enumerate(batches):
                if steps is not None and number >= steps:
                    break
                calls.call("on_test_batch_begin", number)
                self.run(TEST, feed, batch, batch.count)
                calls.call("on_test_batch_end", number, {})
                if self.interrupted is not None:
                    break
        logs = self.program.results(TEST)
        calls.call("on_test_end", logs)
        return logs

    def predict(self, model: Any, data: Bound, loader: Loader, *, steps: int | None = None,
                callbacks: CallbackList | None = None) -> dict[str, np.ndarray]:  # fmt: skip
        """The net's outputs for every sample, in order."""
        feed = Feed(self.program, data, self.preparation, False)
        if self.preparation.needed:
            loader.transform = feed.transform
        calls = callbacks or CallbackList([], model)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self.program.net.outputs}
        calls.call("on_predict_begin")
        with closing(iter(loader)) as batches:
            for number, batch in enumerate(batches):
                if steps is not None and number >= steps:
                    break
                calls.call("on_predict_batch_begin", number)
                outputs = self.run(PREDICT, feed, batch, batch.count)
                copied = {k: np.array(self.program.backend.to_numpy(v)) for k, v in outputs.items()}
                for name, array in copied.items():
                    parts[name].append(array)
                calls.call("on_predict_batch_end", number, {"outputs": copied})
        calls.call("on_predict_end")
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}


@contextmanager
def closing(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """The loader's threads end when the loop does, however it ends."""
    try:
        yield batches
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


@contextmanager
def stopping(trainer: Trainer) -> Iterator[None]:
    """Inside, the first Ctrl-C (or SIGTERM) lets the step end and the fit return; the second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if trainer.interrupted is not None:
            raise KeyboardInterrupt
        trainer.interrupted, trainer.stop_training = number, True

    kept = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
