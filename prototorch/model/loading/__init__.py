"""A file's way into the weights of a model, in stages of one folder each.

`CheckpointSource` -> `ReadWeights` -> `NamedArrays` -> `LaidOutWeights` -> `CheckedWeights`. A stage is frozen, and
knows the next one alone; readers of formats and tables of systems are registered by the packages that know them.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(__name__, {"read.source": "ReadWeights CheckpointSource"})
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
