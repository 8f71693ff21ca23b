"""Every graph that the shipped models lead to is accepted by cuDNN for an H200, in each precision, without a GPU.

Needs CuPy, cuDNN, its frontend, NVRTC and gcc: pytest -m cuda_offline.
"""

from __future__ import annotations

import importlib.util
import shutil

import pytest

import prototorch as pt
from prototorch.backends.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.backends.cuda.backend import CudaBackend
from prototorch.engine.variables import Variables
from prototorch.spec import Spec
from prototorch.train.program import PREDICT, TRAIN, Program

MISSING = [n for n in ("cupy", "cudnn") if importlib.util.find_spec(n) is None]
pytestmark = [
    pytest.mark.cuda_offline,
    pytest.mark.skipif(bool(MISSING) or shutil.which("gcc") is None, reason=f"missing: {', '.join(MISSING) or 'gcc'}"),
]

BATCH = 32
LENGTH = 16  # for sizes that only data tell


def plans(name: str, device) -> list:
    """The plans of a shipped model for training and for prediction."""
    model = pt.load_model(name)
    program = Program(model.net, Variables(), CudaBackend(device), model.compile_block)
    specs = {i.name: Spec((BATCH, *(LENGTH if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    phases = (TRAIN, PREDICT) if program.terms else (PREDICT,)
    return [program.plan(phase, specs, create=False) for phase in phases]
