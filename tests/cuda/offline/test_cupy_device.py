"""`CupyDevice` itself, with a mock of CuPy: the calls it makes, and whole trainings by recorded kernels."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda import cupy_device as device_module
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cupy_device import CupyDevice
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.errors import BackendError, ResourceError
from tests.cuda.fake.fake_gpu import compile_net, executor_of, reference_cpu
from tests.cuda.offline.mock_cupy import MockCupy
from tests.cuda.offline.shim_device import COMPILER, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.fixture
def cupy(tmp_path_factory, monkeypatch):
    shrink_tiles(monkeypatch.setattr)
    player = ShimDevice(str(tmp_path_factory.getbasetemp() / "kernels"))
    player.folder.mkdir(exist_ok=True)
    made = MockCupy(player)
    monkeypatch.setattr(device_module, "import_cupy", lambda: made)
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
    backend = CudaBackend(CupyDevice(ExecutionSettings(resolve_precision("fp32", gpu=True))))
    models = [compile_net(b, dense, optimizer=optimizer) for b in (reference_cpu(), backend)]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=3, verbose=0, validation_split=0.1)
    runner = executor_of(models[1], batch=4)
    assert runner.graph is not None, runner.capture_failure
    assert cupy.calls.count(f"graph of {len(runner.graph.graph.work)}") > 5
    a, b = (m.get_weights() for m in models)
    for name in a:  # float32 sums in another order, over fifteen steps
        np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(models[0].predict(x), models[1].predict(x), rtol=1e-3, atol=1e-4)


def test_what_cupy_refuses_to_record_is_told(cupy):
    """A reference implementation that waits for the device cannot be recorded; the steps are made without."""
    backend = CudaBackend(CupyDevice(ExecutionSettings(resolve_precision("fp32", gpu=True))))
    reference = backend.reference

    def asking(op, attrs):
        inner = reference(op, attrs)

        def run(inputs, outputs):
            backend.device.compute_stream.synchronize()
            inner(inputs, outputs)

        return run

    backend.reference = asking
    backend.levels = ()
    x, y = numbers()
    model = compile_net(backend, dense)
    with pytest.warns(RuntimeWarning, match=r"kernel by kernel.*RuntimeError: waiting while a stream records"):
        model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    assert cupy.recording is None


def test_memory(cupy):
    cupy.total = 4096
    device = CupyDevice()
    kept = device.alloc(1000)
    assert (kept.nbytes, kept.ctypes.data % 256) == (1000, 0)
    with pytest.raises(ResourceError, match=r"no memory for 3.9 KiB; 3.0 KiB are free of 4.0 KiB"):
        device.alloc(4000)
    array = device.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(device.download(array), [[0, 1, 2], [3, 4, 5]])
    assert device.upload(np.float64(3.0)).shape == ()
    assert device.empty((0, 3), "float32").shape == (0, 3)
    device.reserve(128)
    first = device.workspace()
    device.reserve(64)
    assert device.workspace() is first
    device.reserve(256)
    assert device.workspace().nbytes == 256


def test_a_recording_has_memory_of_its_own(cupy):
    """What is freed while a stream records is written to by the graph: nobody else gets it, and it is not given up."""
    device = CupyDevice()
    with device.stream_context():
        device.begin_capture()
        taken = cupy.allocator(512)
        graph = device.end_capture()
        assert graph.memory
        assert graph.memory[0] is taken
        cupy.allocator(512)
        assert len(graph.memory) == 1
        device.begin_capture()
        cupy.allocator(256)
        device.abandon_capture()
        after = cupy.allocator(256)
        assert device._graph_memory == []
        assert after not in graph.memory


def test_pinned_memory_is_as_large_as_was_asked(cupy):
    block = CupyDevice().alloc_pinned(1000)
    assert (block.nbytes, cupy.pinned) == (1000, 1000)
    block[...] = 7  # it can be written to


def test_a_gpu_that_cannot_be_used(cupy, monkeypatch):
    def lost():
        raise RuntimeError('Failure finding "libnvrtc.so"')

    monkeypatch.setattr(cupy.cuda.nvrtc, "getVersion", lost)
    with pytest.raises(BackendError, match=r"the GPU cannot be used: RuntimeError: Failure finding"):
        CupyDevice()


def test_what_a_kernel_does_not_take(cupy):
    device = CupyDevice()
    module = device.load_module('extern "C" __global__ void fill(unsigned n, float* a) { a[0] = n; }')
    target = device.upload(np.zeros(1, np.float32))
    device.launch(module, "fill", 1, 1, (np.uint32(3), target))
    assert device.download(target) == [3]
    for bad in (3, [1], np.ones(2, np.float32)):
        with pytest.raises(TypeError):
            device.launch(module, "fill", 1, 1, (bad, target))


def test_what_the_device_tells_of_itself(cupy):
    device = CupyDevice(ExecutionSettings(resolve_precision("bf16", gpu=True), deterministic=True))
    assert (device.name, device.capability) == ("mock", (9, 0))
    assert (device.precision, device.deterministic) == ("bf16", True)
    assert device.owns(device.upload(np.ones(3, np.float32)))
    assert not device.owns(np.ones(3, np.float32))


def test_times(cupy):
    x, y = numbers()
    model = compile_net(CudaBackend(CupyDevice()), dense)
    model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    runner = executor_of(model)
    inputs = {n: np.zeros(v.shape, v.dtype) for n, v in runner.plan.inputs.items()}
    assert all(ms == 1.0 for _, ms in runner.time_launches(inputs))
