"""Convolutions of 16-bit values run on tensor cores, planned by cuDNN for an H200 without a GPU.

Needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.engines.engine_files import graph_kernels
from tests.cuda.offline.offline_cudnn import load_stub_driver, make_offline_device

MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}"),
]
#: AlexNet's fourth and fifth convolutions, in two groups
ALEXNET = [((256, 384, 13, 13), (384, 192, 3, 3)), ((256, 384, 13, 13), (256, 192, 3, 3))]
ATTRS = (("strides", (1, 1)), ("pads", ((1, 1), (1, 1))), ("dilation", (1, 1)), ("groups", 2))


@pytest.fixture(scope="module", autouse=True)
def _driver(tmp_path_factory):
    load_stub_driver(tmp_path_factory.mktemp("driver"))


def conv_with_epilogue(backend, x, w):
    """The kernel of relu(conv(x, w) + bias)."""
    program = (
        ("conv", (("in", 0), ("in", 1)), ATTRS),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("relu", (("node", 1, 0),), ()),
    )
    attrs = {"program": program, "outputs": (("node", 2, 0),), "inplace": ()}
    y = (x[0], w[0], *x[2:])
    specs = Spec(x, "bfloat16", "channels_last"), Spec(w, "bfloat16"), Spec((w[0], 1, 1), "bfloat16")
    with use_device(backend.device):
        return Backend.prepare(backend, OPS["fused"], specs, (Spec(y, "bfloat16", "channels_last"),), attrs)


@pytest.mark.parametrize(("x", "w"), ALEXNET)
@pytest.mark.parametrize("deterministic", [False, True])
def test_grouped_convolutions_with_an_epilogue(x, w, deterministic):
    """cuDNN 9.19 has no engine with tensor cores for the fifth with its bias and ReLU: those become a kernel after
    it."""
    backend = CudaBackend(make_offline_device("bf16", deterministic))
    plans = [kernel.plan for kernel in graph_kernels(conv_with_epilogue(backend, x, w))]
    assert len(plans) == 1
    assert plans[0].uses_tensor_cores


@pytest.mark.parametrize("kind", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_large_convolutions_of_16_bit_values(kind):
    device = make_offline_device("bf16")
    x, w, y = ((64, 64, 56, 56), (64, 64, 3, 3), (64, 64, 56, 56))
    specs = {"x": Spec(x, "bfloat16", "channels_last"), "w": Spec(w, "bfloat16"),
             "y": Spec(y, "bfloat16", "channels_last")}  # fmt: skip
    names = {"conv": "xwy", "conv_input_grad": "ywx", "conv_weight_grad": "xyw"}[kind]
    attrs = {**dict(ATTRS), "groups": 1}
    if kind != "conv":
        attrs |= {"size": (56, 56)} if kind == "conv_input_grad" else {"kernel": (3, 3)}
    a, b, c = (specs[n] for n in names)
    with use_device(device):
        kernel = Backend.prepare(CudaBackend(device), OPS[kind], (a, b), (c,), attrs)
    (graph,) = graph_kernels(kernel)
    assert graph.plan.uses_tensor_cores
    assert graph.plan.engine.has_clusters or graph.plan.engine.slices > 1


def test_engines_without_tensor_cores_are_recognised():
    """In strict float32 there are no others."""
    device = make_offline_device("fp32")
    x, y = Spec((64, 64, 56, 56), "float32", "channels_last"), Spec((64, 64, 56, 56), "float32", "channels_last")
    with use_device(device):
        kernel = Backend.prepare(
            CudaBackend(device), OPS["conv"], (x, Spec((64, 64, 3, 3), "float32")), (y,), {**dict(ATTRS), "groups": 1}
        )
    (graph,) = graph_kernels(kernel)
    assert not graph.plan.uses_tensor_cores
