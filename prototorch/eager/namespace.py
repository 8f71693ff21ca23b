"""The names of PyTorch's face that `prototorch` itself has: functions of tensors, element types, modes."""

from __future__ import annotations

import importlib
from typing import Any

from prototorch.eager import (
    compute_modes,
    device,
    dtype,
    grad_mode,
    operands,
    printing,
    size,
    tensor,
    type_info,
    typed_tensors,
)
from prototorch.eager.array_api.creation import CONSTANTS
from prototorch.eager.registry import FUNCTIONS

importlib.import_module("prototorch.eager.functions")

__all__ = ["NAMES"]

_MODES = ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "is_grad_enabled")
_COMPUTE_MODES = (
    "set_float32_matmul_precision",
    "get_float32_matmul_precision",
    "use_deterministic_algorithms",
    "are_deterministic_algorithms_enabled",
)
_DEVICES = ("get_default_device", "set_default_device")
_TYPES = ("can_cast", "get_default_dtype", "set_default_dtype", "promote_types")

#: the public names and what they are
NAMES: dict[str, Any] = {
    **FUNCTIONS,
    **dtype.DTYPES,
    **{name: dtype.DTYPES[target] for name, target in dtype.ALIASES.items()},
    **{name: getattr(grad_mode, name) for name in _MODES},
    **{name: getattr(dtype, name) for name in _TYPES},
    **{name: getattr(device, name) for name in _DEVICES},
    **{name: getattr(compute_modes, name) for name in _COMPUTE_MODES},
    "result_type": operands.result_type,
    "finfo": type_info.finfo,
    "iinfo": type_info.iinfo,
    **CONSTANTS,
    "set_printoptions": printing.set_printoptions,
    "dtype": dtype.DType,
    "device": device.Device,
    "Size": size.Size,
    **typed_tensors.TYPED_TENSORS,
    "Tensor": tensor.Tensor,
}
