"""The CUDA sources that the ops' cases and the shipped models' plans lead to."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.errors import ShapeError
from prototorch.ops.operators import OPS
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN
from tests.cuda.offline.recording_devices import CollectDevice, PlanDevice
from tests.ops import op_case


def op_case_sources(dtypes: tuple[str, ...] = ("float32", "float64", "float16", "bfloat16")) -> dict[str, None]:
    """The sources of the ops' table of cases, in these types and in both layouts."""
    for module in sorted(Path(op_case.__file__).parent.glob("cases_*.py")):
        importlib.import_module(f"tests.ops.{module.stem}")
    device, backend = CollectDevice(), Backend("collect", np, ("cuda",))
    for case in op_case.CASES:
        for dtype in dtypes:
            specs = tuple(
                Spec(s.shape, dtype if s.is_float and i not in case.kept else s.dtype)
                for i, s in enumerate(Spec(np.shape(a), np.asarray(a).dtype.name) for a in case.inputs)
            )
            try:
                outs = OPS[case.op].infer_spec(*specs, **case.attrs)
            except (TypeError, ShapeError):  # the op does not take the type, or ml_dtypes is not loaded
                continue
            outs = outs if isinstance(outs, tuple) else (outs,)
            with use_device(device):
                backend.prepare(OPS[case.op], specs, outs, case.attrs)
                if specs and all(s.ndim == specs[0].ndim > 2 for s in (*specs, *outs)):
                    backend.prepare(OPS[case.op], tuple(map(_last, specs)), tuple(map(_last, outs)), case.attrs)
    return device.sources


def _last(spec: Spec) -> Spec:
    return Spec(spec.shape, spec.dtype, "channels_last")


@dataclass
class _Array:
    """An array without memory."""

    spec: Spec
    address: int

    @property
    def shape(self):
        return self.spec.shape

    @property
    def nbytes(self):
        return self.spec.nbytes


def model_sources(name: str, precision: str, batch: int = 32) -> dict[str, None]:
    """The sources of a shipped model's plans for training and prediction."""
    backend = CudaBackend(PlanDevice(precision))
    model = pt.load_model(name)
    program = PlanCache(model.net, Variables(), backend, model.compile_block)
    arrays: dict[int, _Array] = {}

    def array_of(value):  # one for each value of a plan, none over another
        return arrays.setdefault(id(value), _Array(value.spec, len(arrays) << 40))

    specs = {i.name: Spec((batch, *(16 if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs}
    for phase in (TRAIN, PREDICT):
        plan = program.plan(phase, specs, create=False)
        updates = []
        for step in plan.steps:
            ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
            run = backend.prepare(step.node.op, ins, outs, step.node.attrs)
            if step.node.phase == "update":
                updates.append((run, list(map(array_of, step.inputs)), list(map(array_of, step.outputs))))
        backend.fuse_updates(updates)
    return backend.device.sources
