"""Jacobians, Hessians and their products with vectors, of functions of tensors (PyTorch's autograd.functional).

    pt.autograd.functional.jacobian(lambda x: x.exp(), x)       # [*out.shape, *x.shape]
    pt.autograd.functional.hessian(lambda x: (x ** 3).sum(), x)  # [*x.shape, *x.shape]

``create_graph``: whether results can be differentiated. ``strict``: whether an input that the result does not depend on
is an error, instead of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.functions.gradients import grad
from prototorch.eager.grad_mode import enable_grad, is_grad_enabled
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of all elements of a function's outputs by all elements of its inputs.

    func: takes tensors, gives a tensor or a tuple. inputs: a tensor or a tuple. vectorize: accepted; the result is the
    same. strategy: "reverse-mode".

    Gives a tensor [*output.shape, *input.shape]; for a tuple of inputs a tuple of these, for a tuple of outputs a
    tuple of what one gives. Raises GradientError (``strict``) for an output or a Jacobian that does not depend on an
    input, UsageError for what is no tensor.
    """
    _check_strategy("jacobian", strategy)
    with enable_grad():
        several_inputs, sources = _as_sources("jacobian", inputs, create_graph)
        several_outputs, outputs = _call("jacobian", func, sources)
        rows = tuple(_jacobian_of(out, k, sources, create_graph, strict) for k, out in enumerate(outputs))
    jacobian_rows = tuple(row if several_inputs else row[0] for row in rows)
    return _detach(jacobian_rows if several_outputs else jacobian_rows[0], create_graph)


def _jacobian_of(out: Tensor, number: int, sources: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobians of one output by all sources."""
    _check_dependence("jacobian", out, number, strict)
    columns: list[list[Tensor]] = [[] for _ in sources]
    for n in range(out.spec.size):
        gradients: Sequence[Tensor | None] = [None] * len(sources)
        if out.requires_grad:
            seed = np.zeros(out.spec.size, out.spec.dtype)
            seed[n] = 1
            gradients = grad(
                [out],
                sources,
                [out.interpreter.constant(seed.reshape(out.spec.shape))],
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
        for k, (g, source) in enumerate(zip(gradients, sources, strict=True)):
            columns[k].append(_zeros_if_none("jacobian", g, source, f"output {number}", k, strict, create_graph))
    return tuple(_stack(column, out.spec.shape, source) for column, source in zip(columns, sources, strict=True))


def _stack(tensors: Sequence[Tensor], shape: tuple[int, ...], source: Tensor) -> Tensor:
    whole = (*shape, *source.spec.shape)
    if not tensors:
        return source.interpreter.constant(np.zeros(whole, source.spec.dtype))
    rows = [ops.reshape(t, shape=(1, *source.spec.shape)) for t in tensors]
    stacked: Tensor = ops.reshape(ops.concat(*rows, axis=0) if len(rows) > 1 else rows[0], shape=whole)
    return stacked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a scalar function.

    Gives a tensor [*input.shape, *input.shape]; for a tuple of inputs a tuple of tuples of these. Arguments and errors:
    `jacobian`; GradientError where the function's result has more than one element.
    """
    _check_strategy("hessian", outer_jacobian_strategy)
    several = isinstance(inputs, tuple | list)

    def gradient(*values: Tensor) -> Any:
        _, outputs = _call("hessian", func, values)
        _check_scalar("hessian", outputs)
        _check_dependence("hessian", outputs[0], 0, strict)
        gradients = _gradients(outputs, values, None, True)
        completed = [
            _zeros_if_none("hessian", g, v, "the result", k, strict, True)
            for k, (g, v) in enumerate(zip(gradients, values, strict=True))
        ]
        return tuple(completed) if several else completed[0]

    return jacobian(gradient, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's outputs, and the product of a vector with its Jacobian: the gradients of the inputs where ``v``
    are those of the outputs (None: 1, of one output with one element)."""
    with enable_grad():
        several, sources = _as_sources("vjp", inputs, create_graph)
        several_outputs, outputs = _call("vjp", func, sources)
        for k, out in enumerate(outputs):
            _check_dependence("vjp", out, k, strict)
        seeds = _as_vectors("vjp", v, outputs, "outputs")
        gradients = _gradients(outputs, sources, seeds, create_graph)
        products = _fill_all("vjp", gradients, sources, "the outputs", strict, create_graph)
    return (
        _detach(outputs if several_outputs else outputs[0], create_graph),
        _detach(products if several else products[0], create_graph),
    )


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's outputs, and the product of its Jacobian with a vector ``v``, of the inputs' shapes (None: 1, of
    one input with one element); computed by differentiating the vector-Jacobian product."""
    with enable_grad():
        _, sources = _as_sources("jvp", inputs, create_graph)
        several_outputs, outputs = _call("jvp", func, sources)
        for k, out in enumerate(outputs):
            _check_dependence("jvp", out, k, strict)
        vectors = _as_vectors("jvp", v, sources, "inputs")
        dummies = tuple(_zeros_with_grad(out) for out in outputs)
        dummy_gradients = _gradients(outputs, sources, dummies, True)
        gradients = _fill_all("jvp", dummy_gradients, sources, "the outputs", strict, True)
        second = _gradients(gradients, dummies, vectors, create_graph)
        products = _fill_all("jvp", second, dummies, "the inputs", strict, create_graph)
    return (
        _detach(outputs if several_outputs else outputs[0], create_graph),
        _detach(products if several_outputs else products[0], create_graph),
    )


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result of a scalar function, and the product of a vector ``v``, of the inputs' shapes, with its Hessian."""
    with enable_grad():
        several, sources = _as_sources("vhp", inputs, create_graph)
        _, outputs = _call("vhp", func, sources)
        _check_scalar("vhp", outputs)
        _check_dependence("vhp", outputs[0], 0, strict)
        vectors = _as_vectors("vhp", v, sources, "inputs")
        input_gradients = _gradients(outputs, sources, None, True)
        gradients = _fill_all("vhp", input_gradients, sources, "the result", strict, True)
        second = _gradients(gradients, sources, vectors, create_graph)
        products = _fill_all("vhp", second, sources, "the gradient", strict, create_graph)
    return _detach(outputs[0], create_graph), _detach(products if several else products[0], create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """As `vhp`: the product of the Hessian with a vector, which is the same because a Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)


# ---------------------------------------------------------------------- inputs and outputs


def _as_sources(name: str, inputs: Any, create_graph: bool) -> tuple[bool, Tensors]:
    """Whether there are several inputs, and tensors of the same elements that require gradients of their own."""
    several, values = _as_tensors(name, inputs, "inputs")
    sources = []
    for value in values:
        if create_graph and value.requires_grad:
            sources.append(value.interpreter.clone(value))
        else:
            source = value.detach()
            source.requires_grad = True
            sources.append(source)
    return several, tuple(sources)


def _as_tensors(name: str, values: Any, what: str) -> tuple[bool, Tensors]:
    several = isinstance(values, tuple | list)
    tensors = tuple(values) if several else (values,)
    for k, value in enumerate(tensors):
        if not isinstance(value, Tensor):
            raise UsageError(f"{name}: expected {what} that are tensors, got {type(value).__name__} at position {k}")
    return several, tensors


def _call(name: str, func: Callable[..., Any], sources: Sequence[Tensor]) -> tuple[bool, Tensors]:
    return _as_tensors(name, func(*sources), "outputs of the function")


def _as_vectors(name: str, v: Any, like: Tensors, what: str) -> Tensors:
    if v is None:
        if len(like) != 1 or like[0].spec.size != 1:
            raise GradientError(f"{name}: the vector v may be left out where the {what} are one tensor of one element")
        return (like[0].interpreter.constant(np.ones(like[0].spec.shape, like[0].spec.dtype)),)
    _, vectors = _as_tensors(name, v, "vectors")
    if len(vectors) != len(like) or any(a.shape != b.shape for a, b in zip(vectors, like, strict=True)):
        raise GradientError(
            f"{name}: expected vectors of the shapes of the {what}, {', '.join(str(list(t.shape)) for t in like)}; got "
            f"{', '.join(str(list(t.shape)) for t in vectors)}"
        )
    return vectors


def _zeros_with_grad(out: Tensor) -> Tensor:
    zeros: Tensor = out.interpreter.zeros(out.spec)
    zeros.requires_grad = True
    return zeros


# ---------------------------------------------------------------------- gradients


def _gradients(
    outputs: Tensors, sources: Sequence[Tensor], seeds: Tensors | None, create_graph: bool
) -> Sequence[Tensor | None]:
    pairs = [(out, None if seeds is None else seeds[k]) for k, out in enumerate(outputs) if out.requires_grad]
    if not pairs:
        return [None] * len(sources)
    results, nonzero_seeds = zip(*pairs, strict=True)
    return grad(results, sources, nonzero_seeds, create_graph=create_graph, allow_unused=True)


def _fill_all(
    name: str, gradients: Sequence[Tensor | None], sources: Tensors, what: str, strict: bool, create_graph: bool
) -> Tensors:
    return tuple(
        _zeros_if_none(name, g, source, what, k, strict, create_graph)
        for k, (g, source) in enumerate(zip(gradients, sources, strict=True))
    )


def _zeros_if_none(
    name: str, gradient: Tensor | None, source: Tensor, what: str, position: int, strict: bool, create_graph: bool
) -> Tensor:
    """A gradient, zeros where there is none; an error where ``strict`` asks for a dependence."""
    if gradient is None:
        if strict:
            raise GradientError(f"{name}: {what} does not depend on input {position}; strict=False gives zeros")
        zeros: Tensor = source.interpreter.zeros(source.spec)
        return zeros
    if strict and create_graph and not gradient.requires_grad:
        raise GradientError(
            f"{name}: the gradient of {what} by input {position} does not depend on the inputs, so that its derivative "
            "is zero; strict=False gives zeros"
        )
    return gradient


def _check_dependence(name: str, out: Tensor, number: int, strict: bool) -> None:
    if strict and not out.requires_grad:
        raise GradientError(f"{name}: output {number} does not depend on the inputs; strict=False gives zeros")


def _check_scalar(name: str, outputs: Tensors) -> None:
    if len(outputs) != 1 or outputs[0].spec.size != 1:
        shapes = ", ".join(str(list(t.shape)) for t in outputs)
        raise GradientError(f"{name}: expected a function that gives one tensor of one element, got {shapes}")


def _check_strategy(name: str, strategy: str) -> None:
    if strategy != "reverse-mode":
        raise UsageError(f"{name}: the strategy is 'reverse-mode', not {strategy!r}: there is no forward mode")


def _detach(values: Any, create_graph: bool) -> Any:
    if create_graph and is_grad_enabled():
        return values
    return tuple(_detach(v, False) for v in values) if isinstance(values, tuple) else values.detach()
