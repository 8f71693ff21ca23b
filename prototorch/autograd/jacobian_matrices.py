"""Jacobian matrices of a function of tensors, by finite differences and by its gradients, for `gradcheck`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.eager.functions.gradients import grad
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.tensor import Tensor

__all__ = ["analytical_matrices", "differentiable_outputs", "differentiable_positions", "numerical_matrices"]

Matrices = list[list[np.ndarray]]


def differentiable_positions(args: Sequence[Any]) -> list[int]:
    """The positions of the arguments that require a gradient."""
    return [k for k, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]


def differentiable_outputs(result: Any) -> tuple[Tensor, ...]:
    """The outputs that require a gradient, of a tensor or a sequence."""
    results = (result,) if isinstance(result, Tensor) else tuple(result)
    return tuple(r for r in results if isinstance(r, Tensor) and r.requires_grad)


def _float_outputs(result: Any) -> list[np.ndarray]:
    results = (result,) if isinstance(result, Tensor) else tuple(result)
    return [np.array(r.numpy(), dtype=np.float64) for r in results if isinstance(r, Tensor) and r.spec.is_float]


def numerical_matrices(
    func: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int], eps: float
) -> Matrices:
    """By output and input, a matrix [elements of the input, elements of the output] of central differences.

    Of an output that does not require a gradient there is none, unless none does. The elements of the arguments
    change while it runs.
    """
    with enable_grad():
        result = func(*args)
    results = [r for r in ((result,) if isinstance(result, Tensor) else tuple(result)) if isinstance(r, Tensor)]
    floats = [r for r in results if r.spec.is_float]
    outputs = [i for i, r in enumerate(floats) if r.requires_grad] or list(range(len(floats)))
    matrices: Matrices = [[] for _ in outputs]
    for k in positions:
        columns = [_differences(func, args, k, index, eps) for index in np.ndindex(args[k].spec.shape)]
        for row, i in enumerate(outputs):
            size = floats[i].spec.size
            matrices[row].append(np.array([c[i].reshape(-1) for c in columns]).reshape(args[k].spec.size, size))
    return matrices


def _differences(
    func: Callable[..., Any], args: tuple[Any, ...], position: int, index: tuple[int, ...], eps: float
) -> list[np.ndarray]:
    """(f(x + eps) - f(x - eps)) / 2 eps of each output, for one element of one argument."""
    tensor = args[position]
    before = np.array(tensor.numpy())
    sides = []
    try:
        for step in (eps, -eps):
            moved = before.copy()
            moved[index] += step
            tensor.interpreter.write(tensor.data, tensor.interpreter.constant(moved))
            with enable_grad():
                sides.append(_float_outputs(func(*args)))
    finally:
        tensor.interpreter.write(tensor.data, tensor.interpreter.constant(before))
    return [(up - down) / (2 * eps) for up, down in zip(*sides, strict=True)]


def analytical_matrices(
    func: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int], dtypes: bool, error: type[Exception]
) -> Matrices:
    """As `numerical_matrices`, by the gradients of the outputs' elements, one output at a time.

    dtypes: whether a gradient of another dtype than its input's is an error; one of another shape always is.
    """
    with enable_grad():
        outputs = differentiable_outputs(func(*args))
    targets = [args[k] for k in positions]
    matrices = []
    for out in outputs:
        rows = [np.zeros((t.spec.size, out.spec.size)) for t in targets]
        for n in range(out.spec.size):
            seed = np.zeros(out.spec.size, out.spec.dtype)
            seed[n] = 1
            gradients = grad(
                [out],
                targets,
                [out.interpreter.constant(seed.reshape(out.spec.shape))],
                retain_graph=True,
                allow_unused=True,
            )
            for matrix, g, k, t in zip(rows, gradients, positions, targets, strict=True):
                if g is None:
                    continue
                if dtypes and g.spec.dtype != t.spec.dtype:
                    raise error(f"the gradient of input {k} is {g.spec.dtype}, and the input {t.spec.dtype}")
                matrix[:, n] = g.numpy().reshape(-1)
        matrices.append(rows)
    return matrices
