"""The recurrent kernels with one launch for each time step, or for all of them, run on the CPU from the same text."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from prototorch.cuda.kernels import candidates, recurrent_fused
from prototorch.cuda.kernels.launch import KernelLaunch, use_device
from prototorch.engine.backends.core import Backend
from prototorch.errors import BackendError
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.kernel_logic import check_kernel, random_array, run_kernel
from tests.cuda.offline.recording_devices import CollectDevice
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)


CHOICES = ("recurrent_step", "recurrent_persistent")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """The factors of a sum take several parts of shared memory."""
    monkeypatch.setattr(recurrent_fused, "PART", 7)
    monkeypatch.setattr(recurrent_fused, "PART_BACK", 11)
    recurrent_fused.fused_cell_sources.cache_clear()
    yield
    recurrent_fused.fused_cell_sources.cache_clear()


def sequence_inputs(name: str, samples: int, steps: int, units: int, masked: bool) -> list[np.ndarray]:
    op = OPS[name]
    shapes = [(samples, steps, op.gates * units), (units, op.gates * units)]
    shapes += [(op.gates * units,)] * (op.weights - 1) + [(samples, units)] * op.states
    arrays = [random_array(*shape, seed=k) for k, shape in enumerate(shapes)]
    return [*arrays, *([np.random.default_rng(0).random((samples, steps)) < 0.6] if masked else [])]


@pytest.mark.parametrize(("name", "attrs"), [
    ("simple_rnn_sequence", {"activation": "tanh"}),
    ("lstm_sequence", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
    ("gru_sequence", {"activation": "softsign", "recurrent_activation": "hard_sigmoid", "reset_after": True}),
])  # fmt: skip
@pytest.mark.parametrize(("reverse", "masked"), [(False, False), (True, True)])
@pytest.mark.parametrize(("samples", "units"), [(3, 5), (9, 10)])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_walk_forward_and_back(device, monkeypatch, choice, name, attrs, reverse, masked, samples, units):
    monkeypatch.setenv(candidates.ENV_VAR, choice)
    each_step = choice == "recurrent_step"
    op, inputs = OPS[name], sequence_inputs(name, samples, 3, units, masked)
    attrs = {**attrs, "reverse": reverse, "masked": masked}
    device.launched.clear()
    outputs = check_kernel(device, name, inputs, attrs, rtol=1e-4, atol=1e-5)
    assert device.launched == (["step"] * 3 if each_step else ["recurrent_forward"])
    after = [outputs[0], *outputs[1 + op.states :]]
    grads = [random_array(*a.shape, seed=9 + j) for j, a in enumerate(outputs[: 1 + op.states])]
    device.launched.clear()
    check_kernel(device, f"{name}_grad", [*inputs, *after, *grads], attrs, rtol=1e-4, atol=2e-5)
    assert device.launched.count("back") == (3 if each_step else 0)
    assert device.launched.count("recurrent_backward") == (0 if each_step else 1)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_types(device, monkeypatch, choice, dtype):
    monkeypatch.setenv(candidates.ENV_VAR, choice)
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    name, plain = "lstm_sequence", "float64" if dtype == "float64" else "float32"
    inputs = [(a / 2).astype(dtype) for a in sequence_inputs(name, 3, 4, 5, False)]
    tolerance = {"float64": 1e-12, "bfloat16": 8 * 2.0**-8}[dtype]  # states are rounded to 8 bits, four times
    for _ in range(2):
        outputs = run_kernel(device, name, inputs, {})
        want = run_on_arrays(partial(OPS[name]), *(a.astype(plain) for a in inputs))
        for got, expected in zip(outputs, want, strict=True):
            np.testing.assert_allclose(got.astype(plain), expected, rtol=tolerance, atol=tolerance)
        grads = [(random_array(*a.shape, seed=9 + j) / 2).astype(dtype) for j, a in enumerate(outputs[:3])]
        name, inputs = "lstm_sequence_grad", [*inputs, outputs[0], outputs[3], *grads]


def kernel_of(name: str, samples: int, units: int):
    op = OPS[name]
    ins = (Spec((samples, 5, 4 * units)), Spec((units, 4 * units)), *[Spec((samples, units))] * 2)
    with use_device(CollectDevice()):
        return Backend("collect", np, ("cuda",)).prepare(op, ins, op.infer_spec(*ins), {})


def test_the_candidate_is_used_where_it_is_chosen_and_the_state_is_small(monkeypatch):
    monkeypatch.setenv(candidates.ENV_VAR, "recurrent_step")
    assert len(kernel_of("lstm_sequence", 32, 256).steps) == 5
    assert len(kernel_of("lstm_sequence", 32, 128).steps) == 5
    assert len(kernel_of("lstm_sequence", 512, 256).steps) == 10
    monkeypatch.setenv(candidates.ENV_VAR, "")
    assert len(kernel_of("lstm_sequence", 32, 256).steps) == 10
    monkeypatch.setenv(candidates.ENV_VAR, "all")
    assert len(kernel_of("lstm_sequence", 512, 128).steps) == 1
    (first, *_) = kernel_of("lstm_sequence", 32, 256).steps
    assert isinstance(first, KernelLaunch)
    assert first.grid == 128, "a block for each of the H100's multiprocessors, nearly"
    monkeypatch.setenv(candidates.ENV_VAR, "recurent_step")
    with pytest.raises(BackendError, match=r"expected names from .*recurrent_step.*got recurent_step"):
        kernel_of("lstm_sequence", 32, 256)


def test_indices_of_huge_sequences_have_64_bits(monkeypatch):
    """4,096 samples of 1,000 steps and 256 units are 4.2e9 gates."""
    monkeypatch.setenv(candidates.ENV_VAR, "")
    op, units = OPS["lstm_sequence"], 256
    ins = (Spec((4096, 1000, 4 * units)), Spec((units, 4 * units)), *[Spec((4096, units))] * 2)
    with use_device(CollectDevice()):
        kernel = Backend("collect", np, ("cuda",)).prepare(op, ins, op.infer_spec(*ins), {})
    launch = next(entry for entry in kernel.steps if isinstance(entry, KernelLaunch))
    assert "unsigned long long index" in launch.source
    assert launch.args[0].dtype == np.uint64
