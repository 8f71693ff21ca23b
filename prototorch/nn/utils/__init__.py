"""PyTorch's ``torch.nn.utils``, one file a family.

    nn.utils.clip_grad_norm_(net.parameters(), 1.0)

The functions in a file's ``__all__`` are names of this package. A name of PyTorch that is not here raises an
AttributeError that says so.
"""

import pkgutil as _pkgutil
import typing as _typing

from prototorch.errors import did_you_mean as _did_you_mean
from prototorch.nn.collect import collect_names as _collect_names

_NAMES = _collect_names(__name__, __path__)
for _info in _pkgutil.iter_modules(__path__):  # as an attribute a file would hide a function of its name
    if _info.name not in ("rnn", "stateless"):  # modules that PyTorch has, too
        globals().pop(_info.name, None)
globals().update(_NAMES)
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> _typing.Any:
    raise AttributeError(f"prototorch.nn.utils.{name} does not exist.{_did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
