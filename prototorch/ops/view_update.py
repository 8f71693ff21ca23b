"""Writing to a view of an array, as an op: the array with other elements where a chain of view ops reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.ops.core import Op
from prototorch.ops.elementwise import zeros_like
from prototorch.ops.facts import no_flops
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

__all__ = ["ViewSteps", "apply_view_steps", "array_view", "view_update"]

#: ops that give views, first to last, each with its attributes: (("slice", (("start", (0,)), ...)), ...)
ViewSteps = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


def apply_view_steps(x: Any, steps: ViewSteps) -> Any:
    """The view of a value, by its ops."""
    for name, attrs in steps:
        x = OPS[name](x, **dict(attrs))
    return x


def array_view(array: Any, steps: ViewSteps) -> Any | None:
    """The view of an array, over the same memory; None where the array module cannot make one."""
    for name, attrs in steps:
        op = OPS[name]
        assert isinstance(op, Op)
        array = op.array_view(array, **dict(attrs))
        if array is None:
            return None
    return array


class ViewUpdate(Op):
    """``view_update(x, y, steps=)``: x with the elements of y where the view of x by ``steps`` has its own (JAX's
    ``x.at[...].set(y)``; PyTorch's CopySlices)."""

    flops = no_flops
    derivatives = (
        lambda g, out, x, y, steps: view_update(g, zeros_like(y), steps=steps),
        lambda g, out, x, y, steps: apply_view_steps(g, steps),
    )

    def infer_spec(self, x: Spec, y: Spec, steps: ViewSteps) -> Spec:
        if x.dtype != y.dtype:
            raise self.shape_error(f"expected two inputs of the same dtype, got {x.dtype} and {y.dtype}")
        return x

    def reference(self, xp: Any, x: Any, y: Any, steps: ViewSteps) -> Any:
        positions = array_view(np.arange(x.size).reshape(x.shape), steps)
        if positions is None:
            raise self.shape_error(f"an array of shape {list(x.shape)} has no view by {steps}")
        source = np.arange(x.size)  # of each element, in x and y one after the other
        source[positions.reshape(-1)] = x.size + np.arange(y.size)
        both = xp.concat([xp.reshape(x, (-1,)), xp.reshape(y, (-1,))])
        return xp.reshape(xp.take(both, xp.asarray(source), axis=0), x.shape)


view_update = ViewUpdate()
