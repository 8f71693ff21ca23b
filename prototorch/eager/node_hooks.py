"""Hooks of the tape: on the gradients of tensors, on nodes, and the handles that remove them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from prototorch.errors import UsageError

__all__ = ["NodeHooks", "RemovableHandle", "leaves_with_hooks", "run_tensor_hooks"]

Hook = Callable[..., Any]

#: the leaves whose ``grad`` hooks wait for, by id: a backward pass adds to it as soon as their gradient is complete
leaves_with_hooks: WeakValueDictionary[int, Any] = WeakValueDictionary()


class NodeHooks:
    """What a node has beside its op: hooks, where the op was called, the user's notes.

    tensor_hooks, retained: by output, hooks on its gradient, and those that keep it, which run last. pre_hooks,
    post_hooks: of the node. traceback: where the op was called, as lines of text (anomaly mode).
    """

    __slots__ = ("metadata", "post_hooks", "pre_hooks", "retained", "tensor_hooks", "traceback")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, list[Hook]] = {}
        self.retained: dict[int, Hook] = {}
        self.pre_hooks: list[Hook] = []
        self.post_hooks: list[Hook] = []
        self.metadata: dict[Any, Any] = {}
        self.traceback: str | None = None


class RemovableHandle:
    """Removes a hook: `remove`, or the end of a ``with`` block."""

    def __init__(self, hooks: list[Any], hook: Any):
        self._hooks, self._hook = hooks, hook

    @classmethod
    def register(cls, hooks: list[Hook], hook: Any) -> RemovableHandle:
        """Append a hook to a list. Raises UsageError for what cannot be called."""
        if not callable(hook):
            raise UsageError(f"a hook must be a function, not {type(hook).__name__}")

        def own(*args: Any) -> Any:
            return hook(*args)

        hooks.append(own)
        return cls(hooks, own)

    def remove(self) -> None:
        """Remove the hook."""
        self._hooks[:] = [h for h in self._hooks if h is not self._hook]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def run_tensor_hooks(gradient: Any, hooks: Sequence[Hook]) -> Any:
    """The gradient after hooks, each of which may replace it. Raises UsageError for what is no such gradient."""
    for hook in list(hooks):
        changed = hook(gradient)
        if changed is None:
            continue
        if getattr(changed, "spec", None) is None or changed.spec.shape != gradient.spec.shape:
            shape_or_type = list(changed.shape) if hasattr(changed, "spec") else type(changed).__name__
            raise UsageError(f"a hook must return None or a tensor {list(gradient.shape)}, not {shape_or_type}")
        if changed.spec.dtype != gradient.spec.dtype:
            raise UsageError(
                f"a hook must return a gradient of dtype {gradient.spec.dtype}, not {changed.spec.dtype}; cast it, by "
                "to(dtype)"
            )
        gradient = changed
    return gradient
