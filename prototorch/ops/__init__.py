"""The ops that networks are expressed in: ``ops.conv``, ``ops.sum``, ``ops.softmax_cross_entropy``.

An op is called with values or numbers as positional arguments, and with attributes as keyword arguments. The package
holds ops and functions of ops alone, by their usual names: every op of the modules in this folder (`sum_` is named
``sum`` here) and every function that its module marks with `op_function`. What those who define ops need is in
`prototorch.ops.core`.
"""

import importlib as _importlib
import pkgutil as _pkgutil
import typing as _typing

from prototorch.errors import did_you_mean as _did_you_mean
from prototorch.ops.core import Op as _Op
from prototorch.ops.operators import FUNCTIONS as _FUNCTIONS

_MODULES = [info.name for info in _pkgutil.iter_modules(__path__)]


def _collect() -> dict[str, _typing.Any]:
    names: dict[str, _typing.Any] = {}
    for module in [_importlib.import_module(f"{__name__}.{name}") for name in _MODULES]:
        for name, value in vars(module).items():
            if isinstance(value, _Op) and type(value).__module__ == module.__name__ and not name.startswith("_"):
                names[name.rstrip("_")] = value
    for name in _MODULES:  # modules are imported by their full name; as an attribute one would hide an op of its name
        globals().pop(name, None)
    return {**names, **_FUNCTIONS}


_PUBLIC = _collect()
globals().update(_PUBLIC)
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:  # ``from prototorch.ops import update`` asks here before it imports the module
        raise AttributeError(f"prototorch.ops.{name} is a module, not an op")
    raise AttributeError(f"prototorch.ops has no op {name!r}.{_did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
