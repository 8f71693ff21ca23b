"""The default device (`pt.device` as a scope): which functions follow it, beside PyTorch with its device "meta"."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from tests.cuda.fake.fake_cuda import use_fake_cuda

HOST = "a tensor of the CPU"
CASES = {
    "zeros": lambda t, x: t.zeros(2),
    "ones": lambda t, x: t.ones(2, 3),
    "full": lambda t, x: t.full((2,), 3.0),
    "empty": lambda t, x: t.empty(2),
    "arange": lambda t, x: t.arange(3),
    "linspace": lambda t, x: t.linspace(0, 1, 3),
    "logspace": lambda t, x: t.logspace(0, 1, 3),
    "eye": lambda t, x: t.eye(3),
    "rand": lambda t, x: t.rand(2),
    "randn": lambda t, x: t.randn(2),
    "randint": lambda t, x: t.randint(0, 3, (2,)),
    "randperm": lambda t, x: t.randperm(3),
    "tril_indices": lambda t, x: t.tril_indices(3, 3),
    "tensor": lambda t, x: t.tensor([1.0]),
    "as_tensor": lambda t, x: t.as_tensor([1.0]),
    "as_tensor of an array": lambda t, x: t.as_tensor(np.ones(2, "float32")),
    "as_tensor of a tensor": lambda t, x: t.as_tensor(x),
    "asarray": lambda t, x: t.asarray([1.0]),
    "scalar_tensor": lambda t, x: t.scalar_tensor(1.0),
    "from_numpy": lambda t, x: t.from_numpy(np.ones(2, "float32")),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "rand_like": lambda t, x: t.rand_like(x),
    "new_zeros": lambda t, x: x.new_zeros(2),
    "new_tensor": lambda t, x: x.new_tensor([1.0]),
    "device=": lambda t, x: t.zeros(2, device="cpu"),
    "FloatTensor": lambda t, x: t.FloatTensor(2),
    "Linear": lambda t, x: t.nn.Linear(2, 3).weight,
    "BatchNorm1d": lambda t, x: t.nn.BatchNorm1d(2).running_mean,
    "Embedding": lambda t, x: t.nn.Embedding(2, 3).weight,
    "LSTM": lambda t, x: t.nn.LSTM(2, 3).weight_hh_l0,
    "Parameter of a tensor": lambda t, x: t.nn.Parameter(x),
}


@pytest.fixture(autouse=True)
def two_gpus():
    with use_fake_cuda():
        yield


@pytest.mark.parametrize("name", CASES)
def test_what_follows_the_scope_does_so_in_pytorch(name):
    make = CASES[name]
    there, here = torch.ones(2, 2), pt.ones(2, 2)
    with torch.device("meta"):
        follows = make(torch, there).device.type == "meta"
    with pt.device("cuda:1"):
        assert make(pt, here).device == ("cuda:1" if follows else "cpu")
    assert make(pt, here).device == "cpu"
    pt.set_default_device("cuda:1")
    try:
        assert make(pt, here).device == ("cuda:1" if follows else "cpu")
    finally:
        pt.set_default_device(None)
    assert make(pt, here).device == "cpu"


def test_scopes_nest_and_end_with_errors():
    assert pt.get_default_device() == "cpu"
    with pt.device("cuda:1"):
        with pt.device("cpu"):
            assert pt.zeros(1).device == "cpu"
        assert pt.get_default_device() == pt.zeros(1).device == "cuda:1"
        with pytest.raises(ZeroDivisionError), pt.device("cuda:0"):
            _ = 1 / 0
        assert pt.zeros(1).device == "cuda:1"
        with pt.cuda.device(0), pt.device("cuda"):
            assert pt.zeros(1).device == "cuda:0"
    assert pt.zeros(1).device == "cpu"


def test_the_same_device_twice_and_as_a_decorator():
    gpu = pt.device("cuda:1")
    with gpu, gpu:
        pass
    assert pt.zeros(1).device == "cpu"

    @gpu
    def make(n):
        """Zeros."""
        return pt.zeros(n)

    assert make(3).device == "cuda:1"
    assert make.__doc__ == "Zeros."


def test_training_in_a_scope():
    """The lecture's net of tensors, moved to a GPU by one line around it."""

    def train():
        pt.manual_seed(0)
        x, y = pt.randn(8, 5), pt.randn(8, 2)
        net = pt.nn.Sequential(pt.nn.Linear(5, 4), pt.nn.ReLU(), pt.nn.Dropout(0.2), pt.nn.Linear(4, 2))
        method = pt.optim.Adam(net.parameters(), lr=1e-2)
        for _ in range(3):
            loss = pt.nn.functional.mse_loss(net(x), y)
            method.zero_grad()
            loss.backward()
            method.step()
        return loss

    expected = train()
    with pt.device("cuda:1"):
        loss = train()
    assert loss.device == "cuda:1"
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_compiled_function_has_a_plan_for_each_scope():
    function = pt.compile(lambda: pt.ones(3).cumsum(0))
    assert function().device == "cpu"
    with pt.device("cuda:1"):
        assert function().device == "cuda:1"
    assert function().tolist() == [1, 2, 3]


def test_what_is_read_from_files_stays_on_the_cpu(tmp_path):
    pt.save({"w": pt.ones(2)}, tmp_path / "w.pt")
    with pt.device("cuda:1"):
        assert pt.load(tmp_path / "w.pt")["w"].device == "cpu"
        assert pt.load(tmp_path / "w.pt", map_location="cuda:0")["w"].device == "cuda:0"


def test_models_are_made_in_a_scope_as_elsewhere():
    with pt.device("cuda:1"):
        model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
        model.compile("sgd", "mse", device="cpu")
        model.fit(np.ones((4, 3), "float32"), np.ones((4, 2), "float32"), verbose=0)
        assert model.predict(np.ones((1, 3), "float32")).shape == (1, 2)
