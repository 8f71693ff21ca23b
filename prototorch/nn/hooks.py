"""Hooks of modules: functions that are called before and after a module's forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["HookHandle", "HookList", "map_tensors", "module_hooks"]

_ids = count()


class HookHandle:
    """Removes a hook: `remove`, or the end of a ``with`` block."""

    def __init__(self, hooks: HookList):
        self._hooks, self.id = hooks, next(_ids)

    def remove(self) -> None:
        """Remove the hook; a second call changes nothing."""
        self._hooks.items.pop(self.id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class HookList:
    """Hooks in the order in which they are called. Each has options, such as whether it takes keyword arguments."""

    def __init__(self) -> None:
        self.items: dict[int, tuple[Callable[..., Any], dict[str, Any]]] = {}

    def add(self, hook: Callable[..., Any], prepend: bool = False, **options: Any) -> HookHandle:
        """Add a hook, at the front with ``prepend``."""
        if not callable(hook):
            raise UsageError(f"a hook must be callable, got {type(hook).__name__}")
        handle = HookHandle(self)
        if prepend:
            self.items = {handle.id: (hook, options), **self.items}
        else:
            self.items[handle.id] = (hook, options)
        return handle

    def __iter__(self) -> Any:
        return iter(list(self.items.values()))

    def __bool__(self) -> bool:
        return bool(self.items)


def module_hooks(module: Any, kind: str) -> HookList:
    """The hooks of a module of one kind ("forward", "backward_pre", ...), by their order."""
    hooks: HookList = vars(module).setdefault("_hook_lists", {}).setdefault(kind, HookList())
    return hooks


def map_tensors(function: Callable[[list[Tensor]], list[Tensor]], value: Any) -> Any:
    """A value whose tensors, also in tuples, lists and dictionaries, are replaced by what a function makes of all."""
    tensors: list[Tensor] = []

    def collect(part: Any) -> None:
        if isinstance(part, Tensor):
            tensors.append(part)
        elif isinstance(part, tuple | list):
            for item in part:
                collect(item)
        elif isinstance(part, dict):
            for item in part.values():
                collect(item)

    collect(value)
    results = iter(function(tensors))

    def rebuild(part: Any) -> Any:
        if isinstance(part, Tensor):
            return next(results)
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*(rebuild(item) for item in part))
        if isinstance(part, tuple | list):
            return type(part)(rebuild(item) for item in part)
        return {k: rebuild(item) for k, item in part.items()} if isinstance(part, dict) else part

    return rebuild(value)
