"""The inputs of a plan from the columns of a batch: net inputs, targets, sample weights, padding."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.data.batch import BatchContext
from prototorch.data.binding import BoundDataset
from prototorch.data.dataset import Columns
from prototorch.engine.backends.executor import Executor
from prototorch.errors import DataError
from prototorch.spec import Spec
from prototorch.train.class_weights import find_class_weights, sample_class_weights
from prototorch.train.data_signature import input_specs, input_targets
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor
from prototorch.train.step_inputs import PREDICT, SAMPLE_MASK, SAMPLE_WEIGHT_PREFIX, TARGET_PREFIX, is_training

__all__ = ["BatchFeeder"]

MAX_PADDING_RATIO = 4  # a training batch that is smaller than the full one by more than this factor is not padded


class BatchFeeder:
    """Makes the inputs of plans from the columns of one data set, and finds the executor for each batch size.

    full_batch: the samples of most batches, where others may have fewer; a backend whose kernels are specialized for
    one batch size gets these padded. 0: batches are never padded. has_loader: whether a loader prepares batches while
    steps run; without one, preprocessing is part of the step on the CPU as well.
    """

    def __init__(
        self,
        plan_cache: PlanCache,
        data: BoundDataset,
        preprocessor: Preprocessor,
        training: bool,
        class_weight: Any = None,
        full_batch: int = 0,
        has_loader: bool = True,
    ):
        self.plan_cache, self.data, self.preprocessor, self.training = plan_cache, data, preprocessor, training
        self._specs: dict[int, dict[str, Spec]] = {}
        self._executors: dict[tuple[str, int, int], Executor] = {}
        self._unit_weights: dict[int, np.ndarray] = {}
        self._input_targets = input_targets(plan_cache, data) if plan_cache.loss_terms else {}
        self._target_columns = {**data.target_columns, **self._input_targets}
        outputs = dict.fromkeys(t.output for t in plan_cache.loss_terms)
        self._outputs_without_target = [o for o in outputs if o not in self._target_columns]
        #: whether preprocessing is part of the step, on a device
        self.preprocesses_on_device = self._can_preprocess_on_device(has_loader)
        can_pad = plan_cache.backend.is_shape_specialized and not self.preprocesses_on_device
        self.full_batch = full_batch if can_pad else 0
        #: whether batches may differ in the sizes that the net leaves open, as those of a stream may
        self.has_variable_sizes = False
        self._feeders_by_shape: dict[tuple[tuple[int, ...], ...], BatchFeeder] = {}
        weights = {} if class_weight is None else class_weight
        self.class_weight = find_class_weights(weights, plan_cache.loss_terms, data, self._output_spec)

    def for_batch(self, columns: Mapping[str, np.ndarray]) -> BatchFeeder:
        """The feeder of batches with the shapes of this one, which has plans of its own."""
        inputs = {node.name: columns[self.data.input_columns[node.name]] for node in self.plan_cache.net.inputs}
        shapes = tuple(array.shape for array in inputs.values())
        feeder = self._feeders_by_shape.get(shapes)
        if feeder is None:
            feeder = self._feeders_by_shape[shapes] = copy.copy(self)
            specs = {node.name: Spec(inputs[node.name].shape, node.dtype) for node in self.plan_cache.net.inputs}
            feeder._specs, feeder._executors = {shapes[0][0]: specs}, {}
        return feeder

    def _can_preprocess_on_device(self, has_loader: bool) -> bool:
        backend, preprocessor = self.plan_cache.backend, self.preprocessor
        if (has_loader and not backend.preprocesses_in_step) or not preprocessor.has_layers:
            return False
        if self.data.input_columns[preprocessor.name] in self._target_columns.values():
            return False  # the target is the preprocessed input
        return preprocessor.is_supported(backend, self._raw_spec(1), self.training)

    def preprocess(self, columns: Columns, context: BatchContext) -> Columns:
        """The transform of the loader: the columns with the input column preprocessed."""
        name = self.data.input_columns[self.preprocessor.name]
        return {**columns, name: self.preprocessor(columns[name], self.training, lambda: context.key)}

    def preprocess_bytes(self, batch: int) -> int:
        """Estimated bytes that preprocessing a batch of this size reads and writes."""
        return self.preprocessor.bytes_moved(self._raw_spec(batch), self.training)

    def _raw_spec(self, batch: int) -> Spec:
        column = self.data.columns[self.data.input_columns[self.preprocessor.name]]
        return Spec((batch, *column.shape), column.dtype)

    def plan_batch_size(self, phase: str, count: int) -> int:
        """The batch size of the plan for a batch of ``count`` samples, which is padded where the plan's is larger."""
        few = is_training(phase) and count * MAX_PADDING_RATIO < self.full_batch
        return count if few or count > self.full_batch or not self._pads(phase) else self.full_batch

    def _pads(self, phase: str) -> bool:
        return self.full_batch > 1 and self.plan_cache.can_pad(phase, self.specs(self.full_batch))

    def pad(self, phase: str, count: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a step on ``count`` samples, padded to the plan's batch size by repeating the last sample.

        Repeated samples have weight 0.
        """
        size, padded = self.plan_batch_size(phase, count), dict(inputs)
        if phase != PREDICT and size == self.full_batch and self._pads(phase):
            padded[SAMPLE_MASK] = (np.arange(size) < count).astype(np.float32)
        if size == count:
            return padded
        net_inputs = {node.name for node in self.plan_cache.net.inputs}
        for name in padded:
            if name in net_inputs or name.startswith(TARGET_PREFIX):
                padded[name] = _pad_with_last(padded[name], size)
            elif name.startswith(SAMPLE_WEIGHT_PREFIX):
                padded[name] = np.concatenate([padded[name], np.zeros(size - count, np.float32)])
        return padded

    def executor(self, phase: str, batch: int) -> Executor | None:
        """The executor for batches of this size; None where it has not been prepared."""
        return self._executors.get(self._executor_key(phase, batch))

    def _executor_key(self, phase: str, batch: int) -> tuple[str, int, int]:
        return phase, batch, self.plan_cache.train_revision if is_training(phase) else 0

    def prepare_executor(self, phase: str, batch: int) -> Executor:
        """The executor for batches of this size. Raises ResourceError where its plan would not fit in memory."""
        preprocessor = self.preprocessor if self.preprocesses_on_device else None
        size = self.plan_batch_size(phase, batch)
        executor = self._executors.get(self._executor_key(phase, size))
        if executor is None:
            with_mask = size == self.full_batch and self._pads(phase)
            executor = self.plan_cache.executor(phase, self.fed_specs(size), preprocessor, with_mask)
            self._executors[self._executor_key(phase, size)] = executor
        self._executors[self._executor_key(phase, batch)] = executor
        if self.preprocessor.has_layers and not self.preprocesses_on_device:
            self.preprocessor.prepare(self._raw_spec(batch), self.training)
        return executor

    def _output_spec(self, output: str) -> Spec:
        return self.plan_cache.output_specs(self.specs(1))[output]

    def specs(self, batch: int) -> dict[str, Spec]:
        """The specs of the net's inputs for a batch of this size."""
        if batch not in self._specs:
            self._specs[batch] = input_specs(self.plan_cache.net, self.data, self.preprocessor, batch)
        return self._specs[batch]

    def fed_specs(self, batch: int) -> dict[str, Spec]:
        """The specs of the arrays that are fed for a batch of this size: of inputs before preprocessing where the step
        does it, else of the net's inputs."""
        specs = self.specs(batch)
        return {**specs, self.preprocessor.name: self._raw_spec(batch)} if self.preprocesses_on_device else specs

    def inputs(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The net's inputs of a batch."""
        return {name: columns[column] for name, column in self.data.input_columns.items()}

    def targets_and_weights(self, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Targets and sample weights of a batch."""
        inputs: dict[str, np.ndarray] = {}
        for output in self._outputs_without_target:
            inputs[SAMPLE_WEIGHT_PREFIX + output] = self._sample_weights(None, columns)
        for output, column in self._target_columns.items():
            target = columns[column]
            if output in self._input_targets:
                target = self._as_target(output, target)
            inputs[TARGET_PREFIX + output] = target
            inputs[SAMPLE_WEIGHT_PREFIX + output] = self._sample_weights(target, columns)
        return inputs

    def _sample_weights(self, target: np.ndarray | None, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        count = len(next(iter(columns.values())) if target is None else target)
        ones = self._unit_weights.get(count)
        if ones is None:
            ones = self._unit_weights[count] = np.ones(count, np.float32)
        if self.class_weight and target is not None:
            ones = ones * sample_class_weights(target, self.class_weight)
        if self.data.weight is not None:
            ones = ones * columns[self.data.weight].astype(np.float32).reshape(-1)
        return ones

    def _as_target(self, output: str, array: np.ndarray) -> np.ndarray:
        """An input as the target of an output. Raises DataError where it has another number of elements."""
        term = next(t for t in self.plan_cache.loss_terms if t.output == output)
        expected = term.target_spec(self.plan_cache.output_specs(self.specs(len(array)))[output])
        if array.size != expected.size:
            raise DataError(
                f"{self.data.name}: a sample has shape {list(array.shape[1:])} after preprocess, the output "
                f"{output!r} that learns it has {list(expected.shape[1:])}"
            )
        return array.reshape(expected.shape)


def _pad_with_last(array: np.ndarray, size: int) -> np.ndarray:
    """An array [n, ...] with its last row repeated: [size, ...]."""
    return np.concatenate([array, np.repeat(array[-1:], size - len(array), axis=0)])
