"""A model on the fake device, and the same on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.executor.cuda_graph import CudaGraphExecutor
from prototorch.cuda.fake_device import FakeDevice
from prototorch.engine.backends import devices
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.model import model as model_module

LOSS = "sparse_categorical_crossentropy"


def fake_backend(device: FakeDevice | None = None) -> CudaBackend:
    """The backend of a fake device. Plain bodies alone: there is nothing to run kernels on."""
    return CudaBackend(device or FakeDevice(), kernels=False)


@contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Models compiled inside compute on this backend; their preparation stays on the CPU."""
    asked = model_module.backend_for

    def backend_for(device: str = "auto", *more: Any, **options: Any) -> Backend:
        return asked(device, *more, **options) if device == "cpu" else backend

    model_module.backend_for = backend_for
    try:
        yield
    finally:
        model_module.backend_for = asked


def reference_cpu() -> Backend:
    """The CPU by reference implementations, with smaller last batches padded as on a GPU: the fake device gives the
    same bits."""
    made = copy(cpu("plain"))
    made.is_shape_specialized = True
    return made


def make_net() -> Any:
    """Convolution, running statistics, dropout, a dense layer: state, randomness and products."""
    layers = pt.layers
    return pt.Sequential([
        pt.Input((1, 6, 6)), layers.Conv2D(3, 3, activation="relu", name="conv"),
        layers.BatchNormalization(name="norm"),
        layers.Dropout(0.3, name="drop"), layers.Flatten(name="flat"), layers.Dense(3, name="logits"),
    ])  # fmt: skip


def compile_net(backend: Backend, make: Callable[[], Any] = make_net, **options: Any) -> Any:
    """The net, compiled for a backend."""
    with use_backend(backend):
        model = make()
        loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(**{"loss": loss, "optimizer": "adam", "metrics": ["accuracy"], "seed": 3, **options})
        return model


def make_data(count: int = 44, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples and labels."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, 1, 6, 6)).astype("float32"), rng.integers(0, 3, count)


def executor_of(model: Any, phase: str = "train", batch: int | None = None) -> CudaGraphExecutor:
    """The runner of a phase (and batch size) that has been made."""
    found = [
        r
        for (name, (specs, *_)), r in model.trainer.plan_cache._executors.items()
        if name == phase and batch in (None, specs[0][1].shape[0])
    ]
    return found[0]


def assert_same_weights(a: Any, b: Any) -> None:
    """Two models have the same weights, bit for bit."""
    left, right = a.get_weights(), b.get_weights()
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


__all__ = [
    "FakeDevice",
    "assert_same_weights",
    "compile_net",
    "devices",
    "executor_of",
    "fake_backend",
    "make_data",
    "make_net",
    "reference_cpu",
    "use_backend",
]
