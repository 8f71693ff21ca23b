"""All kernels compile for the GPUs in use: every source that the ops' cases and the shipped models lead to.

Needs CuPy and NVRTC, but no GPU: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.backends.core import Backend
from prototorch.backends.cuda import kernels as _all
from prototorch.backends.cuda.backend import CudaBackend
from prototorch.backends.cuda.kernels.launch import use_device
from prototorch.ops.operators import OPS
from prototorch.package_files import shipped_models
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.cuda_offline.nvrtc import TARGETS, compile_cubin
from tests.cuda_offline.recording_devices import CollectDevice, PlanDevice
from tests.ops import op_case

pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed: the extra cuda13"),
]
KERNELS = Path(_all.__file__).parent


def _sources() -> dict[str, None]:
    """The sources of the ops' table of cases, in every type and layout."""
    for module in sorted(Path(op_case.__file__).parent.glob("cases_*.py")):
        importlib.import_module(f"tests.ops.{module.stem}")
    device, backend = CollectDevice(), Backend("collect", np, ("cuda",))
    for case in op_case.CASES:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            specs = tuple(
                Spec(s.shape, dtype if s.is_float and i not in case.kept else s.dtype)
                for i, s in enumerate(Spec(np.shape(a), np.asarray(a).dtype.name) for a in case.inputs)
            )
            try:
                outs = OPS[case.op].infer_spec(*specs, **case.attrs)
            except TypeError:  # a composite's rule cannot hold a constant of bfloat16 where ml_dtypes is not loaded
                continue
            outs = outs if isinstance(outs, tuple) else (outs,)
            with use_device(device):
                backend.prepare(OPS[case.op], specs, outs, case.attrs)
                if specs and all(s.ndim == specs[0].ndim > 2 for s in (*specs, *outs)):
                    backend.prepare(OPS[case.op], tuple(map(_last, specs)), tuple(map(_last, outs)), case.attrs)
    return device.sources


def _last(spec: Spec) -> Spec:
    return Spec(spec.shape, spec.dtype, "channels_last")


def test_every_kernel_compiles():
    sources = _sources()
    text = "\n".join(sources)
    for file in KERNELS.glob("*.cu"):
        body = file.read_text(encoding="utf-8")
        assert body in text, f"no case leads to {file.name}"
    for i, source in enumerate(sources):
        # each for one target in turn, so that all are met without three times the work
        assert compile_cubin(source, TARGETS[i % len(TARGETS)]), source


@pytest.mark.parametrize("target", TARGETS)
def test_the_common_part_compiles_for(target):
    from prototorch.backends.cuda.kernels.launch import complete_source

    body = "KERNEL copy(index n, const f16* a, bf16* b) { EACH(i, n) put(b[i], get(a[i])); }"
    for largest in (0, 1 << 40):
        assert compile_cubin(complete_source(body, largest), target)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_kernels_of_the_models_compile(name):
    """In bfloat16, for Hopper."""
    backend = CudaBackend(PlanDevice("bf16"))
    model = pt.load_model(name)
    program = PlanCache(model.net, Variables(), backend, model.compile_block)
    specs = {i.name: Spec((32, *(16 if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    for phase in (TRAIN, PREDICT):
        program.plan(phase, specs, create=False)
    for source in backend.device.sources:
        assert compile_cubin(source, "sm_90"), source
