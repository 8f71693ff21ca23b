"""Containers of modules: `Sequential`, `ModuleList`, `ModuleDict`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from prototorch.errors import UsageError
from prototorch.nn.module import Module
from prototorch.nn.module_tree import as_child

__all__ = ["ModuleDict", "ModuleList", "Sequential", "position_of"]


def position_of(index: Any, count: int, what: str) -> int:
    """An index as one from 0 on. Raises IndexError where it is outside."""
    try:
        position = index.__index__()
    except (AttributeError, TypeError):
        raise UsageError(f"{what}: an index must be an integer or a slice, got {type(index).__name__}") from None
    if not -count <= position < count:
        raise IndexError(f"{what}: index {position} is outside its {count} members")
    return int(position) % count


class _ModuleSequence(Module):
    """Modules in an order, named 0, 1, 2, ... (a `Sequential` of an OrderedDict: by its names)."""

    def _keys(self) -> list[str]:
        return list(self._modules)

    def __getitem__(self, index: Any) -> Any:
        keys = self._keys()
        if isinstance(index, slice):
            return self._part([(k, self._modules[k]) for k in keys[index]])
        return self._modules[keys[position_of(index, len(keys), type(self).__name__)]]

    def _part(self, members: list[tuple[str, Any]]) -> Any:
        return type(self)([child for _, child in members])

    def __setitem__(self, index: Any, module: Any) -> None:
        keys = self._keys()
        key = keys[position_of(index, len(keys), type(self).__name__)]
        child = as_child(module)
        if child is None:
            raise UsageError(f"{type(self).__name__}: expected a module, got {type(module).__name__}")
        self._modules[key] = child

    def __delitem__(self, index: Any) -> None:
        keys = self._keys()
        removed_keys = (
            keys[index] if isinstance(index, slice) else [keys[position_of(index, len(keys), type(self).__name__)]]
        )
        rest = [(k, child) for k, child in self._modules.items() if k not in removed_keys]
        is_numbered = keys == [str(i) for i in range(len(keys))]
        self._modules.clear()
        self._modules.update({str(i) if is_numbered else k: child for i, (k, child) in enumerate(rest)})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: Any) -> bool:
        return any(child is module or getattr(child, "layer", None) is module for child in self._modules.values())

    def append(self, module: Any) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add modules at the end."""
        if isinstance(modules, Mapping) or not isinstance(modules, Iterable):
            raise UsageError(f"extend: expected several modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Any) -> Self | None:
        """Put a module before another one."""
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"{type(self).__name__}: index {index} is outside its {count} members")
        children = list(self)
        child = as_child(module)
        if child is None:
            raise UsageError(f"insert: expected a module, got {type(module).__name__}")
        children.insert(index, child)
        self._modules.clear()
        self._modules.update({str(i): c for i, c in enumerate(children)})
        return self

    def pop(self, key: Any) -> Any:
        """Remove a module, and give it."""
        member = self[key]
        del self[key]
        return member


class Sequential(_ModuleSequence):
    """Modules that are called one after another, each on what the one before gave: ``Sequential(a, b)``, or
    ``Sequential(OrderedDict([("first", a), ...]))``."""

    def __init__(self, *args: Any):
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                if isinstance(module, list | tuple) and as_child(module) is None:
                    raise UsageError(
                        "nn.Sequential takes the modules themselves: Sequential(*modules) "
                        "(pt.Sequential([...]) is Keras' one)"
                    )
                self.add_module(str(index), module)

    def _part(self, members: list[tuple[str, Any]]) -> Any:
        return type(self)(OrderedDict(members))

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise UsageError(f"Sequential + {type(other).__name__}: expected a Sequential")
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        """The output of the last module."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_ModuleSequence):
    """A list of modules, for use in a `forward` of one's own."""

    def __init__(self, modules: Iterable[Any] | None = None):
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)

    def insert(self, index: int, module: Any) -> None:
        """Put a module before another one."""
        super().insert(index, module)

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        runs: list[list[int]] = []
        for i, text in enumerate(texts):
            if runs and texts[runs[-1][0]] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i])
        lines = []
        for first, last in runs:
            text_fields = texts[first].replace("\n", "\n  ")
            lines.append(
                f"({first}): {text_fields}"
                if first == last
                else f"({first}-{last}): {last - first + 1} x {text_fields}"
            )
        return f"{type(self).__name__}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


class ModuleDict(Module):
    """Modules by name, for use in a `forward` of one's own."""

    def __init__(self, modules: Any = None):
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        if key not in self._modules:
            raise KeyError(key)
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self._modules.pop(key, None)
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: Any) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module, and give it."""
        member = self[key]
        del self[key]
        return member

    def keys(self) -> Any:
        """The names of the modules, in the order in which they were added."""
        return self._modules.keys()

    def items(self) -> Any:
        """Pairs (name, module)."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules, in the order of their names."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules: a mapping, or pairs of name and module."""
        if not isinstance(modules, Iterable):
            raise UsageError(f"ModuleDict: expected modules by name, got {type(modules).__name__}")
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module
