"""Checks of gradients against finite differences (PyTorch's autograd.gradcheck and gradgradcheck).

x = pt.randn(3, dtype=pt.float64, requires_grad=True)
pt.autograd.gradcheck(lambda x: x.sin() * x, (x,))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.autograd.jacobian_matrices import (
    analytical_matrices,
    differentiable_outputs,
    differentiable_positions,
    numerical_matrices,
)
from prototorch.eager.functions.gradients import grad
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError, warn_user

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(GradientError):
    """A gradient that differs from the finite differences, or is no function of its inputs."""


class _Tolerances(NamedTuple):
    eps: float
    atol: float
    rtol: float
    nondet_tol: float


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of a function with central finite differences.

    func: a function of tensors that gives a tensor or several. inputs: a tensor or a tuple; those that require a
    gradient are checked, and should be float64. eps: the step of the differences. atol, rtol: the largest difference,
    absolute and relative to the finite difference. raise_exception: whether a difference is an error, else the result
    is False. nondet_tol: the largest difference between two evaluations of the same gradient. check_undefined_grad:
    whether the gradient of an output may be missing; each output is differentiated alone, so it always may.
    check_grad_dtypes: whether a gradient must have its input's dtype. fast_mode: one random projection of the Jacobian
    instead of all of its elements.

    Gives True. Raises GradcheckError with both matrices where they differ, and UsageError for
    checks that do not exist here (forward mode, batched gradients, masked sparse tensors).
    """
    _refuse(
        "gradcheck",
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
        masked=masked,
    )
    if not check_backward_ad:
        raise UsageError("gradcheck: there is no forward mode, so that check_backward_ad=False would check nothing")
    args = as_inputs(inputs)
    limits = _Tolerances(eps, atol, rtol, nondet_tol)
    try:
        return _check(func, args, limits, fast_mode, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of a function's gradients with finite differences; see `gradcheck`.

    grad_outputs: the gradients of the outputs, a tensor or a tuple; None draws them at random.
    gen_non_contig_grad_outputs: draw them so that their elements are not adjacent in memory.
    """
    _refuse(
        "gradgradcheck", check_batched_grad=check_batched_grad, check_fwd_over_rev=check_fwd_over_rev, masked=masked
    )
    if not check_rev_over_rev:
        raise UsageError(
            "gradgradcheck: there is no forward mode, so that check_rev_over_rev=False would check nothing"
        )
    args = as_inputs(inputs)
    with enable_grad():
        outputs = differentiable_outputs(func(*args))
    if not outputs:
        return _fail("gradgradcheck: no output of the function requires a gradient", raise_exception)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = tuple(_random_seed(rng, out, gen_non_contig_grad_outputs) for out in outputs)
    else:
        seeds = as_inputs(grad_outputs)
        if len(seeds) != len(outputs):
            raise UsageError(f"gradgradcheck: {len(seeds)} grad_outputs for {len(outputs)} outputs")
    count = len(args)

    def gradients_of(*values: Tensor) -> tuple[Tensor, ...]:
        results = differentiable_outputs(func(*values[:count]))
        sources = [v for v in values[:count] if isinstance(v, Tensor) and v.requires_grad]
        gradients = grad(results, sources, values[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in gradients if g is not None)

    return gradcheck(
        gradients_of,
        (*args, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        fast_mode=fast_mode,
    )


def as_inputs(inputs: Any) -> tuple[Any, ...]:
    """The arguments of a checked function, from a tensor or a sequence."""
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def _refuse(name: str, **checks: Any) -> None:
    for argument, value in checks.items():
        if value:
            raise UsageError(
                f"{name}: {argument}={value!r} is not possible: there are no forward mode, no batched gradients and no "
                "sparse tensors; leave it out"
            )


def _random_seed(rng: np.random.Generator, out: Tensor, strided: bool) -> Tensor:
    shape = out.spec.shape
    values = rng.standard_normal((*shape, 2) if strided else shape).astype(out.spec.dtype)
    seed: Tensor = out.interpreter.constant(values)
    if strided:
        seed = seed[..., 0].detach()
    seed.requires_grad = True
    return seed


def _fail(message: str, raise_exception: bool) -> bool:
    if raise_exception:
        raise GradcheckError(message)
    return False


def _check(func: Callable[..., Any], args: tuple[Any, ...], limits: _Tolerances, fast: bool, dtypes: bool) -> bool:
    positions = differentiable_positions(args)
    if not positions:
        raise UsageError("gradcheck: no input requires a gradient; set requires_grad=True for those to check")
    for k in positions:
        if args[k].spec.dtype != "float64":
            warn_user(
                f"gradcheck: input {k} is {args[k].spec.dtype}, for which finite differences are too inexact with the "
                "default eps and tolerances; use float64",
                UserWarning,
            )
        if args[k].is_overlapping():
            raise UsageError(f"gradcheck: several elements of input {k} share one memory location (after expand)")
    with enable_grad():
        outputs = differentiable_outputs(func(*args))
    numerical = numerical_matrices(func, args, positions, limits.eps)
    if not outputs:
        if any(np.any(np.abs(m) > limits.atol) for row in numerical for m in row):
            raise GradcheckError("gradcheck: no output requires a gradient, yet the outputs change with the inputs")
        return True
    first = analytical_matrices(func, args, positions, dtypes, GradcheckError)
    second = analytical_matrices(func, args, positions, False, GradcheckError)
    _check_zero_seed(func, args, positions)
    rng = np.random.default_rng(0)
    for o, row in enumerate(numerical):
        for column, k in enumerate(positions):
            expected, value, again = row[column], first[o][column], second[o][column]
            if value.size and np.max(np.abs(value - again)) > limits.nondet_tol:
                raise GradcheckError(
                    f"gradcheck: two evaluations of the gradient of output {o} by input {k} differ by "
                    f"{np.max(np.abs(value - again)):.3g}, more than nondet_tol={limits.nondet_tol}"
                )
            if fast:
                left, right = rng.standard_normal(expected.shape[0]), rng.standard_normal(expected.shape[1])
                expected, value = left @ expected @ right, left @ value @ right
            _compare(value, expected, o, k, limits)
    return True


def _compare(gradient: Any, expected: Any, output: int, position: int, limits: _Tolerances) -> None:
    if np.allclose(gradient, expected, rtol=limits.rtol, atol=limits.atol, equal_nan=True):
        return
    raise GradcheckError(
        f"the gradient of output {output} by input {position} differs from the finite differences (rows: elements of "
        f"the input, columns: of the output)\nfinite differences:\n{np.asarray(expected)}\ngradient:\n"
        f"{np.asarray(gradient)}"
    )


def _check_zero_seed(func: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int]) -> None:
    """A gradient is linear in that of the output: of zeros it is zero."""
    with enable_grad():
        outputs = differentiable_outputs(func(*args))
    zeros = [out.interpreter.zeros(out.spec) for out in outputs]
    for k, g in zip(positions, grad(outputs, [args[k] for k in positions], zeros, allow_unused=True), strict=True):
        if g is not None and np.any(np.nan_to_num(g.numpy()) != 0):
            raise GradcheckError(
                f"gradcheck: the gradient of input {k} is not zero where those of all outputs are: the backward "
                "function does not multiply by the gradient that it is given"
            )
