"""The nodes of `Function` on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from prototorch import ops
from prototorch.eager.function_context import FunctionCtx
from prototorch.eager.signature import Signature
from prototorch.eager.tape import TapeEntry
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError
from prototorch.ops.core import Op

__all__ = ["FunctionNode", "node_class_of"]


class _FunctionOp(Op):
    """The op of a node that is a function: a name for messages, which is not registered."""

    def __init__(self, name: str):
        self.name = name  # type: ignore[misc]


class FunctionNode(TapeEntry):
    """One application of a function, with its ``ctx``, whose attributes are the node's, too.

    is_tensor: for each argument whether it is a tensor. output_positions: of the tensors among the outputs.
    without_gradient: numbers of the output tensors without a gradient.
    """

    __slots__ = ("ctx", "function", "is_tensor", "num_outputs", "output_positions", "without_gradient")

    ctx: Any
    function: Any
    is_tensor: tuple[bool, ...]
    num_outputs: int
    output_positions: tuple[int, ...]
    without_gradient: frozenset[int]
    context_class = FunctionCtx
    runs_user_code = True

    def __init__(self, interpreter: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]):
        op = _FunctionOp(type(self).__name__)
        signature = Signature(interpreter, op, {}, (), tuple(t.spec for t in inputs), tuple(t.spec for t in outputs))
        super().__init__(signature, tuple(t.edge for t in inputs), ((), ()), [])

    def __getattr__(self, name: str) -> Any:
        if name in FunctionNode.__slots__:
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def differentiate(self, grads: Sequence[Any], needs: Sequence[bool], create_graph: bool) -> Sequence[Any]:
        """See `TapeEntry.differentiate`."""
        if self.freed:
            raise GradientError(
                f"backward() a second time over {self.name()}, whose saved tensors the first one has freed: call the "
                "first one with retain_graph=True, or compute the result again"
            )
        specs, interpreter = self.signature.outs, self.signature.interpreter
        output_grads: list[Any] = [None] * self.num_outputs
        for position, spec, g in zip(self.output_positions, specs, grads, strict=True):
            output_grads[position] = interpreter.zeros(spec) if g is None and self.ctx.materialize_grads else g
        results = self.function.backward(self.ctx, *output_grads)
        return self._check(list(results) if isinstance(results, tuple | list) else [results], needs)

    def _check(self, gradients: list[Any], needs: Sequence[bool]) -> list[Any]:
        """The gradients of the input tensors from those of all arguments, of the inputs' shapes and dtypes."""
        name, count = self.function.__name__, len(self.is_tensor)
        while len(gradients) > count and gradients[-1] is None:
            gradients.pop()
        if len(gradients) != count:
            raise UsageError(f"{name}.backward must return {count} gradients, one for each input, not {len(gradients)}")
        for k, (g, is_tensor) in enumerate(zip(gradients, self.is_tensor, strict=True)):
            if g is not None and not is_tensor:
                raise UsageError(f"{name}.backward: input {k} is no tensor, so that its gradient must be None")
        positions = [k for k, is_tensor in enumerate(self.is_tensor) if is_tensor]
        return [
            _fit(name, k, gradients[k], spec) if need and gradients[k] is not None else None
            for k, need, spec in zip(positions, needs, self.signature.ins, strict=True)
        ]

    def release(self) -> None:
        """Give what the function has saved away."""
        if self.ctx.packed_tensors:
            self.ctx.packed_tensors = ()
            self.freed = True


def _fit(name: str, position: int, gradient: Any, spec: Any) -> Any:
    """A gradient in the shape and dtype of its input; one of a shape to which the input's broadcasts is summed."""
    if not isinstance(gradient, Tensor):
        raise UsageError(
            f"{name}.backward: the gradient of input {position} must be a tensor {list(spec.shape)}, not a "
            f"{type(gradient).__name__}"
        )
    shape = gradient.spec.shape
    if shape != spec.shape:
        extra = len(shape) - len(spec.shape)
        axes = tuple(k for k, n in enumerate(shape) if k < extra or (n != 1 and spec.shape[k - extra] == 1))
        if extra < 0 or any(n != spec.shape[k - extra] for k, n in enumerate(shape) if k >= extra and k not in axes):
            raise UsageError(
                f"{name}.backward: the gradient of input {position} must be a tensor {list(spec.shape)}, not a tensor "
                f"{list(shape)}"
            )
        gradient = ops.reshape(ops.sum(gradient, axis=axes, keepdims=True), shape=spec.shape)
    return gradient if gradient.spec.dtype == spec.dtype else ops.cast(gradient, dtype=spec.dtype)


_node_classes: WeakKeyDictionary[type, type[FunctionNode]] = WeakKeyDictionary()


def node_class_of(function: type) -> type[FunctionNode]:
    """The class of a function's nodes, named after it as PyTorch does."""
    node_class = _node_classes.get(function)
    if node_class is None:
        name = f"{function.__name__}Backward"
        context = type(name, (FunctionCtx,), {})
        node_class = type(name, (FunctionNode,), {"__slots__": (), "context_class": context})
        _node_classes[function] = node_class
    return node_class
