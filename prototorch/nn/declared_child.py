"""Objects of the declared models as children of modules: what a layer and a model have in common there."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakValueDictionary

from prototorch.eager.tensor import Tensor
from prototorch.nn.module import Module
from prototorch.nn.state_dict import as_tensor_of_state

__all__ = ["DeclaredChild", "child_of"]


class DeclaredChild(Module):
    """A module whose parameters and buffers are the weights of an object of the declared models, by their paths.

    A subclass says which weights it has, and where a state's array waits until the object creates its weight.
    """

    def _weights(self, statistics: bool) -> dict[str, Any]:
        """The weights by name: those that no gradient trains, or the others."""
        raise NotImplementedError

    def _has_weights(self) -> bool:
        """Whether the weights have been created. Raises UsageError where they cannot be given before that."""
        raise NotImplementedError

    def _preset(self, name: str, value: Tensor) -> None:
        """Give the weight of this path, which is not created yet, its elements."""
        raise NotImplementedError

    @property
    def _parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return self._weights(statistics=False)

    @property
    def _buffers(self) -> dict[str, Any]:  # type: ignore[override]
        return self._weights(statistics=True)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        if self._has_weights():
            super()._load_from_state_dict(state_dict, prefix, *arguments)
            return
        for key in [k for k in state_dict if k.startswith(prefix)]:
            value = as_tensor_of_state(state_dict[key])
            if value is None:
                arguments[-1].append(f"{key} is no tensor but a {type(state_dict[key]).__name__}")
                continue
            name = key[len(prefix) :].replace(".", "/")
            state_dict.pending.append(lambda name=name, value=value: self._preset(name, value))

    def _load_later(self, state_dict: Any, name: str, tensor: Any, value: Tensor, take: bool) -> None:
        super()._load_later(state_dict, name, tensor, value, take=False)


Child = TypeVar("Child", bound=DeclaredChild)
_children: WeakValueDictionary[tuple[type, int], DeclaredChild] = WeakValueDictionary()


def child_of(cls: type[Child], attribute: str, declared: Any) -> Child:
    """The module of an object, which it holds as ``attribute``; the same one each time."""
    child = _children.get((cls, id(declared)))
    if not isinstance(child, cls) or getattr(child, attribute) is not declared:
        child = _children[cls, id(declared)] = cls(declared)
    return child
