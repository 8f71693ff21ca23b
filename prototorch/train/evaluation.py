"""Evaluation and prediction over the batches of a data set."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.data.batch import Batch
from prototorch.data.pipeline.batches import Batches
from prototorch.runtime.variables import SLOT_PREFIX
from prototorch.train.batch_feeder import BatchFeeder
from prototorch.train.callback_list import CallbackList
from prototorch.train.nan_diagnosis import make_sample_namer
from prototorch.train.signals import closing_batches
from prototorch.train.state_check import describe_states, non_finite_states
from prototorch.train.step_inputs import PREDICT, TARGET_PREFIX, TEST
from prototorch.train.step_runner import StepRunner

__all__ = ["evaluate", "predict", "predict_with_targets", "warn_of_nan_outputs"]


def evaluate(runner: StepRunner, data: Batches, calls: CallbackList, steps: int | None = None) -> dict[str, Any]:
    """Loss and metrics over a data set, or over its first ``steps`` batches. An interrupted fit ends it early."""
    with runner.evaluation_lock:
        feeder, metrics = runner.make_feeder(data, False), runner.plan_cache.metrics
        metrics.reset(TEST)
        runner.call_hooks(calls, "on_test_begin")
        needs_logs = calls.overrides("on_test_batch_end")
        data.batches.epoch, data.batches.position = 0, 0
        with closing_batches(iter(data.batches)) as batches:
            for number, batch in enumerate(batches):
                runner.call_hooks(calls, "on_test_batch_begin", number)
                runner.run_step(TEST, feeder, batch, batch.num_samples, number)
                runner.call_hooks(calls, "on_test_batch_end", number, metrics.results(TEST) if needs_logs else {})
                if (runner.is_fitting and runner.interrupt_signal is not None) or number + 1 == steps:
                    break
        logs = metrics.results(TEST)
        bad = next((name for name in metrics.loss_names if not math.isfinite(logs.get(name, 0.0))), None)
        if bad is not None:
            _warn(runner, f"the {bad} of the evaluation is {logs[bad]}")
        runner.call_hooks(calls, "on_test_end", logs)
        return logs


def predict(runner: StepRunner, data: Batches, calls: CallbackList, steps: int | None = None) -> dict[str, np.ndarray]:
    """The net's outputs [samples, ...] by name, for every sample in order, or for the first ``steps`` batches."""
    feeder = runner.make_feeder(data, False)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in runner.plan_cache.net.outputs}
    runner.call_hooks(calls, "on_predict_begin")
    with closing_batches(iter(data.batches)) as batches:
        for number, batch in enumerate(batches):
            runner.call_hooks(calls, "on_predict_batch_begin", number)
            copies = _predict_batch(runner, feeder, batch, number)
            for name, array in copies.items():
                parts[name].append(array)
            runner.call_hooks(calls, "on_predict_batch_end", number, {"outputs": copies})
            if number + 1 == steps:
                break
    runner.call_hooks(calls, "on_predict_end")
    outputs = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    warn_of_nan_outputs(runner, outputs)
    return outputs


def predict_with_targets(
    runner: StepRunner, data: Batches
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Batch by batch the outputs of the net and the targets of those that have a loss: [samples, ...] by output."""
    feeder = runner.make_feeder(data, False)
    data.batches.epoch, data.batches.position = 0, 0
    with runner.evaluation_lock, closing_batches(iter(data.batches)) as batches:
        for number, batch in enumerate(batches):
            outputs = _predict_batch(runner, feeder, batch, number)
            targets = feeder.targets_and_weights(batch)
            yield outputs, {name: targets[TARGET_PREFIX + name] for name in outputs if TARGET_PREFIX + name in targets}


def _predict_batch(runner: StepRunner, feeder: BatchFeeder, batch: Batch, number: int) -> dict[str, np.ndarray]:
    """The outputs for a batch, copied."""
    with runner.lock:
        outputs = runner.run_step(PREDICT, feeder, batch, batch.num_samples, number)
        to_numpy = runner.plan_cache.backend.to_numpy
        return {name: np.array(to_numpy(array))[: batch.num_samples] for name, array in outputs.items()}


def warn_of_nan_outputs(runner: StepRunner, outputs: Mapping[str, np.ndarray]) -> None:
    """Issue a RuntimeWarning for outputs that are NaN, with the samples and what explains them."""
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.size and np.isnan(array.min()):
            rows = np.flatnonzero(np.isnan(array.reshape(len(array), -1)).any(axis=1)).tolist()
            _warn(runner, f"the output {name!r} is NaN for {make_sample_namer(len(array), None, None)(rows)}")


def _warn(runner: StepRunner, what: str) -> None:
    """Issue a RuntimeWarning about results that are not finite, with the weights that explain them."""
    variables = runner.plan_cache.variables
    names = [n for n in non_finite_states(variables) if not n.startswith(SLOT_PREFIX)]
    cause = f"{describe_states(variables, names)} not finite" if names else "all weights are finite: look at the inputs"
    warnings.warn(f"{what}: {cause}", RuntimeWarning, stacklevel=4)
