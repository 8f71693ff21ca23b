"""A loss that is not finite ends the training before it changes a weight, and says where it comes from.

Gradients and weights: test_update_check.py.
"""

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends.executor import HostExecutor
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import TrainingError

pytestmark = pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 8)).astype(np.float32)
Y = RNG.normal(size=(40, 1)).astype(np.float32)
HUGE = np.float32(3e38)


with temporary_definitions():  # no other test meets them

    class Logarithm(pt.Layer):
        """The natural logarithm."""

        def call(self, ctx, x):
            return ops.log(x)

    class Twice(pt.Layer):
        """Twice the input, which may be too large for float32, and the input itself."""

        outputs = 2

        def call(self, ctx, x):
            return x * 2.0, x


def net(*middle, loss="mse", optimizer="sgd", first=4, **options):
    x = pt.Input((8,))
    y = pt.layers.Dense(first, name="first", **options)(x)
    for layer in middle:
        y = layer(y)
    model = pt.Model(x, pt.layers.Dense(1, name="last")(y))
    model.compile(optimizer, loss)
    return model


def failure(model, x=X, y=Y, batch_size=8, **given):
    """The message; asserts that no weight has changed by the step at fault."""
    kept = {}

    def keep(batch, logs=None):
        kept.update(model.get_weights())

    watch = pt.callbacks.LambdaCallback(on_train_batch_begin=keep)
    with pytest.raises(TrainingError) as caught:
        model.fit(x, y, batch_size=batch_size, callbacks=[watch], verbose=0, **given)
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(array, kept[name])
    return str(caught.value)


def test_the_first_layer_is_named_with_its_samples():
    model = net(Logarithm(name="logs"), kernel_initializer="ones", first=1)
    x = np.abs(X)
    x[[3, 11]] *= -1
    text = failure(model, x, shuffle=False)
    assert text.startswith(
        "the loss is nan at step 1 of epoch 1: layer 'logs' (Logarithm) is the first whose output is not finite: "
        "1 of 8 elements (nan) in 1 of 8 samples: 3 (the first is data, row 3); it reads values from -"
    )
    assert "No weight has been changed by this step. Try a smaller learning rate" in text


def test_later_steps_and_shuffled_samples_are_those_of_the_data():
    model = net(Logarithm(name="logs"), kernel_initializer="ones", optimizer=pt.optimizers.SGD(0.0), first=1)
    x = np.abs(X)
    x[29] *= -1
    text = failure(model, x, epochs=2)
    assert "in 1 of 8 samples: 29 (the first is data, row 29); it reads" in text


def test_all_samples_and_many():
    model = net(Logarithm(name="logs"), kernel_initializer="ones", first=1)
    assert "8 of 8 elements (nan) in all 8 samples (the first is data, row 0)" in failure(
        model, -np.abs(X), shuffle=False
    )
    x = -np.abs(X)
    x[4] *= -1
    text = failure(net(Logarithm(), kernel_initializer="ones", first=1), x, batch_size=40, shuffle=False)
    assert "in 39 of 40 samples: 0, 1, 2, 3, 5, 6, 7, 8 and 31 more (the first is data, row 0)" in text


def test_divergence_is_seen_in_the_loss():
    text = failure(net(optimizer=pt.optimizers.SGD(1e12)), epochs=20)
    assert (
        "the loss is inf at step 2 of epoch 1: the outputs of all layers are finite, but the loss 'last_loss' " in text
    )
    assert "(MeanSquaredError) is not: 8 of 8 elements (inf)" in text
    assert "it compares values from " in text
    assert "with targets, values from -" in text


def test_weights_that_were_not_finite_before():
    model = net()
    weights = model.get_weights()
    weights["last/kernel"][2] = np.nan
    model.set_weights(weights)
    with pytest.warns(RuntimeWarning, match="before the first step these values are not finite"):
        text = failure(model)
    assert "layer 'last' (Dense) is the first whose output is not finite" in text
    assert "its weight 'last/kernel' was not finite before this step (1 of 4 elements)" in text


def test_weights_too_large_are_told_with_their_size():
    model = net()
    weights = model.get_weights()
    weights["last/kernel"][...] = HUGE
    model.set_weights(weights)
    text = failure(model, X * 100)
    assert "layer 'last' (Dense) is the first whose output is not finite" in text
    assert "its weights are finite, values from 0 to 3e+38" in text


def test_second_outputs_dropout_and_running_statistics():
    x = pt.Input((8,))
    y = pt.layers.BatchNormalization(name="norm")(pt.layers.Dropout(0.5, name="drop")(x))
    double, same = Twice(name="twice")(y)
    model = pt.Model(x, pt.layers.Dense(1)(pt.layers.Add()(double, same)))
    model.compile("sgd", "mse", seed=3)
    weights = model.get_weights()
    weights["norm/gamma"][...] = 1e38  # times 2 it is too large where a sample is far from the mean
    model.set_weights(weights)
    text = failure(model)
    assert "layer 'twice' (Twice) is the first whose output is not finite" in text
    assert np.isfinite(model.get_weights()["norm/moving_mean"]).all()


def test_penalties():
    model = net(kernel_regularizer=pt.regularizers.L2(1e38))
    weights = model.get_weights()
    weights["first/kernel"][...] = 1e3
    model.set_weights(weights)
    assert "every layer's output and every loss is finite, but the penalties on weights, or the sum" in failure(model)


def test_data_that_no_check_has_seen():
    """Of a stream the inputs are not looked at: the step does."""
    x = X.copy()
    x[5, 2] = np.inf
    model = net()
    with pytest.raises(
        TrainingError, match=r"step 2 of epoch 1: the input 'input' is not finite: 1 of 320 elements \(inf\)"
    ):
        model.fit(lambda: iter([(X, Y), (x, Y)]), verbose=0)


def test_one_step():
    model = net(Logarithm(name="logs"))
    with pytest.raises(TrainingError, match=r"^the loss is nan at step 1: layer 'logs' \(Logarithm\) is the first"):
        model.train_on_batch(X, Y)
    model.test_on_batch(X, Y)  # looking is allowed
    assert model.trainer.step == 0


def test_a_training_goes_on_after_it():
    model = net()
    bad = X.copy()
    bad[0] = HUGE
    with pytest.raises(TrainingError):
        model.fit(bad, Y, batch_size=8, shuffle=False, verbose=0)
    assert np.isfinite(model.fit(X, Y, batch_size=8, verbose=0).history["loss"]).all()


def test_too_little_memory_to_look(monkeypatch):
    def full(*args):
        raise MemoryError

    monkeypatch.setattr("prototorch.train.step_runner.find_cause", full)
    assert "there is not enough memory to look for the layer" in failure(net(Logarithm()))


def test_nothing_is_looked_at_before(monkeypatch):
    monkeypatch.setattr("prototorch.train.step_runner.find_cause", None)
    monkeypatch.setattr("prototorch.train.step_runner.make_sample_namer", None)
    net().fit(X, Y, verbose=0)


def test_the_guard_comes_before_the_first_update():
    model = net(optimizer="adam")
    model.fit(X, Y, batch_size=40, verbose=0)
    runner: HostExecutor = next(r for (phase, _), r in model.trainer.plan_cache._executors.items() if phase == "train")
    before, seen = {k: np.array(v) for k, v in model.variables.items() if not k.startswith("metric:")}, []

    class StopError(Exception):
        pass

    def stop(outputs):
        seen.append(float(outputs["loss"]))
        raise StopError

    inputs = {name: np.zeros(v.shape, v.dtype) for name, v in runner.plan.inputs.items()}
    with pytest.raises(StopError):
        runner(inputs, stop)
    assert len(seen) == 1
    for name, array in before.items():
        np.testing.assert_array_equal(model.variables[name], array, err_msg=name)


def test_terminate_on_nan_looks_at_the_validation_too():
    model = net()
    bad = X * np.float32(1e30)
    failed = pytest.raises(TrainingError, match=r"the validation's loss is (inf|nan) after epoch 1")
    with pytest.warns(RuntimeWarning, match="the loss of the evaluation is"), failed:
        model.fit(X, Y, validation_data=(bad, Y), callbacks=[pt.callbacks.TerminateOnNaN()], verbose=0)
