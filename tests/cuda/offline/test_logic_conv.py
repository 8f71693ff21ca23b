"""The package's own convolution and its gradients beside the reference implementations, played on the CPU."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from prototorch.cuda import device_kind
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.kernels import conv as own
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends import devices
from prototorch.engine.backends.precision import resolve_precision
from prototorch.errors import BackendError
from prototorch.graph.plan_printer import describe_plan
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from prototorch.train.summary import step_specs
from tests.cuda.fake.fake_gpu import compile_net, use_backend
from tests.cuda.offline.kernel_logic import LAST, guarded_output, random_array, with_layout
from tests.cuda.offline.recording_devices import PlanDevice
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")

#: x, w, strides, pads, dilation, groups
CASES = {
    "plain": ((2, 3, 7, 6), (5, 3, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "strided, padded on one side": ((2, 3, 8, 7), (4, 3, 3, 2), (2, 3), ((1, 2), (0, 1)), (1, 1), 1),
    "dilated": ((1, 2, 9, 9), (3, 2, 3, 3), (1, 2), ((2, 2), (1, 1)), (2, 3), 1),
    "groups": ((2, 6, 5, 5), (9, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    "depthwise": ((2, 4, 6, 6), (4, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 4),
    "1x1": ((3, 7, 4, 4), (11, 7, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "one dimension": ((2, 3, 11), (4, 3, 5), (2,), ((2, 1),), (1,), 1),
    "three dimensions": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (0, 0)), (2, 1, 1), 1),
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Few threads make a tile, where the CPU plays them; chunks of few pixels."""
    for name, value in (("SIDE", 2), ("MAX_WORK", 4), ("DEPTH", 4), ("MIN_CHUNK", 8), ("BLOCKS_WANTED", 12)):
        monkeypatch.setattr(own, name, value)


def arguments(name, case):
    x, w, strides, pads, dilation, groups = CASES[case]
    attrs = {"strides": strides, "pads": pads, "dilation": dilation, "groups": groups}
    y = OPS["conv"].infer_spec(Spec(x), Spec(w), **attrs).shape
    if name == "conv":
        return [x, w], attrs, own.tiled_conv
    if name == "conv_input_grad":
        return [y, w], {**attrs, "size": x[2:]}, own.tiled_conv_input_grad
    return [x, y], {**attrs, "kernel": w[2:]}, own.tiled_conv_weight_grad


def check(device, name, case, layout=None, dtype="float32", out_dtype=None, tolerance=2e-5):
    shapes, attrs, prepare = arguments(name, case)
    arrays = [random_array(*s, seed=i).astype(dtype) for i, s in enumerate(shapes)]
    layouts = [layout, layout if name == "conv_weight_grad" else None]
    specs = tuple(Spec(a.shape, dtype, lay) for a, lay in zip(arrays, layouts, strict=True))
    wide = [a.astype(np.float64) for a in arrays]
    expected = run_on_arrays(lambda *v: OPS[name](*v, **attrs), *wide)
    out = Spec(expected.shape, out_dtype or dtype, None if name == "conv_weight_grad" else layout)
    with use_device(device):
        kernel = prepare(specs, (out,), attrs)
    result, raw = guarded_output(out)
    kernel([with_layout(a, lay) for a, lay in zip(arrays, layouts, strict=True)], [result])
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance)
    count = out.size * result.itemsize
    start = -raw.ctypes.data % 64 + 64
    assert (raw[:start] == 0xFF).all()
    assert (raw[start + count :] == 0xFF).all()
    return kernel


@pytest.mark.parametrize("layout", [None, LAST])
@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("name", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_each_direction(device, name, case, layout):
    check(device, name, case, layout)


@pytest.mark.parametrize("name", ["conv", "conv_input_grad", "conv_weight_grad"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float16", 2e-2), ("bfloat16", 2e-1)])
def test_other_floats(device, name, dtype, tolerance):
    pytest.importorskip("ml_dtypes")
    check(device, name, "groups", LAST, dtype, tolerance=tolerance)


def test_a_weight_gradient_is_split_and_summed_in_float32(device):
    kernel = check(device, "conv_weight_grad", "plain", dtype="float16", out_dtype="float32", tolerance=2e-3)
    assert [launch.name for launch in kernel.launches] == ["conv", "sum_splits"]
    assert kernel.workspace_bytes > 0


@pytest.mark.parametrize("change", ["mixed", "integers", "empty", "four dimensions"])
def test_what_it_does_not_take(device, change):
    shapes, attrs, prepare = arguments("conv", "plain")
    specs, out = [Spec(s) for s in shapes], Spec((2, 5, 5, 4))
    if change == "mixed":
        specs[1] = Spec(shapes[1], "float16")
    elif change == "integers":
        specs, out = [Spec(s, "int32") for s in shapes], Spec(out.shape, "int32")
    elif change == "empty":
        specs[0], out = Spec((0, 3, 7, 6)), Spec((0, 5, 5, 4))
    else:
        attrs = {**attrs, "strides": (1,) * 4}
    with use_device(device):
        assert prepare(tuple(specs), (out,), attrs) is None


def test_no_step_of_a_convolutional_net_is_left_to_a_reference_implementation(monkeypatch):
    """Without cuDNN, in every precision; and PROTOTORCH_CUDNN=0 means that."""
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        backend = CudaBackend(PlanDevice(precision))
        with use_backend(backend):
            model = compile_net(backend)
        plans = model.trainer.plan_cache
        plan = plans.plan("train", step_specs(model.net, 4), create=False)
        steps = describe_plan(plan, backend, "step").steps
        assert [(s.members, s.kernel) for s in steps if s.level != "cuda"] == []


def test_the_environment_chooses(monkeypatch):
    seen = []
    monkeypatch.setattr(device_kind, "cuda_backend", lambda settings, index: seen.append(settings.cudnn))
    monkeypatch.setattr(device_kind, "_resolve_precision", lambda name, index: resolve_precision(name, gpu=True))
    for value in ("0", "1", ""):
        monkeypatch.setenv("PROTOTORCH_CUDNN", value)
        devices.backend_for("cuda")
    assert seen == [False, True, True]
    monkeypatch.setenv("PROTOTORCH_CUDNN", "no")
    with pytest.raises(BackendError, match=r"PROTOTORCH_CUDNN: expected 0 .* or 1, got 'no'"):
        devices.backend_for("cuda")


def test_a_device_without_cudnn_has_no_context():
    device = PlanDevice("fp32")
    device.settings = replace(device.settings, cudnn=False)
    device.compute_stream = SimpleNamespace(ptr=1)
    assert get_context(device) is None
