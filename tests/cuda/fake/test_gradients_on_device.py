"""Gradients that are not finite, on a device: the step itself writes no weight and no slot, in every face."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.cuda.device_sources import LossCheckState
from prototorch.cuda.executor.loss_check import MAX_REPORT_LAG
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import TrainingError
from tests.cuda.fake.fake_gpu import FakeDevice, compile_net, executor_of, fake_backend, reference_cpu

pytestmark = pytest.mark.filterwarnings("ignore::prototorch.errors.DataWarning")
BATCH = 4

with temporary_definitions():  # no other test meets them

    class SignedRoot(pt.Layer):
        """sign(x) sqrt(|x|), whose derivative at 0 is not finite."""

        def call(self, ctx, x):
            return ops.sign(x) * ops.sqrt(ops.abs(x))


def root_net():
    return pt.Sequential([
        pt.Input((8,)), pt.layers.Dense(4, use_bias=False, name="first"), SignedRoot(name="root"),
        pt.layers.Dense(3, name="logits"),
    ])  # fmt: skip


def make_data(bad_step, steps=12):
    """Samples of which those of one step are zeros: the loss stays finite, and the gradients do not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps * BATCH, 8)).astype(np.float32)
    if bad_step >= 0:
        x[bad_step * BATCH : (bad_step + 1) * BATCH] = 0
    return x, rng.integers(0, 3, len(x))


def states_of(model):
    variables = model.trainer.plan_cache.variables
    return {n: np.array(variables[n]) for n in variables if not n.startswith("metric:")}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", pt.optimizers.Adam(global_clipnorm=1.0)])
@pytest.mark.parametrize("bad_step", [0, 1, 5, 11])
def test_a_step_with_gradients_that_are_not_finite_writes_nothing(bad_step, optimizer):
    x, y = make_data(bad_step)
    model, good = (compile_net(b, root_net, optimizer=optimizer) for b in (fake_backend(), reference_cpu()))
    if bad_step:
        good.fit(x[: bad_step * BATCH], y[: bad_step * BATCH], batch_size=BATCH, shuffle=False, verbose=0)
    else:
        good.build()
    with pytest.raises(TrainingError) as caught:
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    text = str(caught.value)
    assert f"the gradient of the loss is not finite at step {bad_step + 1} of epoch 1" in text
    assert "the derivative of layer 'root'" in text
    assert "No weight has been changed by this step" in text
    found = states_of(model)
    for name, array in states_of(good).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_the_steps_after_it_write_nothing_either_and_the_training_can_go_on():
    x, y = make_data(2)
    model = compile_net(fake_backend(), root_net)
    for k in range(2):
        model.train_on_batch(x[BATCH * k : BATCH * (k + 1)], y[BATCH * k : BATCH * (k + 1)])
    before = states_of(model)

    def go_on():
        for k in range(2, 3 + MAX_REPORT_LAG):
            model.train_on_batch(x[BATCH * k : BATCH * (k + 1)], y[BATCH * k : BATCH * (k + 1)])

    with pytest.raises(TrainingError, match="the gradient of the loss is not finite"):
        go_on()
    for name, array in states_of(model).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    model.train_on_batch(x[:BATCH], y[:BATCH])
    assert any(not np.array_equal(a, before[n]) for n, a in states_of(model).items())


def test_one_launch_reads_each_gradient_once():
    """However many there are: the bytes of the trained weights, and of the learning rate."""
    device = FakeDevice()
    x, y = make_data(-1)
    model = compile_net(fake_backend(device), root_net)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    names = [record.op for record in executor_of(model).launches]
    assert names.count("check of the gradients") == 1
    assert names.index("check of the gradients") + 1 == names.index("check of the loss")
    checks = {entry for entry in device.log if entry[0] == "check_finite"}
    nbytes = sum(array.nbytes for array in model.get_weights().values())
    assert checks == {("check_finite", 4, nbytes + 4)}
    assert LossCheckState.itemsize == max({e[2] for e in device.log if e[0] == "copy_to_host"})


def test_a_loss_that_is_scaled_has_a_check_of_its_own():
    """In float16 a gradient that overflows is no error: the step is left out, and the scale becomes smaller."""
    device = FakeDevice(ExecutionSettings(resolve_precision("fp16", gpu=True)))
    x, y = make_data(-1)
    model = compile_net(fake_backend(device), root_net)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    assert not any(entry[0] == "check_finite" for entry in device.log)


def test_gradients_of_a_prediction_or_an_evaluation_are_not_looked_for():
    device = FakeDevice()
    x, y = make_data(-1)
    model = compile_net(fake_backend(device), root_net)
    model.evaluate(x, y, batch_size=BATCH, verbose=0)
    model.predict(x, verbose=0)
    assert not any(entry[0] == "check_finite" for entry in device.log)


def test_sums_of_gradients_over_several_steps():
    """The step that adds a gradient which is not finite to the sum is the one that writes nothing."""
    x, y = make_data(5)
    optimizer = pt.optimizers.SGD(0.1, gradient_accumulation_steps=4)
    model = compile_net(fake_backend(), root_net, optimizer=optimizer)
    with pytest.raises(TrainingError, match="the gradient of the loss is not finite at step 6 of epoch 1"):
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    for name, array in states_of(model).items():
        assert np.isfinite(array).all(), name
