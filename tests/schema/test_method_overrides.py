"""A method of a subclass that nothing calls is refused where the class defines it."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import UsageError
from prototorch.model.keras_hints import METHODS_WITHOUT_EFFECT

X = np.ones((4, 3), np.float32)
ROOTS = {
    "layer": pt.Layer,
    "activation": pt.layers.ReLU,
    "loss": pt.losses.Loss,
    "concrete loss": pt.losses.MeanSquaredError,
    "metric": pt.metrics.Metric,
    "concrete metric": pt.metrics.AUC,
    "optimizer": pt.optimizers.Optimizer,
    "concrete optimizer": pt.optimizers.SGD,
    "callback": pt.Callback,
    "initializer": pt.initializers.Initializer,
    "regularizer": pt.regularizers.Regularizer,
    "constraint": pt.constraints.Constraint,
    "schedule": pt.optimizers.schedules.Schedule,
    "concrete schedule": pt.schedules.CosineDecay,
}
#: what users of Keras 3 and PyTorch define in subclasses, by family
KERAS_METHODS = {
    "layer": "build compute_output_shape compute_mask get_config from_config __call__ forward",
    "activation": "build compute_output_shape get_config",
    "loss": "call __call__ get_config forward",
    "concrete loss": "call __call__ get_config",
    "metric": "update_state reset_state get_config __call__",
    "concrete metric": "update_state reset_state reset_states get_config",
    "optimizer": "build update_step apply apply_gradients get_config step",
    "concrete optimizer": "build update_step apply_gradients step",
    "callback": "call get_config",
    "initializer": "__call__ get_config",
    "regularizer": "__call__ get_config",
    "constraint": "__call__ get_config",
    "schedule": "__call__ get_config",
    "concrete schedule": "__call__ get_config",
}
CASES = [(name, method) for name, methods in KERAS_METHODS.items() for method in methods.split()]
MODEL_METHODS = (
    *("call", "__call__", "forward", "build", "train_step", "test_step", "predict_step", "compute_loss"),
    *("make_train_function", "compute_metrics", "metrics", "get_config", "training_step", "configure_optimizers"),
)


@pytest.fixture(autouse=True)
def _definitions():
    with temporary_definitions():
        yield


def nothing(self, *args, **options):
    return None


@pytest.mark.parametrize(("root", "method"), CASES, ids=lambda value: value)
def test_a_method_that_nothing_calls_is_refused(root, method):
    with pytest.raises(UsageError, match=rf"^Own\.{method} would have no effect, nothing calls it: .{{10}}"):
        type("Own", (ROOTS[root],), {method: nothing})
    assert "Own" not in ROOTS[root].members()


@pytest.mark.parametrize("root", ROOTS)
def test_so_is_one_that_a_class_is_mixed_with(root):
    method = KERAS_METHODS[root].split()[0]
    mixin = type("Mixin", (), {method: nothing})
    with pytest.raises(UsageError, match=rf"^Own\.{method} would have no effect"):
        type("Own", (mixin, ROOTS[root]), {})


@pytest.mark.parametrize("base", [pt.Model, pt.Sequential])
@pytest.mark.parametrize("method", MODEL_METHODS)
def test_methods_of_models(base, method):
    with pytest.raises(UsageError, match=rf"^Own\.{method} would have no effect, nothing calls it: "):
        type("Own", (base,), {method: nothing})
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1)])
    with pytest.raises(UsageError, match=rf"SequentialModel\.{method} cannot be set: "):
        setattr(model, method, lambda data: {})


def test_every_step_and_function_of_a_keras_model_is_known():
    """What Keras' trainer calls of a model, and a subclass may define."""
    names = [n for n in dir(keras.Model) if n.endswith(("_step", "_function")) and not n.startswith("_")]
    assert {n for n in names if n not in METHODS_WITHOUT_EFFECT and not n.startswith(("stateless", "jax"))} == set()


def test_what_has_an_effect_is_taken():
    class Own(pt.Sequential):
        def fit(self, *args, **options):
            self.calls = 1
            return super().fit(*args, **options)

        def helper(self):
            return self.predict(X)

    model = Own([pt.Input((3,)), pt.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], epochs=1, verbose=0)
    assert model.calls == 1
    assert model.helper().shape == (4, 1)

    class Cubic(pt.losses.Loss):
        def values(self, target, output):
            return ops.abs(target - output) ** 3

    class Half(pt.optimizers.SGD):
        def update(self, inputs, slots, decay, weight):
            return inputs[0] * 0.5, slots

    class Twice(pt.Layer):
        def call(self, ctx, x):
            return x + x

    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1, use_bias=False, name="d"), Twice()])
    model.compile(Half(), Cubic())
    kernel = np.array(model.weights["d/kernel"])
    loss = float(model.train_on_batch(X, X[:, :1]))
    np.testing.assert_allclose(loss, abs(2 * kernel.sum() - 1) ** 3, rtol=1e-5)
    np.testing.assert_allclose(model.weights["d/kernel"], kernel / 2, rtol=1e-6)


def without_context(self, x):
    return x


def with_phase(self, inputs, training=None):
    return inputs


def with_mask(self, ctx, x, mask=None):
    return x


def one_too_many(self, ctx, x, y):
    return x


@pytest.mark.parametrize("call", [without_context, with_phase, with_mask, one_too_many], ids=lambda f: f.__name__)
def test_a_call_of_a_layer_takes_a_context_and_its_inputs(call):
    with pytest.raises(
        UsageError, match=r"^Own\.call\(self, .* cannot be called: define `call\(self, ctx, x\)` in ops"
    ):
        type("Own", (pt.Layer,), {"call": call})


def test_a_layer_of_several_inputs():
    class Pair(pt.Layer):
        inputs = 2

        def call(self, ctx, x, y):
            return x - y

    class Several(pt.Layer):
        inputs = (1, None)

        def call(self, ctx, *values):
            return values[0]

    a, b = pt.Input((3,)), pt.Input((3,))
    model = pt.Model([a, b], Several()(Pair()(a, b)))
    assert not model.predict([X, X]).any()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("on_epoch_ends", "Did you mean 'on_epoch_end'"),
        ("on_train_epoch_end", "There are .*on_epoch_end, "),
        ("on_validation_end", "There are .*on_epoch_end, "),
        ("on_batch_start", "There are .*on_epoch_end, "),
    ],
)
def test_a_hook_that_does_not_exist_is_refused(name, hint):
    with pytest.raises(
        UsageError, match=rf"^Own\.{name} would have no effect, nothing calls it: it is no hook.*{hint}"
    ):
        type("Own", (pt.Callback,), {name: nothing})
