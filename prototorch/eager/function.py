"""Functions with a gradient of their own, for the eager tape (PyTorch's way).

class Cube(pt.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

y = Cube.apply(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.eager.tensor import Tensor, eager_interpreter, no_grad, tensor
from prototorch.errors import UsageError
from prototorch.ops.core import Op


class FunctionContext:
    """What `Function.forward` leaves for `Function.backward`; other attributes may be set on it freely."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for the backward pass."""
        self.saved_tensors = tensors


class Function:
    """A function with its own gradient. Subclasses define `forward` and `backward`, both static; call it by `apply`.

    It runs on tensors alone. What is to run in a plan as well is written as an op (see `prototorch.ops.core.Op`).
    """

    @staticmethod
    def forward(ctx: FunctionContext, *inputs: Any) -> Any:
        """A tensor, or a tuple of them, from tensors and other values. What runs here is not put on the tape."""
        raise TypeError("a Function defines forward(ctx, ...)")

    @staticmethod
    def backward(ctx: FunctionContext, *gradients: Tensor) -> Any:
        """The gradients of all inputs (None for one that has none) from those of the outputs.

        Said in ops it can be differentiated again.
        """
        raise TypeError("a Function defines backward(ctx, ...)")

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Run the function; a tensor, or a tuple of them where `forward` gives a tuple.

        Raises UsageError where an input belongs to a graph, or where `forward` gives something else than tensors.
        """
        if any(hasattr(i, "interpreter") and not isinstance(i, Tensor) for i in inputs):
            raise UsageError(f"{cls.__name__} is a Function, which runs on tensors; for a layer in a plan write an Op")
        ctx = FunctionContext()
        with no_grad():
            made = cls.forward(ctx, *inputs)
        outputs = made if isinstance(made, tuple) else (made,)
        for out in outputs:
            if not isinstance(out, Tensor):
                raise UsageError(f"{cls.__name__}.forward must give tensors, not a {type(out).__name__}")
        places = [k for k, i in enumerate(inputs) if isinstance(i, Tensor)]
        applied = _FunctionOp(cls, ctx, places, len(inputs))
        taped = eager_interpreter.record(applied, [inputs[k] for k in places], {}, [out.data for out in outputs])
        return taped if isinstance(made, tuple) else taped[0]


class _FunctionOp(Op):
    """A function as it was applied once: the tape's entry calls its `pullback`."""

    def __init__(self, function: type[Function], ctx: FunctionContext, places: Sequence[int], count: int):
        self.function, self.ctx, self.places, self.count = function, ctx, places, count

    def vjp(self, grads, outputs, inputs, needs, attrs):
        given = [tensor(np.zeros(o.shape, o.dtype)) if g is None else g for g, o in zip(grads, outputs, strict=True)]
        found = self.function.backward(self.ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        name = self.function.__name__
        if len(found) != self.count:
            raise UsageError(f"{name}.backward must give {self.count} gradients, one for each input, not {len(found)}")
        result = [found[k] if need else None for k, need in zip(self.places, needs, strict=True)]
        for k, g, x in zip(self.places, result, inputs, strict=True):
            if g is not None and (not isinstance(g, Tensor) or g.shape != x.shape):
                shown = f"a tensor {list(g.shape)}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
                raise UsageError(
                    f"{name}.backward: the gradient of input {k} must be a tensor {list(x.shape)}, not {shown}"
                )
        return result
