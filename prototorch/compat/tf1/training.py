"""Layers, losses, optimizers and initializers of TensorFlow 1."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from prototorch.compat.tf1.functions import (
    call_function,
    cast,
    constant,
    int64,
    placeholders_of,
    refuse_options,
    same_function,
    sigmoid,
    tanh,
)
from prototorch.compat.tf1.session import InitialValue, Variable, add_step, global_variables
from prototorch.errors import ShapeError, explain_word
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.initializers.base import Initializer
from prototorch.initializers.constant import Constant, Ones, Zeros
from prototorch.initializers.random import (
    GlorotNormal,
    GlorotUniform,
    RandomNormal,
    RandomUniform,
    TruncatedNormal,
    VarianceScaling,
)
from prototorch.optimizers.adam import Adam
from prototorch.optimizers.base import Optimizer
from prototorch.optimizers.rmsprop import Adagrad
from prototorch.optimizers.sgd import SGD
from prototorch.static.graph import StaticGraph


class _Names(SimpleNamespace):
    """A module of TensorFlow's; what it does not have is an AttributeError with what to write."""

    def __init__(self, title: str, **members: Any):
        super().__init__(**members)
        self.__dict__["_title"] = title

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(missing_name(f"{self.__dict__.get('_title', '')}.{name}"))


def missing_name(word: str) -> str:
    """The message for a word of TensorFlow's that is not here."""
    return f"prototorch.compat.tf1 has no {word!r}{explain_word(word)}"


def _shape(symbol: SymbolicTensor) -> tuple[int | None, ...] | None:
    """The shape of a symbol, as runs on ones show it; None for sizes that follow from unknown ones of placeholders, and
    in the place of the shape where a placeholder has none at all."""
    inputs = placeholders_of([symbol])
    shapes = [s.fed_shape for s in inputs if s.fed_shape is not None]
    if len(shapes) < len(inputs):
        return None
    graph, dtypes = StaticGraph(inputs, symbol), [s.input_node.dtype for s in inputs if s.input_node is not None]
    runs = [
        graph(*(np.ones([size if n is None else n for n in sizes], d) for sizes, d in zip(shapes, dtypes, strict=True)))
        for size in ((2, 3) if any(None in sizes for sizes in shapes) else (1,))
    ]
    return tuple(n if n == m else None for n, m in zip(runs[0].shape, runs[-1].shape, strict=True))


def _dense(
    inputs: SymbolicTensor,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    **options: Any,
) -> SymbolicTensor:
    """A dense layer: activation(inputs @ kernel + bias); its variables are ``NAME/kernel`` and ``NAME/bias``."""
    refuse_options("layers.dense", options)
    shape = _shape(inputs)
    if not shape or shape[-1] is None:
        raise ShapeError(
            "layers.dense: the last size of its inputs must be known: tf.placeholder(tf.float32, (None, 4))"
        )
    title = name or _free_name("dense")
    weights: dict[str, tuple[Initializer, tuple[int, ...]]] = {
        "kernel": (kernel_initializer or GlorotUniform(), (shape[-1], units))
    }
    if use_bias:
        weights["bias"] = (bias_initializer or Zeros(), (units,))
    values = [
        Variable(InitialValue(rule, sizes), trainable=trainable, name=f"{title}/{key}")
        for key, (rule, sizes) in weights.items()
    ]
    result = call_function("matmul", inputs, values[0])
    result = result + values[1] if use_bias else result
    return result if activation is None else activation(result)


def _free_name(stem: str) -> str:
    """``dense``, ``dense_1``, ...: the first that no variable's name begins with."""
    used_names = {v.name.partition("/")[0] for v in global_variables()}
    return next(name for k in count() if (name := f"{stem}_{k}" if k else stem) not in used_names)


def _of_equal_shapes(loss: str, labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Both as symbols. Raises ShapeError where their shapes are known to differ: one would be repeated."""
    a, b = (v if isinstance(v, SymbolicTensor) else constant(v) for v in (labels, predictions))
    first, second = _shape(a), _shape(b)
    if first is None or second is None:
        return a, b
    sizes = zip(first, second, strict=False)
    if len(first) != len(second) or any(n != m and None not in (n, m) for n, m in sizes):
        raise ShapeError(f"losses.{loss}: labels {list(first)} and predictions {list(second)} differ in shape")
    return a, b


def _mean_squared_error(labels: Any, predictions: Any, weights: float = 1.0) -> SymbolicTensor:
    """The mean of the squared differences of all elements, times a number."""
    a, b = _of_equal_shapes("mean_squared_error", labels, predictions)
    return ((b - a) ** 2).mean() * weights


def _absolute_difference(labels: Any, predictions: Any, weights: float = 1.0) -> SymbolicTensor:
    """The mean of the absolute differences of all elements, times a number."""
    a, b = _of_equal_shapes("absolute_difference", labels, predictions)
    return (b - a).abs().mean() * weights


def _softmax_cross_entropy(*, labels: Any, logits: Any) -> SymbolicTensor:
    """The cross-entropy of each sample: labels are probabilities of the classes."""
    a, b = _of_equal_shapes("softmax_cross_entropy", labels, logits)
    return -(a * b.log_softmax(-1)).sum(-1)


def _sparse_softmax_cross_entropy(*, labels: Any, logits: Any) -> SymbolicTensor:
    """The cross-entropy of each sample: labels are numbers of classes."""
    places = labels if isinstance(labels, SymbolicTensor) else constant(labels)
    places = cast(places, int64).unsqueeze(-1)
    return -logits.log_softmax(-1).gather(-1, places).squeeze(-1)


class _Minimizer:
    """An optimizer of TensorFlow's name over one of this package."""

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer

    def minimize(self, loss: Any, global_step: None = None, var_list: Any = None, name: str | None = None) -> Any:
        """A step for ``Session.run``, which changes var_list, or all trainable variables that the loss depends on."""
        refuse_options("minimize", {"global_step": global_step})
        return add_step(self.optimizer.minimize(loss, var_list))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(missing_name(f"train.Optimizer.{name}"))


def _gradient_descent(learning_rate: float, use_locking: bool = False, name: str | None = None) -> _Minimizer:
    """w - learning_rate * gradient."""
    return _Minimizer(SGD(learning_rate))


def _momentum(
    learning_rate: float,
    momentum: float,
    use_locking: bool = False,
    name: str | None = None,
    use_nesterov: bool = False,
) -> _Minimizer:
    """Gradient descent with momentum."""
    return _Minimizer(SGD(learning_rate, momentum=momentum, nesterov=use_nesterov))


def _adagrad(learning_rate: float, initial_accumulator_value: float = 0.1) -> _Minimizer:
    """Adagrad, without an epsilon."""
    return _Minimizer(Adagrad(learning_rate, initial_accumulator_value=initial_accumulator_value, epsilon=0.0))


def _adam(learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> _Minimizer:
    """Adam (Kingma and Ba, 2015), with TensorFlow's epsilon."""
    return _Minimizer(Adam(learning_rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon))


nn = _Names(
    "nn",
    relu=same_function("relu"),
    sigmoid=sigmoid,
    tanh=tanh,
    softmax=lambda x, axis=-1: x.softmax(axis),
    softmax_cross_entropy_with_logits=_softmax_cross_entropy,
    sparse_softmax_cross_entropy_with_logits=_sparse_softmax_cross_entropy,
)
layers = _Names("layers", dense=_dense)
losses = _Names(
    "losses",
    mean_squared_error=_mean_squared_error,
    absolute_difference=_absolute_difference,
    softmax_cross_entropy=lambda onehot_labels, logits: _softmax_cross_entropy(
        labels=onehot_labels, logits=logits
    ).mean(),
    sparse_softmax_cross_entropy=lambda labels, logits: _sparse_softmax_cross_entropy(
        labels=labels, logits=logits
    ).mean(),
)
train = _Names(
    "train",
    GradientDescentOptimizer=_gradient_descent,
    MomentumOptimizer=_momentum,
    AdagradOptimizer=_adagrad,
    AdamOptimizer=_adam,
)


def xavier_initializer(uniform: bool = True) -> Initializer:
    """Glorot and Bengio's (2010) initializer."""
    return GlorotUniform() if uniform else GlorotNormal()


def variance_scaling_initializer(
    scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal"
) -> Initializer:
    """Random numbers whose variance is scale / the numbers of connections (2.0: He's)."""
    return VarianceScaling(scale, mode, distribution)


contrib = _Names("contrib", layers=_Names("contrib.layers", xavier_initializer=xavier_initializer))


zeros_initializer, ones_initializer, constant_initializer = Zeros, Ones, Constant
glorot_uniform_initializer, glorot_normal_initializer = GlorotUniform, GlorotNormal


def random_normal_initializer(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normal numbers."""
    return RandomNormal(mean, stddev)


def truncated_normal_initializer(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normal numbers within two standard deviations."""
    return TruncatedNormal(mean, stddev)


def random_uniform_initializer(minval: float = 0.0, maxval: float = 1.0) -> Initializer:
    """Uniform numbers."""
    return RandomUniform(minval, maxval)
