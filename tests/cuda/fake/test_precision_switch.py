"""One switch of precision: what it stands for, what it makes of a graph, and the scaling of float16's loss."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.engine.backends.precision import PRECISION_NAMES, ExecutionSettings, PrecisionPolicy, resolve_precision
from prototorch.errors import UsageError
from prototorch.train import loss_scale
from prototorch.train.loss_scale import GOOD_STEPS_NAME, SCALE_NAME
from tests.cuda.fake.fake_gpu import (
    FakeDevice,
    assert_same_weights,
    compile_net,
    executor_of,
    fake_backend,
    make_data,
    reference_cpu,
)

BATCH = 4


def on_gpu(word: str, **settings) -> CudaBackend:
    return fake_backend(FakeDevice(ExecutionSettings(resolve_precision(word, gpu=True), **settings)))


def trained(backend, x, y, **options):
    model = compile_net(backend)
    history = model.fit(x, y, **{"batch_size": BATCH, "epochs": 2, "verbose": 0, **options})
    return model, history.history["loss"]


@pytest.mark.parametrize(
    ("word", "gpu"),
    [("auto", "tf32"), ("fp32", "fp32"), ("float32", "fp32"), ("tf32", "tf32"), ("bf16", "bf16"), ("fp16", "fp16")],
)
def test_words(word, gpu):
    assert resolve_precision(word, gpu=True).name == gpu
    assert resolve_precision(word, gpu=False) == PrecisionPolicy("fp32")
    assert word in PRECISION_NAMES


def test_tf32_is_allowed_unless_float32_is_asked_for():
    assert [resolve_precision(w, gpu=True).tf32 for w in ("fp32", "tf32", "bf16", "fp16")] == [False, True, True, True]


def test_another_word():
    with pytest.raises(UsageError, match=r"there is no precision 'bf17'.*Did you mean 'bf16'"):
        resolve_precision("bf17", gpu=True)


def test_the_device_knows_the_settings():
    device = FakeDevice(ExecutionSettings(resolve_precision("bf16", gpu=True), deterministic=True, autotune=True))
    assert (device.precision, device.deterministic, device.settings.autotune) == ("bf16", True, True)


@pytest.mark.parametrize(("word", "low"), [("bf16", "bfloat16"), ("fp16", "float16")])
def test_what_is_narrow_and_what_is_not(word, low):
    x, y = make_data(8)
    model, _ = trained(on_gpu(word), x, y)
    plan = executor_of(model).plan
    assert {v.dtype for name, v in plan.states.items() if name.startswith(("conv", "logits", "norm"))} == {"float32"}
    assert {v.spec.dtype for v in plan.outputs.values()} <= {"float32", "bool"}
    for step in plan.steps:
        names = step.op.name
        types = [b.spec.dtype for b in step.inputs]
        if names in ("conv", "matmul", "conv_weight_grad"):
            assert set(types) == {low}, names
        if names == "batch_norm":
            assert types == [low, "float32", "float32"]
            assert [b.spec.dtype for b in step.outputs] == [low, "float32", "float32"]
        if names.startswith(("sparse_softmax", "adam_update", "softmax")):
            assert "float16" not in types
            assert "bfloat16" not in types


@pytest.mark.parametrize("word", ["bf16", "fp16"])
def test_training_is_nearly_that_of_float32(word):
    x, y = make_data(64)
    _, wanted = trained(reference_cpu(), x, y, epochs=5)
    model, found = trained(on_gpu(word), x, y, epochs=5)
    # each loss is a mean over steps whose weights differ by some 2^-8; fp16 leaves out one step, its first factor being
    # too large
    np.testing.assert_allclose(found, wanted, rtol=0.1)
    assert all(a.dtype == np.float32 for a in model.get_weights().values())


def test_outputs_are_float32():
    x, y = make_data(8)
    model, _ = trained(on_gpu("bf16"), x, y)
    assert model.predict(x).dtype == np.float32


def test_a_file_of_a_narrow_training_goes_on_in_float32(tmp_path):
    x, y = make_data(16)
    model, _ = trained(on_gpu("fp16"), x, y)
    path = tmp_path / "m.h5"
    model.save(path)
    again = pt.load_model(path)
    assert_same_weights(model, again)
    again.fit(x, y, batch_size=BATCH, epochs=1, verbose=0, resume=False)


# ---------------------------------------------------------------- the loss's factor


def test_a_factor_that_is_too_large_is_halved_and_its_step_left_out(monkeypatch):
    x, y = make_data(BATCH)
    monkeypatch.setattr(loss_scale, "INITIAL_SCALE", 2.0**120)  # gradients overflow float16 at first
    model = compile_net(on_gpu("fp16"))
    model.build()
    before = model.get_weights()
    model.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)
    after = model.get_weights()
    assert float(model.variables[SCALE_NAME]) == 2.0**119
    assert float(model.variables[GOOD_STEPS_NAME]) == 0
    for name in (n for n in before if "moving" not in n):
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    slots = {n: a for n, a in model.variables.items() if n.startswith("optimizer:conv")}
    assert slots
    assert not any(np.any(a) for a in slots.values())


def test_a_factor_that_does_well_is_doubled(monkeypatch):
    x, y = make_data(6 * BATCH)
    monkeypatch.setattr(loss_scale, "INITIAL_SCALE", 2.0)
    monkeypatch.setattr(loss_scale, "GROWTH_INTERVAL", 3)
    model, _ = trained(on_gpu("fp16"), x, y, epochs=1)
    assert float(model.variables[SCALE_NAME]) == 8.0
    assert float(model.variables[GOOD_STEPS_NAME]) == 0


def test_the_factor_leaves_the_gradients_as_they_are(monkeypatch):
    """A power of two is exact, as long as nothing under- or overflows."""
    x, y = make_data(4 * BATCH)
    found = []
    for first in (1.0, 2.0**8):
        monkeypatch.setattr(loss_scale, "INITIAL_SCALE", first)
        found.append(trained(on_gpu("fp16"), x, y, epochs=1)[0])
    for name, array in found[0].get_weights().items():
        # the smallest gradients of the first are below float16's normal numbers, and Adam divides them by their size
        np.testing.assert_allclose(array, found[1].get_weights()[name], atol=2e-3, err_msg=name)


def test_there_is_none_in_other_precisions():
    x, y = make_data(BATCH)
    for word in ("fp32", "tf32", "bf16"):
        model, _ = trained(on_gpu(word), x, y)
        assert SCALE_NAME not in model.variables
