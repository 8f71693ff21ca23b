"""Guards: what a trace has read outside of its arguments, and whether it is still the same."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from prototorch.eager.dtype import DType
from prototorch.eager.tensor import Tensor
from prototorch.layers.base import Layer
from prototorch.optim.optimizer import Optimizer

__all__ = ["Guards"]

MAX_ITEMS = 20_000  # that are looked at from one function
_ABSENT = object()
_VALUE_TYPES = (bool, int, float, complex, str, bytes, type(None), DType)
_OPAQUE = (types.ModuleType, type, type(inspect.unwrap), types.BuiltinFunctionType, types.MethodType, np.ndarray,
           np.generic, Layer)  # fmt: skip


class Guards:
    """The numbers, strings and objects that a function reaches: by its closure, its global names, the object that it is
    a method of, and the modules, lists, dicts and other objects in these.

    ``by_value`` are items that count by value, ``objects`` those that count as the object that they are. Each is a
    container (a dict or a list), a key, the value, and the path that messages name.
    """

    def __init__(self, function: Any, arguments: Iterable[Any]):
        self.by_value: list[tuple[Any, Any, Any, str]] = []
        self.objects: list[tuple[Any, Any, Any, str]] = []
        self.zeros: list[tuple[Any, Any, bool, str]] = []
        self.sizes: list[tuple[Any, int, str]] = []
        self.tensors: dict[int, Tensor] = {}
        self._visited: set[int] = set()
        self._waiting: deque[tuple[Any, str]] = deque()
        self._visit_function(function)
        for k, value in enumerate(arguments):
            self._visit(value, f"argument {k}")
        while self._waiting:  # level by level: chains of objects may be of any length, and paths are the shortest ones
            self._open(*self._waiting.popleft())

    def _visit_function(self, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        if owner is not None:
            self._visit(owner, "self")
        function = inspect.unwrap(getattr(function, "__func__", function))
        bytecode = getattr(function, "__code__", None)
        if bytecode is None:  # an object that is called: a module
            self._visit(function, type(function).__name__)
            return
        names = function.__globals__
        for name in bytecode.co_names:
            if name in names:
                self._item(names, name, names[name], name)
        for name, cell in zip(bytecode.co_freevars, function.__closure__ or (), strict=True):
            self._item(cell, name, _cell_contents(cell), name)

    def _item(self, container: Any, key: Any, value: Any, path: str) -> None:
        (self.by_value if isinstance(value, _VALUE_TYPES) else self.objects).append((container, key, value, path))
        self._visit(value, path)

    def _visit(self, value: Any, path: str) -> None:
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
            return
        if isinstance(value, (*_VALUE_TYPES, *_OPAQUE)) or id(value) in self._visited or len(self._visited) > MAX_ITEMS:
            return
        self._visited.add(id(value))
        self._waiting.append((value, path))

    def _open(self, value: Any, path: str) -> None:
        if isinstance(value, dict):
            self._container(value, value.items(), path, "[{!r}]")
        elif isinstance(value, list):
            self._container(value, enumerate(value), path, "[{}]")
        elif isinstance(value, tuple):
            for k, v in enumerate(value):
                self._visit(v, f"{path}[{k}]")
        elif isinstance(value, Optimizer):
            self._visit_optimizer(value, path)
        elif isinstance(getattr(value, "__dict__", None), dict) and not type(value).__module__.startswith("_"):
            self._container(vars(value), vars(value).items(), path, ".{}")

    def _visit_optimizer(self, optimizer: Optimizer, path: str) -> None:
        """Of the numbers in its groups, which each call reads anew, it counts whether they are 0."""
        for k, group in enumerate(optimizer.param_groups):
            self.sizes.append((group, len(group), f"{path}.param_groups[{k}]"))
            for key, value in group.items():
                name = f"{path}.param_groups[{k}][{key!r}]"
                if type(value) is float or key == "lr":
                    self.zeros.append((group, key, not value, name))
                else:
                    self._item(group, key, value, name)
        self.sizes.append((optimizer.param_groups, len(optimizer.param_groups), f"{path}.param_groups"))
        self._visit(optimizer.state, f"{path}.state")

    def _container(self, container: Any, items: Iterable[tuple[Any, Any]], path: str, form: str) -> None:
        self.sizes.append((container, len(container), path))
        for key, value in list(items):
            name = f"{path}{form.format(key if not isinstance(key, Tensor) else 'tensor')}"
            self._item(container, key, value, name)

    def failure(self) -> str:
        """What has changed, with its path; "" where nothing has."""
        for container, size, path in self.sizes:
            if len(container) != size:
                return f"{path} has {len(container)} items, and had {size}"
        for container, key, value, path in self.by_value:
            now = _item(container, key)
            if now is not value and (type(now) is not type(value) or now != value):
                return f"{path} is {'gone' if now is _ABSENT else repr(now)[:40]}, and was {value!r:.40}"
        for container, key, is_zero, path in self.zeros:
            if (not container.get(key)) is not is_zero:
                return f"{path} is {container.get(key)!r:.40}, and was {'0' if is_zero else 'not 0'}"
        for container, key, value, path in self.objects:
            if _item(container, key) is not value:
                return f"{path} is another object"
        return ""


def _item(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return container.get(key, _ABSENT)
    if isinstance(container, types.CellType):
        return _cell_contents(container)
    return container[key]


def _cell_contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return _ABSENT
