"""Every step of the shipped models' plans that has a CUDA kernel, compared on the CPU with the reference.

Slow: some hundred kernels are compiled. Run with: pytest -m slow tests/cuda/offline.
"""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.ops.core import run_on_arrays
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.cuda.offline.kernel_logic import check_inplace, guarded_output, with_layout
from tests.cuda.offline.recording_devices import PlanDevice
from tests.cuda.offline.shim_device import COMPILER, ShimDevice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"),
]
MOST = 300_000  # elements of a step that is tried: the CPU plays the threads without optimisation
ELSEWHERE = ("conv", "conv_input_grad", "conv_weight_grad", "matmul", "attention_weights")  # by cuDNN, or tested alone


def steps(name: str, precision: str):
    """The steps of training and of prediction, each kind once."""
    model = pt.load_model(name)
    program = PlanCache(model.net, Variables(), CudaBackend(PlanDevice(precision)), model.compile_block)
    specs = {i.name: Spec((2, *(8 if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    seen = set()
    for phase in (TRAIN, PREDICT):
        for step in program.plan(phase, specs, create=False).steps:
            op, attrs = step.node.op, step.node.attrs
            ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
            first = attrs["program"][0][0] if op.name == "fused" else op.name
            key = (op.name, str(attrs), ins, outs)
            small = sum(s.size for s in (*ins, *outs)) <= MOST
            if key not in seen and small and first not in ELSEWHERE and "_sequence" not in first:
                seen.add(key)
                yield op, attrs, ins, outs


def made_up(spec: Spec, rng) -> np.ndarray:
    """Numbers that every op here takes."""
    if spec.dtype == "bool":
        return rng.random(spec.shape) < 0.6
    if spec.is_float:
        return np.asarray(np.abs(rng.standard_normal(spec.shape)) + 0.1).astype(spec.dtype)
    return np.asarray(rng.integers(0, 2, spec.shape)).astype(spec.dtype)


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    return ShimDevice(str(tmp_path_factory.mktemp("steps")))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_steps(name, precision, device):
    pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")
    rng, backend = np.random.default_rng(0), Backend("shim", np, ("cuda",))
    for op, attrs, ins, outs in steps(name, precision):
        where = f"{op.name} {attrs} {[str(s) for s in ins]}"
        with use_device(device):
            assert backend.kernel_level(op, ins, outs, attrs) == "cuda", where
            runner = backend.prepare(op, ins, outs, attrs)
        arrays = [made_up(s, rng) for s in ins]
        made = [guarded_output(o)[0] for o in outs]
        runner([with_layout(a, s.layout) for a, s in zip(arrays, ins, strict=True)], made)
        check_inplace(runner, arrays, ins, outs, made, op.inplace_map(attrs))
        wide = [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in arrays]
        attrs = {k: "float32" if v == "bfloat16" else v for k, v in attrs.items()}
        with np.errstate(all="ignore"):
            want = run_on_arrays(lambda *v: op(*v, **attrs), *wide)  # noqa: B023 - called at once
        for got, expected in zip(made, want if isinstance(want, tuple) else (want,), strict=True):
            got = got.astype(np.float32) if got.dtype.name == "bfloat16" else got
            # sums in another order; bfloat16: a rounding to 8 bits of what was made of rounded numbers
            loose = precision == "bf16" and any(s.dtype == "bfloat16" for s in (*ins, *outs))
            size = float(np.max(np.abs(np.asarray(expected, np.float64)), initial=1.0))
            np.testing.assert_allclose(
                got, expected, rtol=2e-2 if loose else 2e-4, atol=(1e-2 if loose else 1e-5) * size, err_msg=where
            )
