"""Calls on tensors of the GPU beside the same calls on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import prototorch as pt
from prototorch.compiler.signature import collect_tensors, map_tensors
from prototorch.eager.functions.gradients import grad
from prototorch.eager.tensor import Tensor

#: relative and absolute, of the largest element; reference implementations on CuPy take sums in another order
TOLERANCES = {"float64": (1e-6, 1e-6), "float32": (1e-3, 1e-4), "float16": (2e-2, 2e-2), "bfloat16": (5e-2, 5e-2)}


def to_gpu(value: Any) -> Any:
    """The arguments of a call, (args, options), with tensors on the GPU, as leaves, and with the GPU for a device."""

    def move(tensor: Tensor) -> Tensor:
        made = tensor.detach().to("cuda")
        made.requires_grad = tensor.requires_grad
        return made

    args, options = map_tensors(value, move)
    return tuple(map(_on_gpu, args)), {name: _on_gpu(a) for name, a in options.items()}


def _on_gpu(value: Any) -> Any:
    return pt.device("cuda") if isinstance(value, pt.device | str) and str(value) == "cpu" else value


def assert_same(found: Any, expected: Any) -> None:
    """A result of the GPU and one of the CPU: tensors on their device, of one type and shape, with equal elements."""
    ours, theirs = collect_tensors(found), collect_tensors(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.device.type == "cuda"
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        x, y = a.cpu().numpy(), b.numpy()
        if b.spec.dtype not in TOLERANCES:
            np.testing.assert_array_equal(x, y)
            continue
        rtol, atol = TOLERANCES[b.spec.dtype]
        x, y = x.astype(np.float64), y.astype(np.float64)
        largest = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol * largest)


def assert_same_call(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], gradient: bool = False
) -> None:
    """The call gives the same on the GPU as on the CPU, and with ``gradient`` the gradients of its leaves."""
    results, gradients = [], []
    for arguments in ((args, options), to_gpu((args, options))):
        leaves = [t for t in collect_tensors(arguments) if t.requires_grad]
        pt.manual_seed(0)
        result = function(*arguments[0], **arguments[1])
        results.append(result)
        outputs = [t for t in collect_tensors(result) if t.requires_grad]
        if gradient and leaves and outputs:
            total = sum((t * t).sum() if t.shape else t * t for t in outputs)
            gradients.append([g for g in grad(total, leaves, allow_unused=True) if g is not None])
    assert_same(results[1], results[0])
    if gradients:
        assert_same(gradients[1], gradients[0])
