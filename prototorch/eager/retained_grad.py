"""Gradients of tensors that are no leaves, kept where `retain_grad` asks for it."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["move_retained", "retain"]


def retain(tensor: Any) -> None:
    """Have the node that made a tensor keep the tensor's gradient in its ``grad``. It runs after all hooks."""
    entry, output = tensor.edge
    tensor.__dict__["retained"] = True
    reference = weakref.ref(tensor)

    def keep(gradient: Any) -> None:
        output = reference()
        if output is not None:
            before = output.stored_grad
            output.stored_grad = gradient.detach() if before is None else before + gradient

    entry.ensure_extras().retained[output] = keep


def move_retained(tensor: Any, before: Any) -> None:
    """After a change in place: what the node before was asked to keep is kept by the new one."""
    if "retained" in tensor.__dict__:
        extras = before.entry.extras
        if extras is not None:
            extras.retained.pop(before.output, None)
        retain(tensor)
