"""The precision of a model: the dtypes in its graph, and the modes of cuDNN and cuBLAS."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.errors import BackendError, UsageError, did_you_mean

#: the names in a model file; "auto" is tf32 on a GPU and fp32 on the CPU, "float32" another name of fp32
PRECISION_NAMES = ("auto", "fp32", "tf32", "bf16", "fp16", "float32", "float64")
#: those of a model's ``compile``; float64 is for Caffe's nets (`prototorch.caffe.Net`)
MODEL_PRECISIONS = tuple(name for name in PRECISION_NAMES if name != "float64")
#: names that exclude faster algorithms that round more: TF32 on a GPU, Winograd's convolutions on the CPU
STRICT_NAMES = ("fp32", "float32")


@dataclass(frozen=True)
class PrecisionPolicy:
    """The arithmetic of a model.

    Attributes:
        name: "fp32", "tf32", "bf16", "fp16" or "float64".
        low_dtype: the dtype of activations, of their gradients and of the copies of weights that layers read; None
            where all is float32. The weights themselves (master weights), the optimizer's slots, running statistics,
            losses and metrics are float32 always.
        tf32: whether a product of float32 values may round its factors to 10 bits of mantissa (NVIDIA's TF32).
        float_dtype: the dtype of weights, inputs and of all that is computed from them; with "float64" losses,
            optimizer slots and running statistics are float64, too.
        loss_scaling: whether the loss is multiplied by a dynamic factor before the backward pass, because small
            gradients would underflow in `low_dtype`.
    """

    name: str
    low_dtype: str | None = None
    tf32: bool = False
    loss_scaling: bool = False
    float_dtype: str = "float32"


#: TF32 is allowed for bf16 and fp16, too: a float32 product that is left there is no finer than its neighbours.
_POLICIES = {
    "fp32": PrecisionPolicy("fp32"),
    "tf32": PrecisionPolicy("tf32", tf32=True),
    "bf16": PrecisionPolicy("bf16", "bfloat16", tf32=True),
    "fp16": PrecisionPolicy("fp16", "float16", tf32=True, loss_scaling=True),
    "float64": PrecisionPolicy("float64", float_dtype="float64"),
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of this name. Raises BackendError for bfloat16 where ml_dtypes is not installed."""
    if name == "bfloat16":
        try:
            importlib.import_module("ml_dtypes")  # registers the dtype in NumPy
        except ImportError as exc:
            raise BackendError("the precision bf16 needs the package ml_dtypes: pip install ml_dtypes") from exc
    return np.dtype(name)


def resolve_precision(name: str, gpu: bool) -> PrecisionPolicy:
    """The precision of a name on a GPU or on the CPU. Raises UsageError for an unknown name.

    On the CPU all of them but float64 are fp32, which is at least as precise as the requested one.
    """
    if name not in PRECISION_NAMES:
        raise UsageError(
            f"there is no precision {name!r}; there are {', '.join(PRECISION_NAMES)}."
            f"{did_you_mean(name, PRECISION_NAMES)}"
        )
    if not gpu:
        return _POLICIES["float64" if name == "float64" else "fp32"]
    return _POLICIES[{"auto": "tf32", "float32": "fp32"}.get(name, name)]


def precision_note(name: str, policy: PrecisionPolicy) -> str | None:
    """A sentence where a model asks for a 16-bit precision and is computed in another one; else None."""
    if name not in ("bf16", "fp16") or policy.name == name:
        return None
    return (
        f"precision: {name} has no effect on the CPU, which computes this model in {policy.name} (float32): leave it "
        'out, or choose a GPU with device: "cuda"'
    )


@dataclass(frozen=True)
class ExecutionSettings:
    """How a GPU computes: the precision, whether every run gives the same bits, whether kernels are chosen by timing,
    and whether cuDNN is used where it is installed.

    cuDNN's plans and cuBLAS's mode depend on nothing else.
    """

    precision: PrecisionPolicy = _POLICIES["tf32"]
    deterministic: bool = False
    autotune: bool = False
    cudnn: bool = True
