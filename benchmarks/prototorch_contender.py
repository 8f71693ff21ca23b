"""prototorch among the contenders: the step is its plan and runner, without the loop around them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import prototorch as pt
from benchmarks.contender import Contender, Setup, Weights
from benchmarks.workloads import DECAY, EPOCH_RATE, MOMENTUM, RATE, Workload
from prototorch.model.model import Model
from prototorch.spec import Spec
from prototorch.train.step_inputs import LEARNING_RATE as RATE_INPUT
from prototorch.train.step_inputs import PREDICT, SAMPLE_WEIGHT_PREFIX, STEP, TARGET_PREFIX, TRAIN, random_key


def build_model(row: Workload, threads: int | None = None, dropout: bool = True) -> Model:
    """The row's model, compiled with the optimizer that all frameworks use."""
    model = pt.load_model(row.model)
    block = model.compile_block
    assert block is not None, f"{row.model} says no loss"
    if not dropout:
        nodes = tuple(replace(node, layer=_without_dropout(node.layer)) for node in model.net.nodes)
        model = Model(replace(model.net, nodes=nodes))
    sgd = pt.optimizers.SGD(RATE, momentum=MOMENTUM, l2=DECAY)
    model.set_compile(block.replace(optimizer=sgd, metrics=(), threads=threads))
    return model


def _without_dropout(layer: Any) -> Any:
    return layer.replace(rate=0.0) if isinstance(layer, pt.layers.Dropout) else layer


class PrototorchContender(Contender):
    """The step and the inference of prototorch."""

    def __init__(self, row: Workload, setup: Setup):
        super().__init__(row, setup)
        self.model = build_model(row, setup.threads, setup.dropout)
        self.count = 0

    def parameters(self) -> int:
        self.model.build()
        return sum(a.size for name, a in self.model.weights.items() if not name.endswith(("_mean", "_variance")))

    def load(self, weights: Weights) -> None:
        self.model.set_weights({**self.model.weights, **weights})

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        name = self.model.inputs[0]
        self.specs = {name: Spec(x.shape, x.dtype.name)}
        self.inputs: dict[str, Any] = {name: x, RATE_INPUT: np.float32(RATE)}
        for output in self.model.outputs:
            self.inputs[TARGET_PREFIX + output] = y
            self.inputs[SAMPLE_WEIGHT_PREFIX + output] = np.ones(len(x), np.float32)

    def train(self) -> float:
        self.count += 1
        self.inputs[STEP] = np.int64(self.count)
        self.inputs["random_key"] = random_key(0, self.count)
        runner = self._runner(TRAIN)
        return float(runner.backend.to_numpy(runner(self.inputs)["loss"]))  # on a GPU this waits for the step

    def infer(self) -> np.ndarray:
        return self._runner(PREDICT)(self.inputs)[self.model.outputs[0]]

    def epoch(self, x: np.ndarray, y: np.ndarray, batch: int) -> float:
        self.model.learning_rate = EPOCH_RATE
        history = self.model.fit(x, y, batch_size=batch, epochs=1, validation_split=0, verbose=0)
        return float(history.history["loss"][-1])

    def _runner(self, phase: str) -> Any:
        return self.model.trainer.plan_cache.executor(phase, self.specs)
