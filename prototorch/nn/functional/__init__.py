"""PyTorch's ``torch.nn.functional`` over the ops of prototorch, one file a family.

    import prototorch.nn.functional as F

    y = F.relu(F.linear(x, weight, bias))

The functions in a file's ``__all__`` are names of this package. On symbols they are recorded for a `prototorch.Graph`.
A name of PyTorch that is not here raises an AttributeError that says so.
"""

import pkgutil as _pkgutil
import typing as _typing

from prototorch.eager.registry import for_symbols as _for_symbols
from prototorch.errors import did_you_mean as _did_you_mean
from prototorch.nn.collect import collect_names as _collect_names

_NAMES = {name: _for_symbols(function, name, __name__) for name, function in _collect_names(__name__, __path__).items()}
for _info in _pkgutil.iter_modules(__path__):  # as an attribute a file would hide a function of its name
    globals().pop(_info.name, None)
globals().update(_NAMES)
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> _typing.Any:
    raise AttributeError(f"prototorch.nn.functional.{name} does not exist.{_did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
