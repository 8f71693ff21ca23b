"""Jacobians, Hessians and vector-Jacobian products of functions, as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.functions import gradients
from prototorch.eager.grad_mode import enable_grad, is_grad_enabled
from prototorch.eager.tensor import Tensor
from prototorch.errors import ShapeError, UsageError
from prototorch.func.captured_parameters import as_sources, depends_on_captured, detach_inner
from prototorch.func.gradients import arguments_at, split_aux, with_arguments
from prototorch.func.pytree import flatten

__all__ = ["hessian", "jacrev", "vjp"]


def jacrev(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the Jacobians of ``func``, one row after another in reverse mode.

    argnums, has_aux: see `grad`. For each tensor of the result, in its form, the new function gives the Jacobians by
    the chosen arguments, in their form, of shape [*output.shape, *input.shape].

    Raises UsageError for arguments and results that are no tensors or tuples, lists and dicts of them.
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        keep = is_grad_enabled()
        with enable_grad():
            leaves, rebuild = flatten("jacrev", arguments_at("jacrev", args, argnums), "arguments")
            sources = as_sources(leaves)
            result, aux = split_aux("jacrev", func(*with_arguments(args, argnums, rebuild(sources)), **kwargs), has_aux)
            outputs, rebuild_outputs = flatten("jacrev", result, "results of the function")
            outer = keep and depends_on_captured(outputs, sources)
            rows = [rebuild(_jacobians(out, sources, outer)) for out in outputs]
            jacobians = detach_inner(rebuild_outputs(rows), sources, outer)
            return (jacobians, detach_inner(aux[0], sources, keep)) if has_aux else jacobians

    return jacobian


def _jacobians(out: Tensor, sources: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """The Jacobians of one output by all sources."""
    columns: list[list[Tensor]] = [[] for _ in sources]
    for n in range(out.spec.size):
        seed = np.zeros(out.spec.size, out.spec.dtype)
        seed[n] = 1
        vector = out.interpreter.constant(seed.reshape(out.spec.shape))
        for column, row in zip(columns, _products([out], sources, [vector], create_graph), strict=True):
            column.append(ops.reshape(row, shape=(1, *row.spec.shape)))
    return [
        ops.reshape(
            ops.concat(*column, axis=0) if len(column) > 1 else column[0], shape=(*out.spec.shape, *source.spec.shape)
        )
        if column
        else source.interpreter.constant(np.zeros((*out.spec.shape, *source.spec.shape), source.spec.dtype))
        for column, source in zip(columns, sources, strict=True)
    ]


def _products(
    outputs: Sequence[Tensor], sources: Sequence[Tensor], vectors: Sequence[Tensor], create_graph: bool
) -> list[Tensor]:
    """The products of vectors with the Jacobians of the outputs; zeros where nothing depends on a source."""
    pairs = [(out, v) for out, v in zip(outputs, vectors, strict=True) if out.requires_grad]
    if not pairs:
        return [s.interpreter.zeros(s.spec) for s in sources]
    results, seeds = zip(*pairs, strict=True)
    return list(
        gradients.grad(
            results,
            sources,
            seeds,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
        )
    )


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of ``func``: the Jacobian of its Jacobian.

    argnums: see `grad`. The shape of one is [*output.shape, *input.shape, *input.shape].
    """
    return jacrev(jacrev(func, argnums), argnums)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of ``func(*primals)``, and a function of vectors in its form that gives their products with its
    Jacobians: a tuple with the gradients of each argument. With ``has_aux`` also the second part of the result.

    Raises UsageError for arguments and results that are no tensors or tuples, lists and dicts of them, and where the
    vectors are not of the result's form; ShapeError where their shapes are others.
    """
    keep = is_grad_enabled()
    with enable_grad():
        leaves, rebuild = flatten("vjp", primals, "arguments")
        sources = as_sources(leaves)
        result, aux = split_aux("vjp", func(*rebuild(sources)), has_aux)
        outputs, _ = flatten("vjp", result, "results of the function")

    def product(cotangents: Any) -> Any:
        keep_products = is_grad_enabled()
        with enable_grad():
            vectors, _ = flatten("vjp", cotangents, "vectors")
            if len(vectors) != len(outputs):
                raise UsageError(
                    f"vjp: the function gives {len(outputs)} tensors, and {len(vectors)} vectors are given"
                )
            for out, vector in zip(outputs, vectors, strict=True):
                if out.shape != vector.shape:
                    raise ShapeError(f"vjp: expected a vector of shape {list(out.shape)}, got {list(vector.shape)}")
            outer = keep_products and depends_on_captured([*outputs, *vectors], sources)
            return detach_inner(rebuild(_products(outputs, sources, vectors, outer)), sources, outer)

    return (detach_inner(result, sources, keep), product, *(detach_inner(a, sources, keep) for a in aux))
