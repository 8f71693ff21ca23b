"""Functions with a gradient of their own, as in PyTorch.

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

import copy
import inspect
from typing import Any

from prototorch.eager.edge import Edge
from prototorch.eager.function_context import FunctionCtx, save_tensors
from prototorch.eager.function_node import FunctionNode, node_class_of
from prototorch.eager.grad_mode import no_grad, recording
from prototorch.eager.in_place import place_output
from prototorch.eager.observers import caller_traceback, observers
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["Function", "once_differentiable"]


class Function(FunctionCtx):
    """A function with its own gradient. Subclasses define the static methods `forward` and `backward`; call `apply`.

    `forward` takes ``ctx`` first, unless the subclass defines ``setup_context(ctx, inputs, output)``. The form of the
    first versions of PyTorch is accepted, too: methods ``forward(self, x)`` and ``backward(self, g)`` of an instance
    that is called, ``ReLU()(x)``.

    It runs on tensors only. A function that must run in a plan as well is written as an op (`prototorch.ops.core.Op`).
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """A tensor, or a tuple of tensors and other values, from tensors and other values. Its ops are not recorded on
        the tape."""
        raise UsageError("a Function defines forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save for `backward` what it needs of the inputs and the output; then `forward` takes no ``ctx``."""
        raise UsageError("a Function whose forward takes no ctx defines setup_context(ctx, inputs, output)")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of all inputs (None for an input without one) from those of the outputs.

        Expressed in functions of tensors, it can be differentiated again.
        """
        raise UsageError("a Function defines backward(ctx, ...)")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function; a tensor, or a tuple where `forward` gives a tuple.

        Keyword arguments are possible with `setup_context`. Raises UsageError where an input belongs to a graph, or
        where `forward` gives something else than a tensor or a tuple.
        """
        ctx = node_class_of(cls).context_class()
        return _run(cls, ctx, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run an instance whose `forward` and `backward` are ordinary methods (the form of PyTorch before 0.2)."""
        ctx = self if self.packed_tensors is None and not self.to_save else copy.copy(self)
        ctx.packed_tensors, ctx.to_save, ctx.node_reference = None, (), None
        return _run(type(self), ctx, args, kwargs)


def _run(cls: type[Function], ctx: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if any(hasattr(a, "interpreter") and not isinstance(a, Tensor) for a in args):
        raise UsageError(f"{cls.__name__} is a Function, which runs on tensors; for a layer in a plan write an Op")
    forward = cls.forward
    has_setup = cls.setup_context is not Function.setup_context
    if kwargs:
        if not has_setup:
            raise UsageError(f"{cls.__name__}.apply takes keyword arguments where the Function has a setup_context")
        args = _bind(cls, forward, args, kwargs)
    needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    ctx.needs_input_grad = needs
    with no_grad():
        result = forward(*args) if has_setup else forward(ctx, *args)
        if has_setup:
            cls.setup_context(ctx, args, result)
    originals = tuple(result) if isinstance(result, tuple | list) else (result,)
    if not any(isinstance(out, Tensor) for out in originals):
        kind = type(result).__name__ if not isinstance(result, tuple) else "tuple without one"
        raise UsageError(f"{cls.__name__}.forward must return tensors, not a {kind}")
    is_recorded = recording.get() and any(needs)
    outputs = _finish(cls, ctx, args, originals, is_recorded)
    return type(result)(outputs) if isinstance(result, tuple | list) else outputs[0]


def _bind(cls: type[Function], forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    try:
        arguments = inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as exc:
        raise UsageError(f"{cls.__name__}.apply: {exc}") from None
    arguments.apply_defaults()
    return arguments.args


def _finish(
    cls: type[Function], ctx: Any, args: tuple[Any, ...], originals: tuple[Any, ...], is_recorded: bool
) -> tuple[Any, ...]:
    """Put the outputs on the tape."""
    dirty = {id(t) for t in ctx.dirty_tensors}
    for t in ctx.dirty_tensors:
        if not any(t is a for a in args):
            raise UsageError(f"{cls.__name__}: mark_dirty names a tensor that is no input of forward")
        if not any(t is out for out in originals):
            raise UsageError(f"{cls.__name__}: an input that mark_dirty names must be returned by forward")
    if not is_recorded:
        ctx.to_save = ()
        return tuple(
            out.detach() if isinstance(out, Tensor) and id(out) not in dirty and any(out is a for a in args) else out
            for out in originals
        )
    inputs = [a for a in args if isinstance(a, Tensor)]
    tensors = tuple(out for out in originals if isinstance(out, Tensor))
    fixed = {id(t) for t in ctx.non_differentiable}
    node: FunctionNode = node_class_of(cls)(tensors[0].interpreter, inputs, tensors)
    node.ctx, node.function, node.is_tensor = ctx, cls, tuple(isinstance(a, Tensor) for a in args)
    node.output_positions = tuple(k for k, out in enumerate(originals) if isinstance(out, Tensor))
    node.num_outputs = len(originals)
    node.without_gradient = frozenset(k for k, out in enumerate(tensors) if id(out) in fixed or not out.spec.is_float)
    watching = observers.get()
    if watching is not None and watching.anomaly is not None:
        node.ensure_extras().traceback = caller_traceback()
    outputs = list(originals)
    for number, k in enumerate(node.output_positions):
        out = originals[k]
        is_changed = id(out) in dirty
        if not is_changed:
            outputs[k] = make_tensor(out.array, out.spec, out.interpreter, out.storage)
        if number not in node.without_gradient:
            place_output(outputs[k], Edge(node, number), is_changed, cls.__name__)
    save_tensors(ctx, node, tuple(outputs[k] for k in node.output_positions), tensors)
    return tuple(outputs)


class _OnceDifferentiated(Function):
    """Gives its first ``count`` values; an error where it is differentiated."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *values: Any) -> Any:
        ctx.name = name
        return values[:count]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise GradientError(
            f"{ctx.name} is marked by @once_differentiable, and its result cannot be differentiated; write its "
            "backward in functions of tensors and leave the decorator out"
        )


def once_differentiable(fn: Any) -> Any:
    """A decorator of `Function.backward`: its ops are not recorded, and its result cannot be differentiated."""

    def backward(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            results = fn(ctx, *grads)
        if not recording.get() or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return results
        values = results if isinstance(results, tuple) else (results,)
        name = getattr(fn, "__qualname__", "a backward function")
        guarded = _OnceDifferentiated.apply(name, len(values), *values, *grads)
        return guarded if isinstance(results, tuple) else guarded[0]

    backward.__name__, backward.__doc__ = getattr(fn, "__name__", "backward"), fn.__doc__
    return backward
