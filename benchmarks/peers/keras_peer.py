"""Keras on JAX among the contenders: the whole step as one jitted function, Keras' own way for the most speed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from benchmarks.contender import Contender, Setup, Weights
from benchmarks.peers.keras_nets import make
from benchmarks.workloads import DECAY, EPOCH_RATE, MOMENTUM, RATE, Workload

FACTORS = (1.0, 0.3, 0.3)


class KerasJax(Contender):
    """The net of Keras without state, in functions that JAX compiles; ``fit`` for the epoch."""

    def __init__(self, row: Workload, setup: Setup):
        super().__init__(row, setup)
        keras.utils.set_random_seed(0)
        dtype = "int32" if row.vocabulary else "float32"
        self.net, self.weighted_layers = make(row.name, row.shape, dtype, setup.dropout)
        self.state: Any = None

    def parameters(self) -> int:
        return sum(int(np.prod(v.shape)) for v in self.net.trainable_variables)

    def load(self, weights: Weights) -> None:
        arrays = iter(array for name, array in weights.items() if not name.endswith(("_mean", "_variance")))
        for layer in self.weighted_layers:
            for variable in layer.trainable_variables:
                variable.assign(_to_keras_layout(next(arrays), layer))
        if any(True for _ in arrays):
            raise ValueError("the net has fewer weights than prototorch's")

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = jnp.asarray(_channels_last(x)), jnp.asarray(y, jnp.int32)
        self._begin()

    def _begin(self) -> None:
        values = [v.value for v in self.net.trainable_variables]
        others = [jnp.array(v.value, copy=True) for v in self.net.non_trainable_variables]
        self.state = [jnp.array(v, copy=True) for v in values], others, [jnp.zeros_like(v) for v in values]
        self.trains = jax.jit(self._step, donate_argnums=0)
        self.infers = jax.jit(lambda w, o, x: self.net.stateless_call(w, o, x, training=False)[0])

    def _loss(self, weights: Any, others: Any, x: Any, y: Any) -> tuple[Any, Any]:
        out, others = self.net.stateless_call(weights, others, x, training=True)
        every = out if isinstance(out, list | tuple) else [out]
        log_p = [jnp.take_along_axis(jax.nn.log_softmax(one), y[:, None], 1).mean() for one in every]
        return -sum(factor * one for factor, one in zip(FACTORS, log_p, strict=False)), others

    def _step(self, state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        weights, others, momenta = state
        (loss, others), grads = jax.value_and_grad(self._loss, has_aux=True)(weights, others, x, y)
        momenta = [MOMENTUM * m - RATE * (g + DECAY * w) for m, g, w in zip(momenta, grads, weights, strict=True)]
        return ([w + m for w, m in zip(weights, momenta, strict=True)], others, momenta), loss

    def train(self) -> float:
        self.state, loss = self.trains(self.state, self.x, self.y)
        return float(loss)

    def infer(self) -> np.ndarray:
        out = self.infers(self.state[0], self.state[1], self.x)
        jax.block_until_ready(out)
        return np.asarray(out[0] if isinstance(out, list | tuple) else out)

    def epoch(self, x: np.ndarray, y: np.ndarray, batch: int) -> float:
        model = keras.Sequential([keras.Input((*x.shape[2:], x.shape[1])), keras.layers.Rescaling(1 / 255), self.net])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(EPOCH_RATE, MOMENTUM, weight_decay=DECAY), loss)
        history = model.fit(_channels_last(x), y, batch_size=batch, epochs=1, verbose=0)
        return float(history.history["loss"][-1])


def _channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if x.ndim == 4 else x


def _to_keras_layout(array: np.ndarray, layer: Any) -> np.ndarray:
    """A weight in Keras' layout: convolutions [rows, columns, in, out], depthwise ones [rows, columns, channels, 1]."""
    if array.ndim != 4:
        return array
    if isinstance(layer, keras.layers.DepthwiseConv2D):
        return array.transpose(2, 3, 0, 1)
    return array.transpose(2, 3, 1, 0) if isinstance(layer, keras.layers.Conv2D) else array
