"""Functions of tensors on a device whose constants were made on the CPU: all are on the device, and in order."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.eager import interpreter
from prototorch.nn import functional as F
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.cuda.gpu.device_cases import assert_same_call


@pytest.fixture(autouse=True)
def gpu():
    interpreter._gpu_interpreter.cache_clear()
    with use_fake_cuda():
        yield interpreter.interpreter_for("cuda")
    interpreter._gpu_interpreter.cache_clear()


def x(*shape, grad=True):
    made = pt.tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))
    made.requires_grad = grad
    return made


INDEX = pt.tensor([0, 2, 1])
CALLS = {
    "entr": (pt.special.entr, (x(5),)),
    "frexp": (pt.frexp, (x(5, grad=False),)),
    "index_fill": (pt.index_fill, (x(4, 3), 0, INDEX, 2.0)),
    "index_reduce": (
        lambda a, i, b: a.index_reduce(0, i, b, "mean"),
        (x(4, 3, grad=False), INDEX, x(3, 3, grad=False)),
    ),
    "scatter_reduce": (lambda a, i, b: a.scatter_reduce(0, i, b, "mean"), (x(4), INDEX, x(3))),
    "vander": (pt.linalg.vander, (x(4),)),
    "quantile": (pt.quantile, (x(9), 0.3)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2, return_indices=True), (x(1, 2, 6, 6),)),
    "adaptive_max_pool2d": (lambda a: F.adaptive_max_pool2d(a, 3, return_indices=True), (x(1, 2, 7, 6),)),
    "embedding_bag": (lambda i, w, o: F.embedding_bag(i, w, o), (INDEX, x(4, 3), pt.tensor([0, 2]))),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 3, 4), align_corners=False), (x(1, 2, 3),)),
    "batch_norm": (lambda a: F.batch_norm(a, None, None, training=True), (x(4, 3),)),
    "pad_sequence": (lambda a, b: pt.nn.utils.rnn.pad_sequence([a, b]), (x(3, 2), x(5, 2))),
    "logcumsumexp": (lambda a: pt.logcumsumexp(a, 0), (x(5),)),
    "scalars": (lambda a: (2 - a * 3 + 1) / 4 > 0.5, (x(5),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_constants_are_on_the_device(name):
    function, arguments = CALLS[name]
    assert_same_call(function, arguments, {}, gradient=name != "scalars")


def test_pythons_numbers_are_copied_to_the_device_once(gpu):
    y = x(5, grad=False).to("cuda")
    y * 3 + 1
    device = gpu.backend.device
    start = len(device.log)
    for _ in range(5):
        y = y * 3 + 1
    assert "download" not in {entry[0] for entry in device.log[start:]}
    assert sum(entry[0] == "alloc" for entry in device.log[start:]) == 10  # the results alone


def test_an_optimizer_does_not_wait(gpu):
    weight = x(4, 3).detach().to("cuda")
    weight.requires_grad = True
    method = pt.optim.Adam([weight])
    for k in range(4):
        start = len(gpu.backend.device.log)
        weight.grad = pt.ones(4, 3, device="cuda")
        method.step()
        calls = {entry[0] for entry in gpu.backend.device.log[start:]}
        assert k == 0 or {"download", "overwrite"}.isdisjoint(calls)
