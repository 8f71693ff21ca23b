"""Guards: what a trace has read outside of its arguments, and whether it is still the same."""

from __future__ import annotations

import random
import sys
import types
from array import array
from collections import deque
from collections.abc import Iterable
from copy import copy
from functools import partial
from itertools import repeat
from operator import eq, is_
from typing import Any

import numpy as np

from prototorch.compiler.own_code import is_own_code, used_names
from prototorch.eager.dtype import DType
from prototorch.eager.tensor import Tensor
from prototorch.layers.base import Layer
from prototorch.optim.optimizer import Optimizer
from prototorch.runtime.variables import Variables

__all__ = ["Guards"]

MAX_ITEMS = 20_000  # that are looked at from one function
MAX_ARRAY_BYTES = 2**16  # of an array of NumPy whose elements are compared
_ABSENT = object()
_VALUE_TYPES = (bool, int, float, complex, str, bytes, type(None), DType)
#: mutable containers whose items have no keys
_COMPARED_TYPES = (set, deque, bytearray, array)
_OPAQUE = (types.BuiltinFunctionType, np.generic, Layer, Variables)  # a model's weights are states of the plan


class Guards:
    """The numbers, strings and objects that a function reaches: by its closure, its global names, the object that it is
    a method of, and the modules, lists, dicts, functions, classes and other objects in these.

    ``by_value`` are items that count by value, ``objects`` those that count as the object that they are. Each is a
    container (a dict or a list), a key, the value, and the path that messages name.
    """

    def __init__(self, function: Any, arguments: Iterable[Any]):
        self.by_value: list[tuple[Any, Any, Any, str]] = []
        self.objects: list[tuple[Any, Any, Any, str]] = []
        self.zeros: list[tuple[Any, Any, bool, str]] = []
        self.sizes: list[tuple[Any, int, str]] = []
        self.arrays: list[tuple[np.ndarray, bytes, str]] = []
        self.generators: list[Any] = []  # of random numbers
        self.contents: list[tuple[Any, Any, str]] = []  # containers that are compared as a whole, with copies
        self.large_arrays: list[tuple[np.ndarray, str]] = []
        self.tensors: dict[int, Tensor] = {}
        self._visited: set[int] = set()
        self._waiting: deque[tuple[Any, str]] = deque()
        owner = getattr(function, "__self__", None)
        if owner is not None:
            self._visit(owner, "self")
        self._function = function = getattr(function, "__func__", function)
        self._visit(function, getattr(function, "__name__", type(function).__name__))
        for k, value in enumerate(arguments):
            self._visit(value, f"argument {k}")
        while self._waiting:  # level by level: chains of objects may be of any length, and paths are the shortest ones
            self._open(*self._waiting.popleft())
        items = [*self.by_value, *self.objects]
        self._in_dicts = _columns([i for i in items if isinstance(i[0], dict)])
        self._other_items = [i for i in items if not isinstance(i[0], dict)]
        self._content_pairs = [c[0] for c in self.contents], [c[1] for c in self.contents]
        self._sized = [s[0] for s in self.sizes], [s[1] for s in self.sizes]

    def _item(self, container: Any, key: Any, value: Any, path: str) -> None:
        (self.by_value if isinstance(value, _VALUE_TYPES) else self.objects).append((container, key, value, path))
        self._visit(value, path)

    def _visit(self, value: Any, path: str) -> None:
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
            return
        if isinstance(value, (random.Random, np.random.RandomState, np.random.Generator)):
            self.generators.append(value)
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
        elif isinstance(value, _COMPARED_TYPES):
            self.contents.append((value, copy(value), path))
            for k, v in enumerate(value):
                self._visit(v, f"{path}: item {k}")
        elif isinstance(value, Optimizer):
            self._visit_optimizer(value, path)
        elif isinstance(value, np.ndarray):
            self._visit_array(value, path)
        elif isinstance(value, types.MethodType):
            self._visit(value.__self__, f"{path}.__self__")
            self._visit(value.__func__, path)
        elif isinstance(value, partial):
            for part in (value.func, value.args, value.keywords):
                self._visit(part, path)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, path)
        elif isinstance(value, type):
            self._visit_class(value, path)
        elif not isinstance(value, types.ModuleType):
            self._visit_object(value, path)

    def _visit_object(self, value: Any, path: str) -> None:
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and "__wrapped__" in attributes:  # what is compiled, or kept by a cache
            self._visit(attributes["__wrapped__"], path)
            return
        self._visit(kind, kind.__name__)
        if kind.__module__.startswith("_") and kind.__module__ in sys.stdlib_module_names:
            return
        if isinstance(attributes, dict):
            self._container(attributes, attributes.items(), path, ".{}")
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType) and is_own_code(base.__module__):
                    self._item(value, member, _item(value, member), f"{path}.{name}")

    def _visit_class(self, value: type, path: str) -> None:
        for base in value.__mro__:
            if is_own_code(base.__module__) and (base is value or id(base) not in self._visited):
                self._visited.add(id(base))
                own = vars(base)
                self._container(
                    own, [i for i in own.items() if i[0] in ("__call__", "__init__") or i[0][:2] != "__"], path, ".{}"
                )

    def _visit_function(self, function: types.FunctionType, path: str) -> None:
        if vars(function):
            self._container(vars(function), vars(function).items(), path, ".{}")
        if not is_own_code(function.__module__) and function is not self._function:
            return
        for k, value in enumerate(function.__defaults__ or ()):
            self._visit(value, f"{path}: default {k}")
        for name, value in (function.__kwdefaults__ or {}).items():
            self._visit(value, f"{path}: default of {name}")
        names = function.__globals__
        global_names, names_read = used_names(function.__code__)
        for name in global_names:
            if name in names:
                value = names[name]
                self._item(names, name, value, name)
                if isinstance(value, types.ModuleType) and is_own_code(value.__name__):
                    for key in names_read:
                        if key in vars(value):
                            self._item(vars(value), key, vars(value)[key], f"{name}.{key}")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._item(cell, name, _cell_contents(cell), name)

    def _visit_array(self, array: np.ndarray, path: str) -> None:
        if array.nbytes > MAX_ARRAY_BYTES:
            self.large_arrays.append((array, path))
        elif array.dtype.hasobject:
            self._visit(array.tolist(), path)
        else:
            self.arrays.append((array, array.tobytes(), path))

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
        return "" if self._is_same() else self._difference()

    def _is_same(self) -> bool:
        containers, keys, values = self._in_dicts
        return (
            all(map(eq, map(len, self._sized[0]), self._sized[1]))
            and all(map(is_, map(dict.get, containers, keys, repeat(_ABSENT)), values))
            and all(_item(container, key) is value for container, key, value, _ in self._other_items)
            and all(map(eq, *self._content_pairs))
            and all(elements.tobytes() == stored_bytes for elements, stored_bytes, _ in self.arrays)
            and all((not group.get(key)) is is_zero for group, key, is_zero, _ in self.zeros)
        )

    def _difference(self) -> str:
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
        for container, before, path in self.contents:
            if container != before:
                return f"{path} is {container!r:.40}, and was {before!r:.40}"
        for elements, stored_bytes, path in self.arrays:
            if elements.tobytes() != stored_bytes:
                return f"elements of the array {path} are others"
        return ""


def _item(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return container.get(key, _ABSENT)
    if isinstance(container, types.CellType):
        return _cell_contents(container)
    if isinstance(container, types.MappingProxyType):
        return container.get(key, _ABSENT)
    if isinstance(key, types.MemberDescriptorType):
        try:
            return key.__get__(container)
        except AttributeError:  # it has no value yet
            return _ABSENT
    return container[key]


def _columns(items: list[tuple[Any, Any, Any, str]]) -> tuple[list[Any], list[Any], list[Any]]:
    return [i[0] for i in items], [i[1] for i in items], [i[2] for i in items]


def _cell_contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return _ABSENT
