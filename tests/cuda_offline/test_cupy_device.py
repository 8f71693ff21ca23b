"""`CupyDevice` itself, with a stand-in for CuPy: the calls it makes, and whole trainings by recorded kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from mock_cupy import MockCupy
from shim_device import COMPILER, ShimDevice

import prototorch as pt
from prototorch.backends.cuda import device as device_module
from prototorch.backends.cuda.backend import CudaBackend
from prototorch.backends.cuda.device import CupyDevice
from prototorch.backends.cuda.kernels import matmul
from prototorch.backends.precision import Settings, precision_of
from prototorch.errors import ResourceError

sys.path.insert(0, str(Path(__file__).parent.parent / "cuda_fake"))
from fake_gpu import compiled, plain_cpu, runner_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.fixture
def cupy(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(matmul, "TILE", 8)
    monkeypatch.setattr(matmul, "WORK", 4)
    player = ShimDevice(str(tmp_path_factory.getbasetemp() / "kernels"))
    player.folder.mkdir(exist_ok=True)
    made = MockCupy(player)
    monkeypatch.setattr(device_module, "load_cupy", lambda: made)
    return made


def dense():
    """All of it has kernels: nothing but launches is recorded."""
    layers = pt.layers
    return pt.Sequential([pt.Input((5,)), layers.Dense(4, activation="tanh", name="a"), layers.Dense(3, name="b")])


def numbers(count=24):
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, 5)).astype("float32"), rng.integers(0, 3, count)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training(cupy, optimizer):
    x, y = numbers(25)
    backend = CudaBackend(CupyDevice(Settings(precision_of("fp32", gpu=True))))
    models = [compiled(b, dense, optimizer=optimizer) for b in (plain_cpu(), backend)]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=3, verbose=0, validation_split=0.1)
    runner = runner_of(models[1], batch=4)
    assert runner.graph is not None, runner.refused
    assert cupy.told.count(f"graph of {len(runner.graph.work)}") > 5
    a, b = (m.get_weights() for m in models)
    for name in a:  # float32 sums in another order, over fifteen steps
        np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(models[0].predict(x), models[1].predict(x), rtol=1e-3, atol=1e-4)


def test_what_cupy_refuses_to_record_is_told(cupy):
    """A plain body that waits for the device cannot be recorded; the steps are made without."""
    backend = CudaBackend(CupyDevice(Settings(precision_of("fp32", gpu=True))))
    plain = backend.plain

    def asking(op, attrs):
        inner = plain(op, attrs)

        def run(inputs, outputs):
            backend.device.main.synchronize()
            inner(inputs, outputs)

        return run

    backend.plain = asking
    backend.levels = ()
    x, y = numbers()
    model = compiled(backend, dense)
    with pytest.warns(RuntimeWarning, match=r"kernel by kernel.*RuntimeError: waiting while a stream records"):
        model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    assert cupy.recording is None


def test_memory(cupy):
    cupy.total = 4096
    device = CupyDevice()
    kept = device.alloc(1000)
    assert (kept.nbytes, kept.ctypes.data % 256) == (1000, 0)
    with pytest.raises(ResourceError, match=r"no room for 3.9 KiB; 3.0 KiB are free of 4.0 KiB"):
        device.alloc(4000)
    array = device.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(device.fetch(array), [[0, 1, 2], [3, 4, 5]])
    assert device.upload(np.float64(3.0)).shape == ()
    assert device.empty((0, 3), "float32").shape == (0, 3)
    device.reserve(128)
    first = device.workspace()
    device.reserve(64)
    assert device.workspace() is first
    device.reserve(256)
    assert device.workspace().nbytes == 256


def test_what_the_device_tells_of_itself(cupy):
    device = CupyDevice(Settings(precision_of("bf16", gpu=True), deterministic=True))
    assert (device.name, device.capability) == ("mock", (9, 0))
    assert (device.precision, device.deterministic) == ("bf16", True)
    assert device.owns(device.upload(np.ones(3, np.float32)))
    assert not device.owns(np.ones(3, np.float32))


def test_times(cupy):
    x, y = numbers()
    model = compiled(CudaBackend(CupyDevice()), dense)
    model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    runner = runner_of(model)
    inputs = {n: np.zeros(v.shape, v.dtype) for n, v in runner.plan.inputs.items()}
    assert all(ms == 1.0 for _, ms in runner.times(inputs))
