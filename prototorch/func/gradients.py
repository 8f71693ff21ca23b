"""The gradient of a function as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.eager.functions import gradients
from prototorch.eager.grad_mode import enable_grad, is_grad_enabled
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError
from prototorch.func.captured_parameters import as_sources, depends_on_captured, detach_inner
from prototorch.func.pytree import flatten

__all__ = ["arguments_at", "grad", "grad_and_value", "split_aux", "with_arguments"]


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradients of ``func``, whose result is a tensor of one element.

    argnums: the number of the argument to differentiate by, or a tuple of numbers. has_aux: ``func`` gives a pair, and
    so does the new function: the gradients and the second part. The gradients have the form of the arguments; of one
    that the result does not depend on they are zeros. They can be differentiated where they depend on tensors that
    require gradients.

    Raises UsageError for an argument that is not there or has other things in it than tensors, GradientError for a
    result that is not one tensor of one element.
    """
    compute = _gradient(func, argnums, has_aux, "grad")

    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradient_tree, (_, *aux) = compute(args, kwargs)
        return (gradient_tree, aux[0]) if has_aux else gradient_tree

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `grad`; the new function gives the gradients and the result, with ``has_aux`` (result, second part)."""
    compute = _gradient(func, argnums, has_aux, "grad_and_value")

    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        gradient_tree, (value, *aux) = compute(args, kwargs)
        return gradient_tree, ((value, aux[0]) if has_aux else value)

    return gradient_and_value


def _gradient(
    func: Callable[..., Any], argnums: int | tuple[int, ...], has_aux: bool, name: str
) -> Callable[..., tuple[Any, list[Any]]]:
    def compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
        keep = is_grad_enabled()
        with enable_grad():
            leaves, rebuild = flatten(name, arguments_at(name, args, argnums), "arguments")
            sources = as_sources(leaves)
            out, aux = split_aux(name, func(*with_arguments(args, argnums, rebuild(sources)), **kwargs), has_aux)
            if not isinstance(out, Tensor) or out.spec.size != 1 or out.ndim:
                actual = f"a tensor of shape {list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
                raise GradientError(f"{name}: expected a function that gives a tensor of shape [], got {actual}")
            outer = keep and depends_on_captured([out], sources)
            source_gradients = [s.interpreter.zeros(s.spec) for s in sources]
            if out.requires_grad:
                source_gradients = list(
                    gradients.grad(out, sources, create_graph=outer, allow_unused=True, materialize_grads=True)
                )
            result = detach_inner(rebuild(source_gradients), sources, outer)
            return result, detach_inner([out, *aux], sources, keep)

    return compute


def arguments_at(name: str, args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> Any:
    """The arguments of these numbers; a tuple for a tuple of numbers."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise UsageError(f"{name}: argnums must be a number or a tuple of numbers, got {argnums!r:.60}")
    if any(not -len(args) <= n < len(args) for n in numbers):
        raise UsageError(f"{name}: argnums {argnums} is out of range for {len(args)} positional arguments")
    if len({n % len(args) for n in numbers}) < len(numbers):
        raise UsageError(f"{name}: argnums {argnums} has a number twice")
    return tuple(args[n] for n in numbers) if isinstance(argnums, tuple) else args[argnums]


def with_arguments(args: tuple[Any, ...], argnums: int | tuple[int, ...], values: Any) -> list[Any]:
    """The arguments with others in the places of those numbers."""
    changed = list(args)
    pairs = zip(argnums, values, strict=True) if isinstance(argnums, tuple) else ((argnums, values),)
    for number, value in pairs:
        changed[number] = value
    return changed


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, list[Any]]:
    """The result of a function, and its second part in a list; an empty one without ``has_aux``."""
    if not has_aux:
        return result, []
    if not isinstance(result, tuple) or len(result) != 2:
        raise UsageError(
            f"{name}: with has_aux=True the function must give a pair (output, aux), got {type(result).__name__}"
        )
    return result[0], [result[1]]
