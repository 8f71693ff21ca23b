"""Caffe's nets on a device: blobs are the host's, results are waited for."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.settings import SETTINGS
from tests.caffe import test_caffe_solver_fields as fields
from tests.caffe import test_caffe_solvers as solvers
from tests.caffe.test_caffe_net import MLP, mlp, write
from tests.cuda.fake.fake_cuda import use_fake_cuda

folder, make = fields.folder, fields.make


@pytest.fixture(autouse=True)
def gpu_mode(monkeypatch):
    monkeypatch.setattr(SETTINGS, "device", "cuda")
    monkeypatch.chdir(solvers.SOLVERS)
    with use_fake_cuda():
        yield


def test_forward_and_backward(tmp_path):
    pt.caffe.set_random_seed(3)
    net = pt.caffe.Net(write(tmp_path, MLP), pt.caffe.TEST)
    assert net.backend.has_device_memory
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    hidden, expected = mlp(net, x)
    for _ in range(4):
        net.blobs["data"].data[...] = x
        np.testing.assert_allclose(net.forward()["out"], expected, rtol=1e-5)
    gradient = net.backward(out=np.ones((4, 2), np.float32))["data"]
    w1, _, w2, _ = (p.data for name in ("ip1", "ip2") for p in net.params[name])
    np.testing.assert_allclose(gradient, ((hidden > 0) * (np.ones((4, 2)) @ w2)) @ w1, rtol=1e-4)


def test_a_solver_layer_by_layer_and_as_one_plan():
    for is_one_plan in (True, False):
        run = solvers.Run("sgd_clip", "float32")
        for iteration in range(1, 4):
            if is_one_plan:
                run.solver.param.max_iter = iteration
                run.solver.solve()
            else:
                run.solver.step(1)
            run.check(iteration)
        run.solver.close()


@pytest.mark.parametrize("face", fields.FACES)
@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_an_iteration_that_is_not_finite_changes_nothing(make, face, fault):
    fields.test_an_iteration_that_is_not_finite_changes_nothing(make, face, fault)
