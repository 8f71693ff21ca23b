"""No training goes on with weights that are not finite, though its loss is: gradients, updates, statistics, files."""

import inspect
import re
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.backends import guarded_updates
from prototorch.engine.backends.cpu.native.kernel_api import WatchedKernel
from prototorch.engine.backends.cpu.numpy import update
from prototorch.engine.backends.guarded_updates import watched_kernel
from prototorch.engine.backends.watching import MAX_STATE, MAX_VALUE, find_watch, magnitude
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import TrainingError
from prototorch.graph.executable import make_executable
from prototorch.graph.probe import probe_specs
from prototorch.model.diagnose import describe_plan
from prototorch.ops import update as update_ops
from prototorch.ops.operators import OPS
from prototorch.train.step_inputs import TRAIN

pytestmark = pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 8)).astype(np.float32)
Y = RNG.normal(size=(8, 1)).astype(np.float32)

with temporary_definitions():  # no other test meets them

    class RootOfZero(pt.Layer):
        """The square root, whose derivative at 0 is infinite."""

        def call(self, ctx, x):
            return ops.sqrt(x)


def sequence(*layers, optimizer="sgd", loss="mse"):
    model = pt.Sequential([pt.Input((8,)), *layers])
    model.compile(optimizer, loss)
    return model


def root_net(**options):
    """The root of zeros: a finite loss with infinite gradients."""
    first = pt.layers.Dense(4, kernel_initializer="zeros", name="first")
    return sequence(first, RootOfZero(name="root"), pt.layers.Dense(1, name="out"), **options)


def overflowing_net():
    """All weights of the first layer become -inf by the first update; ReLU then gives 0, and the loss stays finite."""
    first = pt.layers.Dense(4, activation="relu", kernel_initializer="ones", name="first")
    model = sequence(
        first, pt.layers.Dense(1, kernel_initializer="ones", name="out"), optimizer=pt.optimizers.SGD(3e38)
    )
    model.set_trainable(False, "out")
    return model


POSITIVE, NEGATIVE = np.abs(X), np.full((8, 1), -1e5, np.float32)

CLIPPING = {
    "none": {},
    "norm": {"clipnorm": 1.0},
    "global_norm": {"global_clipnorm": 1.0},
    "value": {"clipvalue": 1.0},
}


@pytest.mark.parametrize("clipping", CLIPPING)
def test_a_gradient_that_is_not_finite_changes_no_weight(clipping):
    model = root_net(optimizer=pt.optimizers.Adam(1e-3, **CLIPPING[clipping]))
    before = model.get_weights()
    with pytest.raises(TrainingError) as caught:
        model.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    text = str(caught.value)
    assert "the gradient of the loss is not finite at step 1 of epoch 1: the derivative of layer 'root' (" in text
    assert "it would have changed 'first/kernel', 'first/bias' to values that are not finite" in text
    assert "No weight has been changed by this step" in text
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(array, before[name])


def test_the_gradient_at_one_of_several_outputs():
    x = pt.Input((8,))
    roots = RootOfZero(name="root")(pt.layers.Dense(1, kernel_initializer="zeros", name="first")(x))
    model = pt.Model(x, [pt.layers.Dense(1, name="good")(x), roots])
    model.compile("sgd", {"good": "mse", "root": "mse"})
    with pytest.raises(TrainingError, match="the derivative of layer 'root'"):
        model.fit(X, {"good": Y, "root": Y}, batch_size=8, verbose=0)


@pytest.mark.parametrize("level", ["plain", "numpy"])
def test_the_gradient_on_other_levels(level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    with pytest.raises(TrainingError, match="the gradient of the loss is not finite"):
        root_net().train_on_batch(X, Y)


@pytest.mark.parametrize("level", ["native", "numpy", "plain"])
@pytest.mark.parametrize("how", ["fit", "train_on_batch"])
def test_an_update_that_overflows_is_not_written(how, level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    model = overflowing_net()
    before = model.get_weights()
    options = {"batch_size": 8, "verbose": 0} if how == "fit" else {}
    with pytest.raises(TrainingError) as caught:
        getattr(model, how)(POSITIVE, NEGATIVE, **options)
    text = str(caught.value)
    assert text.startswith(
        "the update would make the weight 'first/bias', the weight 'first/kernel' not finite at step 1"
    )
    assert "every gradient is finite; they are values from" in text
    assert "No weight has been changed by this step" in text
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("level", ["native", "numpy", "plain"])
@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_statistics_and_totals_stay_as_well(fault, level, monkeypatch):
    """Running statistics, and the totals of loss and metrics, which the forward pass computes."""
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    first = pt.layers.Dense(4, kernel_initializer="ones", name="first")
    model = sequence(pt.layers.BatchNormalization(), first, RootOfZero(name="root"), pt.layers.Dense(1, name="out"))
    model.compile("sgd", "mse", metrics=["mae"])
    model.weights["first/bias"] = np.full((4,), 50, np.float32)
    model.train_on_batch(X, Y)
    if fault == "gradient":
        model.weights["first/kernel"], model.weights["first/bias"] = np.zeros((8, 4)), np.zeros(4)
    else:
        model.weights["first/bias"] = np.full((4,), -50, np.float32)
    before = {name: np.array(array) for name, array in model.trainer.plan_cache.variables.items()}
    with pytest.raises(TrainingError, match="the loss is nan at" if fault == "loss" else "the gradient of the loss is"):
        model.train_on_batch(2 * X, Y)
    for name, array in model.trainer.plan_cache.variables.items():
        expected = 0 if name.startswith("metric:") else before[name]  # each call begins with totals of its own
        np.testing.assert_array_equal(array, expected, err_msg=name)


def large_product_net(**options):
    """A finite loss whose gradient is a product that overflows: inputs of 1e25 by derivatives of 1e15."""
    model = sequence(pt.layers.Dense(300, kernel_initializer="zeros", use_bias=False, name="out"), **options)
    x = np.full((8, 8), 1e25, np.float32)
    return model, x, np.full((8, 300), 1e17, np.float32)


@pytest.mark.parametrize("level", ["native", "numpy", "plain"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adagrad"])
def test_a_product_that_overflows_changes_nothing(optimizer, level, monkeypatch):
    """Its operands are finite, and it is never in memory where the update computes it."""
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    model, x, y = large_product_net(optimizer=optimizer)
    model.train_on_batch(np.zeros_like(x), np.zeros_like(y))
    states = {name: np.array(array) for name, array in model._trainer.plan_cache.variables.items()}
    with pytest.raises(TrainingError, match="the gradient of the loss is not finite"):
        model.train_on_batch(x, y)
    for name, array in model._trainer.plan_cache.variables.items():
        if not name.startswith("metric:"):
            np.testing.assert_array_equal(array, states[name], err_msg=name)
    model.train_on_batch(np.ones_like(x), np.ones_like(y))
    assert all(np.isfinite(a).all() for a in model.get_weights().values())


def test_a_state_of_the_optimizer_that_would_overflow():
    dense = sequence(pt.layers.Dense(1, use_bias=False, name="out"), optimizer="adam")
    before = dense.get_weights()
    with pytest.raises(TrainingError, match=r"make the optimizer's 'velocity' of 'out/kernel' not finite"):
        dense.fit(X * 100, Y * np.float32(1e18), batch_size=8, verbose=0)
    np.testing.assert_array_equal(dense.get_weights()["out/kernel"], before["out/kernel"])


def test_large_numbers_that_stay_finite_are_trained_with():
    """Beyond the magnitudes where an update is known to be finite it is looked at, and written."""
    small, large = (sequence(pt.layers.Dense(1, use_bias=False, kernel_initializer="ones")) for _ in range(2))
    small.train_on_batch(X, Y)
    large.learning_rate = 0.01 * 2.0**-60
    large.train_on_batch(X * np.float32(2.0**30), Y * np.float32(2.0**30))
    step = 1 - small.get_weights()["dense_1/kernel"]
    np.testing.assert_allclose(1 - large.get_weights()["dense_1/kernel"], step, rtol=2e-3, atol=1e-6)


def test_an_optimizer_with_a_formula_of_its_own_is_looked_at_in_each_step():
    with temporary_definitions():

        class Overflowing(pt.optimizers.Optimizer):
            """w - exp(200 g): not finite for moderate gradients."""

            def create_slots(self, weight):
                return {}

            def update(self, inputs, slots, decay, weight):
                w, g, _, _ = inputs
                return w - ops.exp(g * 0.0 + 200.0), {}

        model = sequence(pt.layers.Dense(1, name="out"), optimizer=Overflowing())
        before = model.get_weights()
        with pytest.raises(TrainingError, match="would make the weight 'out/bias', the weight 'out/kernel' not finite"):
            model.train_on_batch(X, Y)
        np.testing.assert_array_equal(model.get_weights()["out/kernel"], before["out/kernel"])


def test_running_statistics_are_not_guarded():
    norm = sequence(pt.layers.BatchNormalization(name="norm"), pt.layers.Dense(1, name="out"))
    with pytest.warns(RuntimeWarning, match=r"not finite: the weight 'norm/moving_variance' \(8 of 8 elements: inf\)"):
        norm.fit(X * np.float32(1e20), Y, batch_size=8, verbose=0)


@pytest.mark.parametrize("name", ["lenet", "two_layer", "resnet18"])
def test_no_step_reads_a_gradient_or_a_weight_for_the_check_alone(name):
    """All that updates read is watched by the kernels that make it; of the outputs of the steps none is left over."""
    model = pt.load_model(name)
    cache = model.trainer.plan_cache
    plan = make_executable(cache.plan(TRAIN, probe_specs(model.net, 4), create=False))
    kernels = [cache.backend.prepare(*signature) for signature in plan.signatures()]
    watch = find_watch(plan)
    for i, outputs in {**watch.values, **watch.states}.items():
        kernel = watched_kernel(kernels[i], outputs, np.zeros(1, np.int64))
        assert isinstance(kernel, WatchedKernel), plan.steps[i].op.name
    trained = {b.name for i, js in watch.states.items() for b in (plan.steps[i].outputs[j] for j in js)}
    averages = {name for name in plan.guarded_states - trained if name.endswith((":momentum", ":velocity"))}
    assert trained | averages >= plan.guarded_states
    assert len(averages) in (0, 2 * len(trained)), "of Adam"
    shown = re.search(
        r"new states find the largest that they write; read for it: (.*)\n", str(describe_plan(model, TRAIN, 4))
    )
    assert set(shown[1].split(", ")) <= set(plan.inputs) - plan.guarded_states


@pytest.mark.parametrize("level", ["native", "numpy", "plain"])
def test_what_a_step_reads_for_the_check(level, monkeypatch):
    """At the levels of NumPy a gradient by the function that has just written it, a new weight or slot by the update,
    chunk by chunk (at the plain level by the function, too); the states never, but before the first step."""
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    reads = []

    def note(place):
        return lambda elements: reads.append((place, elements.size)) or magnitude(elements)

    monkeypatch.setattr(guarded_updates, "magnitude", note("guard"))
    monkeypatch.setattr(update, "magnitude", note("update"))
    model = sequence(pt.layers.Dense(300, name="first"), pt.layers.Dense(1, name="out"), optimizer="adam")
    sizes = sorted(array.size for array in model.get_weights().values())
    model.train_on_batch(X, Y)
    assert level != "native" or sorted(size for _, size in reads) == sorted([1, *sizes * 3]), "states, once"
    reads.clear()
    model.train_on_batch(X, Y)
    gradients = sorted(size for place, size in reads if place == "guard")
    states = sorted(size for place, size in reads if place == "update")
    expected = {
        "native": ([1], []),
        "numpy": (sorted([1, *sizes]), sizes),  # of the slots none: they are averages
        "plain": (sorted([1, *sizes * 2]), []),
    }
    assert (gradients, states) == expected[level]


def test_weights_that_others_have_set_are_found():
    """Values that are set into weights are no update: the check of all states, every so many steps, finds them."""
    model = sequence(pt.layers.Dense(1, name="unused"), pt.layers.Dense(1, name="out"))
    model.train_on_batch(X, Y)
    model.weights["unused/kernel"] = np.full((8, 1), np.nan)
    with pytest.raises(TrainingError, match=r"its weight 'unused/kernel' was not finite before this step"):
        model.train_on_batch(X, Y)


def test_no_checkpoint_is_written_over_a_good_one(tmp_path):
    path = tmp_path / "best.h5"
    model = overflowing_net()
    model.save(path)
    good = path.read_bytes()
    keep = pt.callbacks.ModelCheckpoint(str(path), save_freq=1)
    with pytest.raises(TrainingError, match="would make"):
        model.fit(POSITIVE, NEGATIVE, batch_size=8, callbacks=[keep], verbose=0)
    assert path.read_bytes() == good
    model.weights["first/kernel"] = np.full((8, 4), np.inf)
    with pytest.warns(RuntimeWarning, match=r"bad\.h5 gets values that are not finite: the weight 'first/kernel'"):
        model.save(tmp_path / "bad.h5")


def test_results_that_are_not_finite_are_reported():
    model = sequence(pt.layers.Dense(1, name="out"))
    model.weights["out/kernel"] = np.full((8, 1), np.nan)
    with pytest.warns(RuntimeWarning, match=r"the loss of the evaluation is nan: the weight 'out/kernel' \(8 of 8"):
        model.evaluate(X, Y)
    with pytest.warns(RuntimeWarning, match="the output 'out' is NaN for all 8 samples: the weight 'out/kernel'"):
        model.predict(X)
    with pytest.warns(RuntimeWarning, match="before the first step these values"), pytest.raises(TrainingError):
        model.fit(X, Y, verbose=0)


def test_infinite_outputs_are_no_mistake():
    model = sequence(pt.layers.Dense(1, name="out"))
    model.weights["out/bias"] = np.full((1,), -np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isneginf(model.predict(X)).all()


def test_weights_that_were_infinite_before_are_reported_once():
    """A constant of -inf that a user has put there (a mask) does not end the training."""
    model = sequence(pt.layers.Dense(4, activation="relu", name="masked"), pt.layers.Dense(1, name="out"))
    model.set_trainable(False, "masked")
    bias = np.zeros(4, np.float32)
    bias[0] = -np.inf
    model.weights["masked/bias"] = bias
    with pytest.warns(RuntimeWarning, match=r"before the first step .* 'masked/bias' \(1 of 4 elements: -inf\)"):
        history = model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


@pytest.mark.parametrize("name", sorted(op.name for op in vars(update_ops).values() if getattr(op, "averages", ())))
def test_averages_stay_finite_while_gradients_are_moderate(name):
    """From slots that are moderate, with gradients as large as a certain step may have: no slot grows beyond the square
    of a gradient, and the new weight is finite."""
    op, rng = OPS[name], np.random.default_rng(0)
    values = {"beta_1": 0.9, "beta_2": 0.999, "rho": 0.9, "momentum": 0.9, "epsilon": 1e-7}
    attrs = {key: v for key, v in values.items() if key in inspect.signature(op.compute_update).parameters}
    assert op.bounded_outputs(attrs) == op.averages
    w = rng.normal(size=64).astype(np.float32)
    slots = [np.full(64, MAX_STATE, np.float32) for _ in range(op.slots)]
    bounds = [float(np.float32(MAX_VALUE) ** 2) * 1.01 if k in op.averages else np.inf for k in range(1, op.slots + 1)]
    for step in range(1, 200):
        g = (rng.choice([-1, 1, 1e-20, 0], size=64) * MAX_VALUE).astype(np.float32)
        w, *slots = op.reference(np, w, g, np.float32(1e-3), np.int64(step), *slots, **attrs)
        assert np.isfinite(w).all()
        assert all(np.abs(s).max() <= bound for s, bound in zip(slots, bounds, strict=True)), step


def test_a_factor_outside_of_0_and_1_makes_no_average():
    assert update_ops.adam_update.bounded_outputs({"beta_1": 0.9, "beta_2": 1.5, "epsilon": 1e-7}) == ()
    assert update_ops.momentum_update.bounded_outputs({"momentum": 0.9}) == ()
