"""All kernels compile for the GPUs in use: every source that the ops' cases and the shipped models lead to.

Needs CuPy and NVRTC, but no GPU: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from prototorch.base.package_files import shipped_models
from prototorch.cuda import kernels as _all
from prototorch.cuda.kernels.candidates import ENV_VAR
from tests.cuda.offline.kernel_sources import model_sources, op_case_sources
from tests.cuda.offline.nvrtc import TARGETS, compile_cubin

pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed: the extra cuda13"),
]
KERNELS = Path(_all.__file__).parent


def test_every_kernel_compiles(monkeypatch):
    sources = {**op_case_sources(), **model_sources("alexnet", "bf16")}  # sums of more rows than the cases have
    monkeypatch.setenv(ENV_VAR, "all")
    sources.update(op_case_sources(("float32",)))  # with the candidates
    text = "\n".join(sources)
    for file in KERNELS.glob("*.cu"):
        body = file.read_text(encoding="utf-8")
        assert body in text, f"no case leads to {file.name}"
    for i, source in enumerate(sources):
        # each for one target in turn, so that all are met without three times the work
        assert compile_cubin(source, TARGETS[i % len(TARGETS)]), source


@pytest.mark.parametrize("target", TARGETS)
def test_the_common_part_compiles_for(target):
    from prototorch.cuda.kernels.launch import complete_source

    body = "KERNEL copy(index n, const f16* a, bf16* b) { EACH(i, n) put(b[i], get(a[i])); }"
    for largest in (0, 1 << 40):
        assert compile_cubin(complete_source(body, largest), target)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_kernels_of_the_models_compile(name):
    """In bfloat16, for Hopper."""
    for source in model_sources(name, "bf16"):
        assert compile_cubin(source, "sm_90"), source
