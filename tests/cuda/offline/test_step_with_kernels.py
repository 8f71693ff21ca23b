"""Whole training steps with the GPU's own kernels, played on the CPU by a fake device that is as lazy as a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.device_sources import (
    CHECK_FINITE_SOURCE,
    COPY_ALL_SOURCE,
    LossCheckState,
    ValueCheckState,
    check_step_source,
    finite_check_table,
)
from prototorch.cuda.fake_device import FakeDevice
from prototorch.engine.backends.precision import ExecutionSettings, numpy_dtype, resolve_precision
from prototorch.errors import TrainingError
from prototorch.train.memory_estimate import SCRATCH
from prototorch.train.summary import memory_by_purpose
from tests.cuda.fake.fake_gpu import compile_net, executor_of, make_data, reference_cpu
from tests.cuda.offline.shim_device import COMPILER, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.fixture
def device(tmp_path_factory, monkeypatch):
    """A fake device that plays kernels. A block of the product is as small as it can be: each thread is a real one."""
    shrink_tiles(monkeypatch.setattr)
    made = FakeDevice(ExecutionSettings(resolve_precision("fp32", gpu=True)))
    made.emulator = ShimDevice(str(tmp_path_factory.getbasetemp() / "kernels"))
    made.emulator.folder.mkdir(exist_ok=True)
    return made


@pytest.mark.parametrize("word", ["bf16", "fp16"])
def test_a_training_in_lower_precision(device, word):
    """With kernels that read and write the narrow type, beside the reference implementations that do the same."""
    x, y = make_data(20)
    device.settings = ExecutionSettings(resolve_precision(word, gpu=True))
    alone = FakeDevice(device.settings)
    models = [compile_net(CudaBackend(alone, kernels=False)), compile_net(CudaBackend(device))]
    history = [m.fit(x, y, batch_size=4, epochs=2, verbose=0).history["loss"] for m in models]
    # where a sum is rounded to 8 bits (bf16) in one way and not in another, it differs by 2^-8, and by Adam each weight
    # by up to a step of 1e-3
    np.testing.assert_allclose(history[0], history[1], rtol=0.03)
    a, b = (m.get_weights() for m in models)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=0.05, atol=0.02, err_msg=name)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_with_kernels_is_that_of_the_cpu(device, optimizer):
    x, y = make_data(20)
    models = [compile_net(b, optimizer=optimizer) for b in (reference_cpu(), CudaBackend(device))]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    runner = executor_of(models[1])
    assert runner.graph is not None
    assert [c.op for c in runner.launches].count("updates") == 1, "the updates of all weights are one launch"
    assert "updates" in device.emulator.launched
    a, b = (m.get_weights() for m in models)
    for name in a:  # five steps; sums in another order, float32
        np.testing.assert_allclose(a[name], b[name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_what_follows_from_the_weights_alone_is_computed_when_they_change(device):
    """A prediction's normalisation goes into the weights of the convolution before it."""
    x, y = make_data(32)
    here, there = compile_net(reference_cpu()), compile_net(CudaBackend(device))
    here.build()
    there.set_weights(here.get_weights())
    for _ in range(2):
        np.testing.assert_allclose(there.predict(x, batch_size=4), here.predict(x, batch_size=4), rtol=1e-4, atol=1e-5)
        runner = executor_of(there, "predict")
        launches = device.emulator.launched.copy()
        there.predict(x[:4], batch_size=4)
        again = len(device.emulator.launched) - len(launches)
        assert runner.graph is not None
        assert again == len(runner.launches) - runner.plan.setup_steps or not runner.plan.setup_steps
        here.fit(x, y, batch_size=4, epochs=1, verbose=0)
        there.set_weights(here.get_weights())


def pictures():
    layers = pt.layers
    return pt.Sequential(
        [pt.Input((1, 5, 4)), layers.Flatten(), layers.Dense(3, name="logits")],
        preprocess=[layers.Rescaling(1 / 255), layers.RandomCrop(5, 4)],
        augment=[layers.RandomFlip("horizontal")],
    )


@pytest.mark.filterwarnings("ignore:preprocess layer:prototorch.errors.ModelWarning")
def test_a_step_prepares_its_pictures_itself(device):
    """They travel as bytes; what is drawn is what the loader's threads would have drawn."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 1, 6, 6)).astype("uint8"), rng.integers(0, 3, 20)
    models = [compile_net(b, pictures) for b in (reference_cpu(), CudaBackend(device))]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=2, verbose=0)
    runner = executor_of(models[1])
    (fed,) = (v for name, v in runner.plan.inputs.items() if v.dtype == "uint8")
    assert fed.shape == (4, 1, 6, 6)
    (cropped,) = (s for s in runner.plan.steps if s.op.name == "crop")
    assert cropped.inputs[0].spec.dtype == "uint8"
    assert runner.graph is not None, runner.capture_failure
    a, b = (m.get_weights() for m in models)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(models[0].predict(x), models[1].predict(x), rtol=1e-3, atol=1e-4)
    assert models[0].evaluate(x, y)["loss"] == pytest.approx(models[1].evaluate(x, y)["loss"], rel=1e-3)


def sequences():
    layers = pt.layers
    return pt.Sequential([pt.Input((5, 3)), layers.LSTM(4, name="walk"), layers.Dense(3, name="logits")])


def test_the_plans_figure_has_what_kernels_take(device):
    """Nothing is taken to know it; what is taken then is that, up to tables of addresses and what rounds sizes up."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 5, 3)).astype("float32"), rng.integers(0, 3, 8)
    model = compile_net(CudaBackend(device), sequences)
    program = model.trainer.plan_cache
    figure = memory_by_purpose(program, 4)
    assert device.used == 0
    assert figure[SCRATCH] > 0
    model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    assert [p for p, _ in program._executors] == ["train"]
    assert 0 <= device.used - figure["total"] < 4096


@pytest.mark.filterwarnings("ignore:preprocess layer:prototorch.errors.ModelWarning")
@pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")
def test_why_a_loss_is_not_finite_where_the_step_prepares_its_pictures(device):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 1, 6, 6)).astype("uint8"), rng.integers(0, 3, 20)
    told = []
    for backend in (reference_cpu(), CudaBackend(device)):
        model = compile_net(backend, pictures, optimizer=pt.optimizers.SGD(3e38))
        with pytest.raises(TrainingError) as failed:
            model.fit(x, y, batch_size=4, epochs=1, verbose=0)
        told.append(str(failed.value))
    assert "layer 'logits' (Dense) is the first whose output is not finite" in told[1]
    assert told[0].split(":")[1] == told[1].split(":")[1]


@pytest.mark.filterwarnings("ignore:.*the values of the input:prototorch.data.DataWarning")
def test_kernels_leave_the_weights_alone_after_a_loss_that_is_not_finite(device):
    x, y = make_data(24)
    x[9, 0, 2, 2] = 3e38
    model = compile_net(CudaBackend(device))
    good = compile_net(reference_cpu())
    good.fit(x[:8], y[:8], batch_size=4, epochs=1, verbose=0, shuffle=False)
    with pytest.raises(TrainingError, match="step 3 of epoch 1"):
        model.fit(x, y, batch_size=4, epochs=1, verbose=0, shuffle=False)
    wanted, found = good.get_weights(), model.get_weights()
    for name in (n for n in wanted if "moving" not in n):
        np.testing.assert_allclose(wanted[name], found[name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_the_devices_own_kernels(device):
    """The check of the loss and the copy of new states, as CUDA code."""
    player = device.emulator
    block = np.array([(1, 1, 0, 0.0, 0)], LossCheckState)
    for dtype in ("float32", "float64"):
        header = "#include <cmath>\nusing std::isfinite;\n"  # NVRTC has it of its own
        module = player.load_module(header + check_step_source(dtype))
        block[0] = (1, 1, 0, 0.0, 0)
        seen = []
        for loss in (1.0, np.inf, 2.0):
            nothing = (np.uint64(0),) * 4
            player.launch(module, "check_step", 1, 1, (block, np.array(loss, dtype), *nothing))
            seen.append(tuple(block[0].tolist()))
        assert seen == [(1, 1, 1, 0.0, 0), (0, 0, 1, np.inf, 0), (0, 0, 1, np.inf, 0)]
        seen = []
        for loss in (np.array(2.0, dtype), np.uint64(0)):  # a gradient that is not finite, with a loss and without one
            block[0] = (1, 1, 5, 0.0, 1)
            player.launch(module, "check_step", 1, 1, (block, loss, *nothing))
            seen.append(tuple(block[0].tolist()))
        assert seen == [(0, 0, 5, 2.0, 0), (0, 0, 5, 0.0, 0)]
        for with_loss in (True, False):
            values, report = np.array([(1, 1, 0, 0)], ValueCheckState), np.zeros(1, np.int32)
            block[0], seen = (1, 1, 0, 0.0, 0), []
            for outside in (0, 3, 0):
                loss = np.array(np.nan if outside else 1.0, dtype)
                losses = (block, loss, np.uint64(0)) if with_loss else (np.uint64(0),) * 3
                player.launch(module, "check_step", 1, 1, (*losses, values, np.array([outside], np.int32), report))
                seen.append((*values[0].tolist(), int(report[0]), *block[0].tolist()[:3]))
            after = [(1, 1, 1), (1, 0, 2), (1, 0, 3)] if with_loss else [(1, 1, 0)] * 3
            wanted = [(1, 1, 0, 1, 0), (0, 0, 1, 1, 1), (0, 0, 0, 1, 1)]
            assert seen == [(*one, *two) for one, two in zip(wanted, after, strict=True)]
    sources = [np.arange(n, dtype=np.uint8) for n in (4096, 7, 12)]
    targets = [np.zeros_like(a) for a in sources]
    pairs = list(zip(targets, sources, strict=True))
    table = np.array([(t.ctypes.data, s.ctypes.data, s.nbytes) for t, s in pairs], np.uint64)
    module = player.load_module(COPY_ALL_SOURCE)
    for flag in (0, 1):
        player.launch(module, "copy_all", 24, 256, (np.uint32(24), table, np.array([flag], np.int32)))
        assert all(np.array_equal(t, s if flag else 0 * s) for t, s in pairs)


@pytest.mark.parametrize("offset", [0, 4])
def test_the_check_of_many_arrays(device, offset):
    """Each element of arrays of all types of floats, at their ends and at those of a block's chunk, aligned or not."""
    player = device.emulator
    module = player.load_module(CHECK_FINITE_SOURCE)
    sizes = {"float32": (1, 7, 8192 + 5), "float16": (3, 16387), "bfloat16": (1, 33), "float64": (1, 9, 4099)}
    arrays = []
    for dtype, counts in sizes.items():
        for count in counts:
            kind = numpy_dtype(dtype)
            raw = np.empty(count * kind.itemsize + 64, np.uint8)
            start = -raw.ctypes.data % 64 + offset * (kind.itemsize != 8 or 2)
            arrays.append(raw[start : start + count * kind.itemsize].view(kind))
            largest = {"float16": 65504, "float64": 1.7e308}.get(dtype, 3.3e38)
            arrays[-1][...] = np.where(np.arange(count) % 2, 0, -largest).astype(kind)
    rows, chunks = finite_check_table([(a.ctypes.data, a.nbytes, a.dtype.name) for a in arrays])
    flag = np.zeros(1, np.int32)

    def is_flagged():
        flag[0] = 0
        player.launch(module, "check_finite", 5, 32, (np.uint32(len(chunks)), rows, chunks, flag))
        return bool(flag[0])

    assert not is_flagged(), "the largest numbers are finite"
    for array in arrays:
        for at in sorted({0, array.size // 2, array.size - 1, *((8191, 8192) if array.size > 8192 else ())}):
            for value in (np.nan, np.inf, -np.inf):
                before, array[at] = array[at], value
                assert is_flagged(), (array.dtype, array.size, at, value)
                array[at] = before
    assert not is_flagged()


def turned_sequences():
    layers = pt.layers
    return pt.Sequential([
        pt.Input((1, 6, 6)), layers.Conv2D(2, 3, name="conv"), layers.RandomRotation(0.1, name="turn"),
        layers.Reshape((4, 8), name="rows"), layers.GRU(4, reset_after=False, name="walk"),
        layers.Dense(3, name="logits"),
    ])  # fmt: skip


def test_what_turns_pictures_and_a_gru_of_the_first_kind_are_recorded_and_give_the_same_bits_twice(device):
    """The gradient passes through the turned pictures to the convolution; all steps of the plan are launches."""
    x, y = make_data(20)
    backends = reference_cpu(), CudaBackend(device), CudaBackend(device)
    models = [compile_net(b, turned_sequences, deterministic=True) for b in backends]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    assert {"affine_sample_grad", "back_left"} <= set(device.emulator.launched)
    assert executor_of(models[1]).graph is not None, executor_of(models[1]).capture_failure
    a, b, c = (m.get_weights() for m in models)
    for name in a:  # five steps; sums in another order, float32
        np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_array_equal(b[name], c[name], err_msg=name)
