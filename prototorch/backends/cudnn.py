"""``torch.backends.cudnn``: its switches, as attributes of the module."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from prototorch.backends.cuda import matmul
from prototorch.cuda import availability
from prototorch.eager.compute_modes import MODES
from prototorch.errors import UsageError

__all__ = ["allow_tf32", "benchmark", "deterministic", "is_available"]

#: switch -> the mode that it is
_SWITCHES = {"benchmark": "autotune", "deterministic": "deterministic"}
allow_tf32: bool
benchmark: bool
deterministic: bool


def is_available() -> bool:
    """Whether there is a GPU for it (torch.backends.cudnn.is_available)."""
    return availability.is_available()


class _CudnnModule(ModuleType):
    """The module, whose switches are read from and written to the modes of tensors.

    ``allow_tf32`` is the same switch as `backends.cuda.matmul.allow_tf32`: products and convolutions are rounded alike,
    and not at first. ``deterministic`` is `use_deterministic_algorithms`; with ``benchmark`` kernels are chosen by
    timing.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "allow_tf32":
            return matmul.allow_tf32
        if name in _SWITCHES:
            return getattr(MODES, _SWITCHES[name])
        raise AttributeError(f"backends.cudnn has no attribute {name!r}: there are {', '.join(__all__)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            matmul.allow_tf32 = value
        elif name in _SWITCHES:
            if not isinstance(value, bool):
                raise UsageError(f"backends.cudnn.{name}: expected True or False, got {value!r:.60}")
            MODES.set(_SWITCHES[name], value)
        elif name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(f"backends.cudnn has no switch {name!r}: there are allow_tf32, {', '.join(_SWITCHES)}")


sys.modules[__name__].__class__ = _CudnnModule
