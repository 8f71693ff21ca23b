"""Functions with their own gradient for the eager tape, as in PyTorch.

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

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.errors import UsageError
from prototorch.ops.core import Op


class FunctionContext:
    """Passes values from `Function.forward` to `Function.backward`; attributes may be set on it freely."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for the backward pass."""
        self.saved_tensors = tensors


class Function:
    """A function with its own gradient. Subclasses define the static methods `forward` and `backward`; call `apply`.

    It runs on tensors only. A function that must run in a plan as well is written as an op (`prototorch.ops.core.Op`).
    """

    @staticmethod
    def forward(ctx: FunctionContext, *inputs: Any) -> Any:
        """A tensor, or a tuple of them, from tensors and other values. Its ops are not recorded on the tape."""
        raise TypeError("a Function defines forward(ctx, ...)")

    @staticmethod
    def backward(ctx: FunctionContext, *gradients: Tensor) -> Any:
        """The gradients of all inputs (None for an input without one) from those of the outputs.

        Expressed in ops, it can be differentiated again.
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
            result = cls.forward(ctx, *inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        for out in outputs:
            if not isinstance(out, Tensor):
                raise UsageError(f"{cls.__name__}.forward must return tensors, not a {type(out).__name__}")
        positions = [k for k, i in enumerate(inputs) if isinstance(i, Tensor)]
        op = _FunctionOp(cls, ctx, positions, len(inputs))
        tensors = tuple(make_tensor(o._array, o.spec, o.interpreter, Storage()) for o in outputs)
        outputs[0].interpreter.record(op, tuple(inputs[k] for k in positions), {}, tensors)
        return tensors if isinstance(result, tuple) else tensors[0]


class _FunctionOp(Op):
    """One application of a function, as the op of its tape entry."""

    def __init__(self, function: type[Function], ctx: FunctionContext, positions: Sequence[int], count: int):
        self.function, self.ctx, self.positions, self.count = function, ctx, positions, count

    def vjp(self, grads, outputs, inputs, needs, attrs):
        output_gradients = [
            o.interpreter.zeros(o.spec) if g is None else g for g, o in zip(grads, outputs, strict=True)
        ]
        gradients = self.function.backward(self.ctx, *output_gradients)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        name = self.function.__name__
        if len(gradients) != self.count:
            raise UsageError(
                f"{name}.backward must return {self.count} gradients, one for each input, not {len(gradients)}"
            )
        result = [gradients[k] if need else None for k, need in zip(self.positions, needs, strict=True)]
        for k, g, x in zip(self.positions, result, inputs, strict=True):
            if g is not None and (not isinstance(g, Tensor) or g.shape != x.shape):
                got = f"a tensor {list(g.shape)}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
                raise UsageError(
                    f"{name}.backward: the gradient of input {k} must be a tensor {list(x.shape)}, not {got}"
                )
        return result
