"""pt.cuda: as PyTorch's where there is no GPU; tensors on a device, on the recording one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.eager.device import Device, current_gpu
from prototorch.eager.interpreter import EagerInterpreter
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import BackendError, UsageError
from tests.cuda.fake.fake_gpu import fake_backend

without_gpu = pytest.mark.skipif(pt.cuda.is_available(), reason="this machine has a GPU")


@without_gpu
@pytest.mark.parametrize(
    "name", ["is_available", "device_count", "memory_allocated", "max_memory_allocated", "memory_reserved",
             "empty_cache", "is_bf16_supported", "is_initialized", "reset_peak_memory_stats"]
)  # fmt: skip
def test_questions_are_answered_without_a_gpu(name):
    ours = getattr(pt.cuda, name)()
    theirs = None if name == "reset_peak_memory_stats" else getattr(torch.cuda, name)()
    assert ours == theirs


@without_gpu
@pytest.mark.parametrize(
    "call",
    [pt.cuda.current_device, pt.cuda.synchronize, pt.cuda.get_device_name, pt.cuda.get_device_capability,
     pt.cuda.mem_get_info, pt.cuda.init, lambda: pt.cuda.set_device(0), lambda: pt.zeros(2, device="cuda"),
     lambda: pt.zeros(2).cuda(), lambda: pt.zeros(2).to("cuda:1"), lambda: pt.cuda.FloatTensor(2),
     lambda: pt.cuda.device(0).__enter__()],
)  # fmt: skip
def test_what_needs_a_gpu_says_what_is_missing(call):
    with pytest.raises(BackendError, match=r"no NVIDIA driver|no GPU|not installed"):
        call()


def test_seeds_are_those_of_the_default_generator():
    pt.cuda.manual_seed_all(5)
    one = pt.rand(3)
    state = pt.cuda.get_rng_state()
    two = pt.rand(3)
    pt.cuda.manual_seed(5)
    assert pt.rand(3).tolist() == one.tolist()
    pt.cuda.set_rng_state(state)
    assert pt.rand(3).tolist() == two.tolist()
    assert pt.cuda.initial_seed() == 5


def test_a_context_without_a_device_changes_nothing():
    with pt.cuda.device(-1), pt.cuda.device(None):
        assert current_gpu.get() == 0


@pytest.mark.parametrize("name", ["Stream", "Event", "amp", "CUDAGraph"])
def test_names_that_do_not_exist_have_a_reason(name):
    with pytest.raises(AttributeError, match=f"prototorch.cuda.{name} does not exist: "):
        getattr(pt.cuda, name)


def test_the_cpu_is_no_gpu():
    with pytest.raises(UsageError, match="expected a GPU"):
        pt.cuda.get_device_name("cpu")
    with pytest.raises(BackendError, match="there is no device 'cpu:1'"):
        backend_for("cpu:1")


@pytest.mark.parametrize("name", ["FloatTensor", "DoubleTensor", "LongTensor", "ByteTensor", "BoolTensor"])
def test_types_of_old_pytorch(name):
    ours, theirs = getattr(pt, name), getattr(torch, name)
    assert ours([1, 0, 2]).tolist() == theirs([1, 0, 2]).tolist()
    assert tuple(ours(2, 3).shape) == tuple(theirs(2, 3).shape)
    assert tuple(ours().shape) == tuple(theirs().shape)
    assert isinstance(ours(1), ours)
    assert not isinstance(pt.zeros(1, dtype=pt.int32), ours)
    assert pt.ones(2).type(ours).dtype == str(torch.ones(2).type(theirs).dtype).partition(".")[2]
    assert ours(2).type() == theirs(2).type()


def test_the_seed_can_be_the_first_thing_that_is_used():
    code = "import prototorch as pt; pt.manual_seed(0); pt.rand(2)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_training_step_on_a_device():
    """The fake device queues its kernels: what the interpreter does to arrays must be in order with them."""
    gpu = EagerInterpreter(fake_backend(), Device("cuda", 0))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((4, 3), (3, 2), (4, 2))]

    def step(make):
        x, w, y = (make(a.copy()) for a in arrays)
        w.requires_grad = True
        for _ in range(3):
            loss = ((x @ w).relu() - y).pow(2).sum()
            loss.backward()
            with pt.no_grad():
                w -= 0.1 * w.grad
                w.grad.zero_()
        return w

    ours, expected = step(gpu.constant), step(pt.tensor)
    np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-5)
    assert str(ours.device) == "cuda:0"
    assert ours.is_leaf
    with pytest.raises(UsageError, match=r"different devices, cuda:0 and cpu|different devices, cpu and cuda:0"):
        ours + expected
    assert (ours + pt.tensor(1.0)).device == ours.device
