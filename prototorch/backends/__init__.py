"""Switches of the libraries that compute, by PyTorch's names: ``pt.backends.cudnn.deterministic = True``.

They are those of `prototorch.eager.compute_modes`; nothing of CUDA is imported here.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(__name__, {"cuda": "cuda", "cudnn": "cudnn"})
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
