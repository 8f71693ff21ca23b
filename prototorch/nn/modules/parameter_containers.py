"""Containers of parameters: `ParameterList`, `ParameterDict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.nn.module import Module
from prototorch.nn.modules.containers import position_of
from prototorch.nn.parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _as_member(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.shape)
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype!r} of size {size}{device}]"


class ParameterList(Module):
    """Parameters in a list; tensors become parameters, other values are kept as they are."""

    def __init__(self, values: Iterable[Any] | None = None):
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(self._size))])
        return getattr(self, str(position_of(index, self._size, type(self).__name__)))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(position_of(index, self._size, type(self).__name__)), _as_member(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        position, self._size = self._size, self._size + 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise UsageError(f"ParameterList: expected several values, got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters, other values are kept as they are."""

    def __init__(self, parameters: Any = None):
        self._names: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._names:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise UsageError(f"ParameterDict: a name must be a string, got {type(key).__name__}")
        self._names[key] = None
        setattr(self, key, _as_member(value))

    def __delitem__(self, key: str) -> None:
        del self._names[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, key: Any) -> bool:
        return key in self._names

    def keys(self) -> Any:
        """The names of the parameters, in the order in which they were added."""
        return self._names.keys()

    def values(self) -> list[Any]:
        """The parameters, in the order of their names."""
        return [self[key] for key in self._names]

    def items(self) -> list[tuple[str, Any]]:
        """Pairs (name, parameter)."""
        return [(key, self[key]) for key in self._names]

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or a default where there is none."""
        return self[key] if key in self._names else default

    def pop(self, key: str) -> Any:
        """Remove a value, and give it."""
        member = self[key]
        del self[key]
        return member

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._names):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add values: a mapping, or pairs of name and value."""
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value)}" for key, value in self.items())
