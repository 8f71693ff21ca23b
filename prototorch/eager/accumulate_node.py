"""The node at the end of the tape that adds to the ``grad`` of a leaf."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from prototorch.eager.node_hooks import NodeHooks, RemovableHandle, leaves_with_hooks

__all__ = ["AccumulateGrad", "accumulate_node"]


class AccumulateGrad:
    """The node that adds to a leaf's ``grad``, as PyTorch shows it in ``next_functions``.

    variable: the leaf. Its hooks belong to the leaf.
    """

    __slots__ = ("__weakref__", "variable")

    def __init__(self, variable: Any):
        self.variable = variable

    def name(self) -> str:
        """Its name in PyTorch's errors."""
        return "struct torch::autograd::AccumulateGrad".rpartition("::")[2]

    @property
    def next_functions(self) -> tuple[()]:
        """Nothing comes before a leaf."""
        return ()

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        return leaf_hooks(self.variable).metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)``, with ``()`` and the gradient, after it was added to the leaf's."""
        return RemovableHandle.register(leaf_hooks(self.variable).post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the gradient is added to the leaf's."""
        return RemovableHandle.register(leaf_hooks(self.variable).pre_hooks, fn)


def leaf_hooks(leaf: Any) -> NodeHooks:
    """The hooks of a leaf's node."""
    hooks: NodeHooks = leaf.__dict__.setdefault("node_hooks", NodeHooks())
    leaves_with_hooks[id(leaf)] = leaf
    return hooks


def accumulate_node(leaf: Any) -> AccumulateGrad:
    """The node of a leaf; the same one while somebody has it."""
    reference = leaf.__dict__.get("accumulate_node")
    node: AccumulateGrad | None = None if reference is None else reference()
    if node is None:
        node = AccumulateGrad(leaf)
        leaf.__dict__["accumulate_node"] = weakref.ref(node)
    return node
