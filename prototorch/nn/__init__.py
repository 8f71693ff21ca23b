"""PyTorch's ``torch.nn`` over the ops of prototorch: modules, their parameters, containers.

    from prototorch import nn

    net = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

A name of PyTorch that is not here does not exist: asking for it raises an AttributeError that says so.
"""

import importlib as _importlib
import typing as _typing

from prototorch.errors import did_you_mean as _did_you_mean
from prototorch.errors import explain_word as _explain_word
from prototorch.nn.layer_child import LayerChild
from prototorch.nn.missing import MISSING as _MISSING
from prototorch.nn.module import Module
from prototorch.nn.modules import MODULES as _MODULES
from prototorch.nn.parameter import Buffer, Parameter

globals().update(_MODULES, LayerChild=LayerChild, Module=Module, Buffer=Buffer, Parameter=Parameter)
_PACKAGES = ("functional", "init", "utils")
__all__ = sorted({"Buffer", "LayerChild", "Module", "Parameter", *_MODULES, *_PACKAGES})


def __getattr__(name: str) -> _typing.Any:
    if name in _PACKAGES:
        return _importlib.import_module(f"prototorch.nn.{name}")
    reason = _MISSING.get(name)
    hint = (
        f": {reason}" if reason else _explain_word(f"nn.{name}", in_module=True) or f".{_did_you_mean(name, __all__)}"
    )
    raise AttributeError(f"prototorch.nn.{name} does not exist{hint}")


def __dir__() -> list[str]:
    return __all__
