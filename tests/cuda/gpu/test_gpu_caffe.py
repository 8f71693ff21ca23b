"""Caffe's nets and solvers on the GPU: the golden runs of real Caffe, stochastic pooling, data that a net is given."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.caffe.settings import SETTINGS
from prototorch.cuda.availability import unavailable_reason
from prototorch.errors import ModelWarning
from tests.caffe import test_caffe_solvers as solvers
from tests.caffe.test_caffe_net import MLP, mlp, write

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

TOLERANCE = 2e-3  # of the largest element, after five iterations in strict float32


@pytest.fixture(autouse=True)
def gpu_mode(monkeypatch):
    monkeypatch.setattr(SETTINGS, "device", "cuda")
    monkeypatch.chdir(solvers.SOLVERS)


def assert_close(self, actual, expected, what):
    scale = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * scale, err_msg=what)


@pytest.mark.parametrize("name", solvers.NAMES)
def test_solvers_are_caffe(name, monkeypatch):
    """Iterations as one plan each, and layer by layer (`step`)."""
    monkeypatch.setattr(solvers.Run, "assert_close", assert_close)
    for is_one_plan in (True, False):
        run = solvers.Run(name, "float32")
        try:
            for iteration in range(1, 6):
                if is_one_plan:
                    run.solver.param.max_iter = iteration
                    run.solver.solve()
                else:
                    run.solver.step(1)
                run.check(iteration)
        finally:
            run.solver.close()


def test_a_net_as_pycaffe_has_it(tmp_path):
    """Blobs, ranges of layers, and gradients."""
    pt.caffe.set_random_seed(3)
    net = pt.caffe.Net(write(tmp_path, MLP), pt.caffe.TEST)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    hidden, expected = mlp(net, x)
    for _ in range(4):
        net.blobs["data"].data[...] = x
        out = net.forward()["out"]
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.blobs["ip1"].data, hidden, rtol=1e-4, atol=1e-5)
    net.blobs["ip1"].data[...] = hidden + 1
    again = net.forward(start="ip2")["out"]
    np.testing.assert_allclose(
        again, (hidden + 1) @ net.params["ip2"][0].data.T + net.params["ip2"][1].data, rtol=1e-4, atol=1e-5
    )
    net.forward()
    gradient = net.backward(out=np.ones((4, 2), np.float32))["data"]
    w1, _, w2, _ = (p.data for name in ("ip1", "ip2") for p in net.params[name])
    np.testing.assert_allclose(gradient, ((hidden > 0) * (np.ones((4, 2)) @ w2)) @ w1, rtol=1e-3, atol=1e-5)


def test_double_precision_runs_on_the_cpu(tmp_path):
    with pytest.warns(ModelWarning, match="the GPU mode runs on the CPU: precision float64"):
        net = pt.caffe.Net(write(tmp_path, MLP), pt.caffe.TEST, precision="float64")
    assert not net.backend.has_device_memory
