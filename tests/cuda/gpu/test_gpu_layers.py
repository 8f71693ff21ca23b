"""Every layer and every op on the GPU beside the CPU."""

import numpy as np
import pytest

from prototorch import layers
from prototorch.cuda.availability import unavailable_reason
from prototorch.cuda.backend import CudaBackend
from prototorch.engine.harness import cases
from prototorch.engine.harness.backend_parity import assert_backend_agrees
from prototorch.layers.base import Layer
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.ops.op_case import CASES, import_cases

MISSING = import_cases()

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

SHIPPED = [c for c in Layer.members().values() if c.__module__.startswith(layers.__name__)]


@pytest.mark.parametrize("word", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("case", list(cases(*SHIPPED)), ids=lambda c: c.id)
def test_every_layer(gpu, case, word):
    """Outputs and gradients in both phases; the tolerances and their reasons are in
    `prototorch.engine.harness.backend_parity`."""
    assert_backend_agrees(case, gpu(word))


@pytest.mark.parametrize("case", list(cases(*SHIPPED)), ids=lambda c: c.id)
def test_every_layer_by_plain_bodies(gpu, case):
    """What runs where no kernel does: CuPy's own functions, in float32."""
    assert_backend_agrees(case, CudaBackend(gpu("fp32").device, kernels=False))


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_op(gpu, case, kernels):
    """Compared with the reference implementation on NumPy arrays. Sums are taken in another order, and CUDA's exp, log,
    tanh and the like are off by a few units in the last place, as NumPy's are."""
    device = gpu("fp32").device
    if kernels and getattr(device, "emulator", device) is None:
        pytest.skip("this fake device runs no kernels")
    backend = CudaBackend(device, kernels=kernels)
    arrays = case.arrays("float32")
    op = OPS[case.op]
    with np.errstate(all="ignore"):
        wanted = case.reference(arrays)
    ins = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    made = op.infer_spec(*ins, **case.attrs)
    outs = made if isinstance(made, tuple) else (made,)
    run = backend.prepare(op, ins, outs, case.attrs)
    given, found = [backend.asarray(a) for a in arrays], [backend.empty(s) for s in outs]
    with backend.run_context():
        run(given, found)
    for got, want in zip(found, wanted, strict=True):
        want = np.asarray(want)
        scale = max(float(np.abs(want[np.isfinite(want)]).max(initial=0)), 1.0) if want.dtype.kind == "f" else 0
        np.testing.assert_allclose(backend.to_numpy(got), want, rtol=case.tolerance32, atol=case.tolerance32 * scale)


@pytest.mark.parametrize("module", sorted(MISSING) or ["none"])
def test_no_case_is_left_out(module):
    """Cases that cannot be imported are counted among the skips."""
    if module in MISSING:
        pytest.skip(f"tests/ops/{module}.py: {MISSING[module]}")
