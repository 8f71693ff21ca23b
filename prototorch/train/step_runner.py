"""Running single steps: inputs of a batch, random keys, learning rate, and the report of a loss that is not finite."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from prototorch.data.batch import Batch
from prototorch.data.loader import Loader
from prototorch.data.pipeline.batches import Batches
from prototorch.errors import TrainingError, UsageError
from prototorch.graph.trace import RANDOM_KEY
from prototorch.optimizers.schedules.base import Schedule
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.callback_list import CallbackList
from prototorch.train.callbacks import DeferredActions, LazyLogs
from prototorch.train.class_weight_field import BALANCED
from prototorch.train.class_weights import balanced_weights_error
from prototorch.train.fit_state import FitState
from prototorch.train.learning_rates import LearningRates, check_rate
from prototorch.train.nan_diagnosis import (
    ADVICE,
    Cause,
    NonFiniteStepError,
    find_cause,
    make_sample_namer,
    raise_if_not_finite,
)
from prototorch.train.plan_cache import PlanCache
from prototorch.train.precompile import BackgroundCompilation
from prototorch.train.preprocessing import AUGMENT_KEY, Preprocessor
from prototorch.train.profiler import CALLBACKS, PREPARE, Profiler
from prototorch.train.state_check import INTERVAL, describe_names, describe_states, non_finite_states
from prototorch.train.step_inputs import (
    ACCUMULATE,
    LEARNING_RATE,
    PREDICT,
    TRAIN,
    is_training,
    kind_of,
    random_key,
    step_of,
    training_phase,
)
from prototorch.train.trained_weights import Unfreezing

__all__ = ["StepRunner"]

_runners: WeakSet[StepRunner] = WeakSet()


def _reset_locks_after_fork() -> None:
    """A forked child has none of the threads that may have held a lock."""
    for runner in _runners:
        runner.make_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_locks_after_fork)


class StartedStep(NamedTuple):
    """A training step that has been started: its position, its batch, and its phase."""

    step: int
    batch: int
    feeder: BatchFeeder
    inputs: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    num_samples: int
    phase: str


class StepRunner(FitState):
    """Runs the steps of one model, from any thread: steps exclude each other.

    Attributes:
        lock: held while a step runs; hold it from a step until its outputs have been read.
        profiler: seconds of the last fit by purpose. They are in no state.
        is_fitting: whether a fit is running in some thread.
        skipped_samples: samples that the last fit could not read, the numbers of "training" and "validation".
    """

    def __init__(self, plan_cache: PlanCache, preprocessor: Preprocessor):
        super().__init__()
        self.plan_cache, self.preprocessor = plan_cache, preprocessor
        self.profiler = Profiler()
        self.is_fitting = False
        self.skipped_samples: dict[str, int] = {}
        self._recent_steps: list[StartedStep] = []
        self._known_states: list[str] = []  # those that were not finite before the fit
        self._checked_step = 0  # the last step after which all states were found finite
        self._deferred = DeferredActions()
        self._unread_logs: LazyLogs | None = None
        self._precompilation: BackgroundCompilation | None = None
        self.make_locks()
        _runners.add(self)

    def make_locks(self) -> None:
        """Make new locks, which nothing holds: at first, and in a forked child."""
        self.lock, self.evaluation_lock = threading.RLock(), threading.RLock()
        self._claim_lock = threading.Lock()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step. Raises UsageError where there are several optimizers, and for a value
        that is no finite number >= 0."""
        return self.learning_rate_of(self._only_optimizer())

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.set_learning_rate_of(self._only_optimizer(), check_rate(value))

    @property
    def learning_rates(self) -> LearningRates:
        """The learning rates of the next step, by the names of the optimizers."""
        return LearningRates(self)

    def optimizer_names(self) -> tuple[str, ...]:
        """The names of the optimizers, in their order. Raises UsageError where the model is not compiled."""
        return tuple(group.name for group in self.plan_cache.update_rules.groups)

    def learning_rate_of(self, name: str) -> float:
        """The learning rate of the next step of an optimizer."""
        if name in self.rate_overrides:
            return self.rate_overrides[name]
        rules = self.plan_cache.update_rules
        rate = rules.group(name).optimizer.learning_rate
        if not isinstance(rate, Schedule):
            return float(rate)
        return rate.value(self.epochs_done() if rate.unit == "epochs" else rules.iterations(name, self.step))

    def set_learning_rate_of(self, name: str, rate: float) -> None:
        """Override the learning rate of an optimizer."""
        self.rate_overrides[name] = rate

    def rate_logs(self) -> dict[str, float]:
        """The learning rates as the logs have them."""
        return {log: self.learning_rate_of(name) for name, log in self.plan_cache.update_rules.rate_names.items()}

    def _only_optimizer(self) -> str:
        names = self.optimizer_names()
        if len(names) > 1:
            raise UsageError(
                f"the model has {len(names)} optimizers, {', '.join(names)}: write "
                f"model.learning_rates[{names[0]!r}] for the learning rate of one"
            )
        return names[0]

    @contextmanager
    def claim_fit(self) -> Iterator[None]:
        """A fit runs inside, and no other: checked and marked in one step. Raises UsageError if one is running."""
        with self._claim_lock:
            self.ensure_idle("fit")
            self.is_fitting = True
        try:
            yield
        finally:
            self.is_fitting = False

    def ensure_idle(self, what: str) -> None:
        """Raise UsageError where a fit is running: ``what`` cannot be done beside it."""
        if self.is_fitting:
            raise UsageError(
                f"{what}: the model is in the middle of a fit (this is called by a callback, or another thread trains "
                "it); set model.stop_training = True to end that one, and wait for it"
            )

    def unfreeze(self, patterns: Sequence[str]) -> bool:
        """Train layers or weights that were frozen, from the next step on; whether any pattern is new. The optimizer's
        state stays, that of the weights is created."""
        new = [p for p in dict.fromkeys(patterns) if p not in {u.pattern for u in self.unfreezings}]
        if new:
            self.synchronize()
            with self.lock:
                self.unfreezings = (*self.unfreezings, *(Unfreezing(pattern, self.step) for pattern in new))
                self.plan_cache.set_unfreezings(self.unfreezings)
        return bool(new)

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        rules = self.plan_cache.step_graphs.rules
        names = () if rules is None else tuple(rules.rate_names)
        self.rate_overrides = {name: rate for name, rate in self.rate_overrides.items() if name in names}
        self.plan_cache.set_unfreezings(self.unfreezings)

    def make_feeder(self, data: Batches, training: bool, class_weight: Any = None) -> BatchFeeder:
        """The feeder of its batches; where preprocessing is no part of the step, it runs in the loader's threads."""
        loader = data.batches
        full_batch = loader.batch_size if isinstance(loader, Loader) and loader.has_smaller_batches else 0
        if class_weight == BALANCED and data.is_stream:
            raise balanced_weights_error()
        feeder = BatchFeeder(self.plan_cache, data.dataset, self.preprocessor, training, class_weight, full_batch)
        if self.preprocessor.has_layers and not feeder.preprocesses_on_device:
            loader.transform = feeder.preprocess
            if isinstance(loader, Loader):
                loader.transform_bytes = feeder.preprocess_bytes(data.full_batch())
        loader.batch_memory = self.plan_cache.backend.batch_memory
        is_open = any(None in node.shape for node in self.plan_cache.net.inputs)
        differ = not isinstance(loader, Loader) or loader.buckets is not None
        feeder.has_variable_sizes = is_open and differ and not feeder.preprocesses_on_device
        return feeder

    def run_step(
        self, phase: str, feeder: BatchFeeder, columns: Mapping[str, np.ndarray], count: int, number: int = 0
    ) -> dict[str, Any]:
        """Run one step on a batch. The outputs are the plan's memory, valid until the next step: hold `lock` until
        they have been read. number: of the batch, from 0, in an evaluation or a prediction.

        Raises TrainingError with the cause where the loss of a training step is not finite; the weights are then as
        they were before the step.
        """
        with self.lock:
            if self._unread_logs is not None:
                self._unread_logs.keys()  # they belong to the step before
            return self._run_step(phase, feeder, columns, count, number)

    def synchronize(self) -> None:
        """Wait until all steps are done, and check their losses.

        Raises TrainingError as `run_step` does. A GPU reports a loss that is not finite some steps later; no weight has
        been changed since.
        """
        with self.lock:
            for executor in self.plan_cache.executors():
                self._with_nan_guard(partial(executor.synchronize, raise_if_not_finite))
            self._recent_steps = []

    def note_states(self) -> None:
        """Before a fit: warn of values that are not finite. They are known from then on."""
        variables = self.plan_cache.variables
        self._known_states = non_finite_states(variables)
        if self._known_states:
            warnings.warn(
                f"before the first step these values are not finite: {describe_states(variables, self._known_states)}",
                RuntimeWarning,
                stacklevel=4,
            )
        self._checked_step = self.step

    def check_states(self) -> None:
        """Raise TrainingError where a trained weight or a slot of the optimizer has become not finite, and warn of
        other states, such as running statistics, once; see `state_check`."""
        with self.lock:
            names = non_finite_states(self.plan_cache.variables)
            names = [name for name in names if name not in self._known_states]
            trained_names = [name for name in names if self.plan_cache.is_guarded(name)]
            if trained_names:
                raise TrainingError(self._describe_states(trained_names))
            if names:
                self._known_states += names
                text = describe_states(self.plan_cache.variables, names)
                warnings.warn(f"after step {self.step} these values are not finite: {text}", RuntimeWarning, 2)
            self._checked_step = self.step

    def _describe_states(self, names: Sequence[str]) -> str:
        is_inside = self.is_fitting and self.batch
        at = f"step {self.batch} of epoch {self.epoch + 1}" if is_inside else f"step {self.step}"
        steps = self.step - self._checked_step
        since = f"in one of the last {steps} steps" if steps > 1 else "in this step"
        return (
            f"after {at} these values are not finite: {describe_states(self.plan_cache.variables, names)}. They have "
            f"become so {since}, whose losses were finite: an update has overflowed (or they were set so). The model "
            "holds them, nothing has been rolled back: load the last checkpoint, or begin "
            f"again. {ADVICE}"
        )

    def defer(self, action: Callable[[], None]) -> None:
        """Run an action after all callbacks of the current hook, so that what it saves is the state of all of them."""
        self._deferred.defer(action)

    def call_hooks(self, calls: CallbackList, hook: str, *args: Any) -> None:
        """Call a hook of all callbacks, then the actions that they deferred."""
        if calls.hooks(hook):
            with self.profiler(CALLBACKS):
                self._deferred.run(calls.call, hook, *args)

    def _run_step(
        self, phase: str, feeder: BatchFeeder, columns: Mapping[str, np.ndarray], count: int, number: int
    ) -> dict[str, Any]:
        if feeder.has_variable_sizes:
            feeder = feeder.for_batch(columns)
        if phase == TRAIN:
            phase = self._next_phase()
        executor = feeder.executor(phase, count)
        if executor is None:
            with self.profiler(PREPARE):
                if self._precompilation is not None:
                    self._precompilation.wait()
                executor = feeder.prepare_executor(phase, count)
        inputs = feeder.inputs(columns)
        if phase != PREDICT:
            inputs.update(feeder.targets_and_weights(columns))
        if RANDOM_KEY in executor.plan.inputs:
            inputs[RANDOM_KEY] = random_key(self.plan_cache.seed, self.step, number)
        if AUGMENT_KEY in executor.plan.inputs:
            inputs[AUGMENT_KEY] = random_key(columns.context.key if isinstance(columns, Batch) else 0, 0)
        if not is_training(phase):
            outputs = executor(feeder.pad(phase, count, inputs))
            is_padded = phase == PREDICT and feeder.plan_batch_size(phase, count) != count
            return {name: array[:count] for name, array in outputs.items()} if is_padded else outputs
        if kind_of(phase) == TRAIN:
            inputs.update(self._update_inputs(executor.plan.inputs))
        started_step = StartedStep(self.step, self.batch, feeder, inputs, columns, count, phase)
        self._recent_steps = [*self._recent_steps, started_step][-1 - executor.report_lag :]
        padded = feeder.pad(phase, count, inputs)
        outputs = self._with_nan_guard(lambda: executor(padded, raise_if_not_finite))
        self.step += 1
        if self.step - self._checked_step >= INTERVAL:
            self.check_states()
        return outputs

    def _next_phase(self) -> str:
        """The phase of the next training step: by its number alone, whose turn it is, and whether it updates."""
        rules = self.plan_cache.update_rules
        name = rules.step_name(self.step)
        is_update = (rules.runs_before(self.step, name) + 1) % rules.steps_per_update(name) == 0
        return training_phase(TRAIN if is_update else ACCUMULATE, name)

    def _update_inputs(self, names: Iterable[str]) -> dict[str, Any]:
        """The learning rates and the numbers of updates that a step reads."""
        rules = self.plan_cache.update_rules
        inputs: dict[str, Any] = {n: np.int64(i) for n, i in rules.input_numbers(names, self.step).items()}
        for name in names:
            if name == LEARNING_RATE or name.startswith(f"{LEARNING_RATE}:"):
                optimizer = name.partition(":")[2] or rules.groups[0].name
                inputs[name] = np.float32(self.learning_rate_of(optimizer))
        return inputs

    def _with_nan_guard(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except NonFiniteStepError as error:
            failed_step = self._recent_steps[-1 - error.steps_since]
            self.step, self.batch, self._recent_steps = failed_step.step, failed_step.batch, []
            raise TrainingError(self._describe_failure(error, failed_step)) from None

    def _describe_failure(self, error: NonFiniteStepError, step: StartedStep) -> str:
        _, _, feeder, inputs, columns, count, phase = step
        at = f"step {self.batch + 1} of epoch {self.epoch + 1}" if self.is_fitting else f"step {self.step + 1}"
        indices = columns.context.indices if isinstance(columns, Batch) else None
        if indices is not None and (len(indices) != count or int(indices.max()) >= len(feeder.data)):
            indices = None  # the batch is not made of samples of the data set
        sample = make_sample_namer(count, indices, feeder.data.origin if indices is not None else None)
        preprocessing = self.preprocessor if feeder.preprocesses_on_device else None
        try:
            cause = find_cause(self.plan_cache, feeder.fed_specs(count), inputs, sample, preprocessing, phase)
        except MemoryError:
            cause = Cause("there is not enough memory to look for the layer", bool(np.isfinite(error.loss)))
        what = "the gradient of the loss is not finite" if cause.loss_is_finite else f"the loss is {error.loss}"
        if cause.gradients_are_finite:
            names = describe_names(error.states)
            what = f"the update would make {names} not finite" if names else "the step is not finite"
        at += f", a step of {step_of(phase)!r}" if step_of(phase) else ""
        return f"{what} at {at}: {cause.text}. No weight has been changed by this step. {ADVICE}"
