"""What a model takes on a GPU is given back: memory, the workspace, a backend's streams and cuDNN's handle."""

from __future__ import annotations

import gc
import threading
from itertools import product
from types import SimpleNamespace
from weakref import ref

import pytest

from prototorch.cuda import backend as cuda_backend
from prototorch.cuda import graph_capture
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import CudnnContext, get_context, set_context
from prototorch.cuda.fake_device import FakeDevice
from prototorch.cuda.graph_capture import capture_graph, release_later
from prototorch.cuda.kernels.launch import workspace_address
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.train.summary import step_specs
from tests.cuda.fake.fake_gpu import compile_net, fake_backend, make_data

SETTINGS = [
    ExecutionSettings(resolve_precision(precision, gpu=True), deterministic, autotune)
    for precision, deterministic, autotune in product(("fp32", "tf32", "bf16", "fp16"), (False, True), (False, True))
]


def collect():
    """Twice: what refers to an object with a finalizer is found by the second collection."""
    gc.collect()
    gc.collect()


class Gpu:
    """One GPU, shared by the devices of all settings, and cuDNN's handles on it."""

    def __init__(self, monkeypatch):
        self.devices, self.created, self.destroyed = [], [], []
        monkeypatch.setattr(cuda_backend, "CupyDevice", self.device)
        monkeypatch.setattr(cuda_backend, "_last_used", [])
        self.module = SimpleNamespace(
            create_handle=self.create,
            set_stream=lambda *_: None,
            destroy_handle=self.destroyed.append,
            pygraph=self.refuse,
            cudnnGraphNotSupportedError=LookupError,
            backend_version=lambda: 91900,
            __version__="1.28.0",
            data_type=SimpleNamespace(FLOAT=0, DOUBLE=1, HALF=2, BFLOAT16=3),
        )

    def refuse(self, **_):
        raise LookupError("no engine")

    def create(self):
        self.created.append(len(self.created))
        return self.created[-1]

    def device(self, settings, index):
        made = FakeDevice(settings)
        made.compute_stream.ptr = 1
        set_context(made, CudnnContext(self.module, made))
        self.devices.append(ref(made))
        return made

    def alive(self):
        collect()
        return [device() for device in self.devices if device() is not None]


@pytest.fixture
def gpu(monkeypatch):
    return Gpu(monkeypatch)


def train(backend, **options):
    model = compile_net(backend)
    x, y = make_data(20)
    model.fit(x, y, **{"batch_size": 4, "epochs": 1, "verbose": 0, **options})
    return model


def prepare(backend):
    """A model with its training step prepared."""
    model = compile_net(backend)
    plans = model.trainer.plan_cache
    plans.executor("train", step_specs(model.net, 4))
    return model


def finish(device):
    """Run what is enqueued: the fake device's queues hold the arrays of work that has not run yet."""
    for stream in (device.compute_stream, device.copy_stream):
        device._run_all(stream)
    collect()


def test_many_settings_one_after_another_leave_one_backend(gpu):
    for settings in SETTINGS:
        prepare(cuda_backend.get_backend(settings))
    (last,) = gpu.alive()
    assert last.settings == SETTINGS[-1]
    assert len(gpu.created) == len(SETTINGS)
    assert sorted(gpu.destroyed) == gpu.created[:-1], "each handle once, but the one in use"
    assert last.used == 0


def test_models_of_the_same_settings_share_a_backend_as_long_as_one_is_used(gpu):
    one, other = SETTINGS[:2]
    model = prepare(cuda_backend.get_backend(one))
    for settings in SETTINGS[1:8]:
        cuda_backend.get_backend(settings)
    gc.collect()
    assert cuda_backend.get_backend(one) is model.trainer.plan_cache.backend
    assert cuda_backend.get_backend(other) is cuda_backend.get_backend(other)


def test_a_model_gives_all_of_its_memory_back():
    """The arena, weights and slots, the inputs' blocks, the check of the loss, pinned memory, captured graphs."""
    backend = fake_backend()
    device = backend.device
    for _ in range(3):
        model = train(backend, validation_split=0.2)
        assert device.used > 0
        model_ref = ref(model)
        del model
        finish(device)
        assert model_ref() is None
        assert device.used == 0


def test_the_workspace_is_released_after_the_last_step_that_uses_it():
    backend = fake_backend()
    device = backend.device
    one, other = prepare(backend), prepare(backend)
    workspace_address(device, 1 << 20)
    before = device.used
    del one
    collect()
    assert device._workspace_bytes == 1 << 20, "the other model's steps may use it"
    del other
    collect()
    assert device._workspace_bytes == 0
    assert before > 1 << 20
    assert device.used == 0
    workspace_address(device, 512)
    assert device.workspace().nbytes == 512, "a kernel that goes on requests what it needs itself"


def test_a_device_does_not_keep_itself_alive_by_its_context(gpu):
    device = gpu.device(SETTINGS[0], 0)
    context = get_context(device)
    assert context.device is device
    del device
    assert gpu.alive() == []
    with pytest.raises(AssertionError, match="after its device"):
        context.device  # noqa: B018
    assert gpu.destroyed == [0]


def test_nothing_is_released_during_a_capture(gpu):
    """cudnnDestroy waits for the device, by which a capture would be lost."""
    device, victim = FakeDevice(), gpu.device(SETTINGS[0], 0)
    seen = []

    def work():
        nonlocal victim
        victim = None
        gc.collect()
        release_later(lambda: seen.append("released"))
        other = threading.Thread(target=lambda: release_later(lambda: seen.append("by a thread")))
        other.start()
        other.join()
        assert gpu.destroyed == []
        assert seen == []

    capture_graph(device, work)
    assert gpu.destroyed == [0]
    assert seen == ["released", "by a thread"]


def test_a_capture_that_fails_releases_as_well():
    device, seen = FakeDevice(), []

    def work():
        release_later(lambda: seen.append(1))
        raise ValueError("it cannot be captured")

    with pytest.raises(ValueError, match="it cannot be captured"):
        capture_graph(device, work)
    assert seen == [1]
    assert gc.isenabled()
    assert not graph_capture._pending_releases


def test_a_release_that_fails_does_not_keep_others():
    seen = []
    release_later(lambda: 1 // 0)
    release_later(lambda: seen.append(1))
    assert seen == [1]


def test_models_that_are_garbage_do_not_count_against_the_next_one():
    """A model refers to itself: its memory is free when the garbage collector has run, which a new model causes."""
    model = train(fake_backend())
    used = model.trainer.plan_cache.backend.device.used
    backend = CudaBackend(FakeDevice(memory=int(1.8 * used)), kernels=False)
    gc.disable()
    try:
        for _ in range(3):
            model = train(backend)
            for stream in (backend.device.copy_stream, backend.device.compute_stream):
                backend.device._run_all(stream)
            del model
    finally:
        gc.enable()
