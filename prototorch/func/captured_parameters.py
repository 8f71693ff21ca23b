"""Which results depend on tensors from outside of a function, so that they stay differentiable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prototorch.eager.tensor import Tensor
from prototorch.func.pytree import map_tree

__all__ = ["as_sources", "depends_on_captured", "detach_inner"]


def as_sources(values: Iterable[Tensor]) -> list[Tensor]:
    """Tensors to differentiate by: copies on the tape of those that require gradients, new leaves of the others."""
    sources = []
    for value in values:
        if value.requires_grad:
            sources.append(value.interpreter.clone(value))
        else:
            source = value.detach()
            source.requires_grad = True
            sources.append(source)
    return sources


def depends_on_captured(values: Iterable[Any], sources: Sequence[Tensor]) -> bool:
    """Whether one of the tensors was computed from a leaf that requires gradients and is no source."""
    own = {id(s) for s in sources}
    pending, seen = [], set()
    for value in values:
        if isinstance(value, Tensor) and value.requires_grad:
            if value.grad_fn is None:
                if id(value) not in own:
                    return True
            else:
                pending.append(value.grad_fn)
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in own:
            return True
        pending += [following for following, _ in node.next_functions]
    return False


def detach_inner(tree: Any, sources: Sequence[Tensor], keep: bool) -> Any:
    """The tree with its tensors detached where they depend on no leaf from outside, all of them without ``keep``."""

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or (keep and depends_on_captured([leaf], sources)):
            return leaf
        return leaf.detach()

    return map_tree(tree, change)
