"""Slices whose addresses are no multiples of 16 bytes: kernels load and store vectors, which must not lie there. A
launch with such an array is an error of the stand-in, as it is one of a GPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.executor.cuda_graph import CudaGraphExecutor
from prototorch.cuda.fake_device import FakeDevice, MisalignedArrayError
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.cuda.offline.shim_device import COMPILER, ShimDevice
from tests.cuda.offline.small_tiles import shrink_tiles

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
OFFSETS = [1, 2, 3, 5]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    return ShimDevice(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def kernels(emulator, monkeypatch):
    shrink_tiles(monkeypatch.setattr)
    with use_fake_cuda(emulator=emulator):
        yield emulator


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(np.float32)


def at_offset(array: np.ndarray, offset: int, device: str):
    """A tensor of these elements that is a slice from ``offset`` on, and what it is a slice of."""
    base = pt.zeros(offset + array.size + 3, device=device)
    view = base[offset : offset + array.size]
    view.copy_(pt.tensor(array.ravel()).to(device))
    return view.view(*array.shape), base


IN_PLACE = {
    "iadd": lambda x, y: x.__iadd__(y),
    "isub": lambda x, y: x.__isub__(y),
    "imul": lambda x, y: x.__imul__(y),
    "itruediv": lambda x, y: x.__itruediv__(y),
    "add_scalar": lambda x, y: x.add_(1.5),
    "addcmul": lambda x, y: x.addcmul_(y, y, value=0.5),
    "lerp": lambda x, y: x.lerp_(y, 0.25),
    "exp": lambda x, y: x.exp_(),
    "clamp": lambda x, y: x.clamp_(0.7, 1.5),
    "copy": lambda x, y: x.copy_(y),
    "fill": lambda x, y: x.fill_(3.0),
    "transposed": lambda x, y: x.t().mul_(y.t()),
    "rows": lambda x, y: x[1:].add_(y[1:]),
}


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_ops_on_a_slice(kernels, name, offset):
    results = []
    for device in ("cpu", "cuda"):
        x, base = at_offset(values(4, 8), offset, device)
        y, _ = at_offset(values(4, 8, seed=1), offset, device)
        IN_PLACE[name](x, y)
        results.append(base.cpu().numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def test_the_sum_of_the_issue(kernels):
    x = pt.zeros(9, device="cuda")
    x[1:] += pt.ones(8, device="cuda")
    assert x.tolist() == [0.0] + [1.0] * 8


FUNCTIONS = {
    "add": lambda x: x + x,
    "softmax": lambda x: pt.softmax(x, -1),
    "sum": lambda x: x.sum(1),
    "matmul": lambda x: x @ x.t(),
    "layer_norm": lambda x: pt.nn.functional.layer_norm(x, (8,)),
    "cast": lambda x: x.to(pt.float64),
    "concatenate": lambda x: pt.cat([x, x[:1]]),
    "gather": lambda x: x[pt.tensor([2, 0], device=x.device)],
}


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_slice_with_gradients(kernels, name, offset):
    results = []
    for device in ("cpu", "cuda"):
        x, _ = at_offset(values(4, 8), offset, device)
        x = x.detach().requires_grad_()
        y = FUNCTIONS[name](x)
        (y * y).sum().backward()
        results.append((y.detach().cpu().numpy(), x.grad.cpu().numpy()))
    for got, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("method", [pt.optim.SGD, pt.optim.Adam, pt.optim.RMSprop])
@pytest.mark.parametrize("compiled", [False, True])
def test_an_optimizer_on_a_leaf_that_is_a_slice(kernels, method, offset, compiled):
    results = []
    for device in ("cpu", "cuda"):
        weight, base = at_offset(values(4, 8), offset, device)
        weight = weight.detach().requires_grad_()
        optimizer = method([weight], lr=0.1)
        x = pt.tensor(values(4, 8, seed=2)).to(device)

        def step(x, weight=weight, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (weight * x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = pt.compile(step) if compiled else step
        losses = [float(run(x)) for _ in range(5)]  # the last ones by a captured graph
        results.append((losses, base.cpu().numpy()))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-4)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-4, atol=1e-5)


def test_the_stand_in_refuses_what_a_gpu_refuses():
    device = FakeDevice()
    array = device.empty((9,), "float32")
    device.launch(None, "kernel", 1, 1, [array[4:]])
    with pytest.raises(MisalignedArrayError, match="kernel: an array at"):
        device.launch(None, "kernel", 1, 1, [array[1:]])


@pytest.mark.parametrize("name", ["two_layer", pytest.param("lenet", marks=pytest.mark.slow)])
def test_steps_do_not_read_what_the_step_before_left_in_the_arena(kernels, name, monkeypatch):
    """The arena is filled with NaN before each step, and the loss is that of steps whose arena is left alone."""
    shape = {"two_layer": (8, 64), "lenet": (2, 1, 28, 28)}[name]
    x, y = values(*shape), np.arange(shape[0]) % 10
    real = CudaGraphExecutor.__call__

    def poisoned(self, *args, **options):
        arena = self._arena

        def poison():
            arena[...] = 0xFF

        self.device.enqueue("poison", poison)
        return real(self, *args, **options)

    losses = []
    for call in (real, poisoned):
        monkeypatch.setattr(CudaGraphExecutor, "__call__", call)
        model = pt.load_model(name, overrides=["compile.device=cuda", "compile.seed=1"])
        losses.append([copy.copy(model.train_on_batch(x, y))["loss"] for _ in range(5)])
    assert losses[0] == losses[1]
    assert np.isfinite(losses[1]).all()
