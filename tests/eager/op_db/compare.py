"""One sample of PyTorch's op_db, run by PyTorch and here: values, element types, shapes, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import prototorch as pt
from prototorch.eager.functions.gradients import grad

TOLERANCES = {
    "float64": (1e-7, 1e-7), "float32": (1.3e-5, 1e-5), "float16": (1e-2, 1e-2), "bfloat16": (3e-2, 3e-2),
}  # fmt: skip


class UnsupportedSampleError(Exception):
    """A sample that is about what there is not here: complex numbers, layouts, devices."""


def to_ours(value: Any, leaves: list[tuple[Any, Any]] | None = None) -> Any:
    """An argument of PyTorch's as ours; tensors with a gradient are entered in ``leaves`` with ours."""
    if isinstance(value, torch.Tensor):
        if value.is_complex() or value.is_sparse or value.is_quantized or value.is_nested:
            raise UnsupportedSampleError(str(value.dtype))
        array = value.detach().float().numpy() if value.dtype == torch.bfloat16 else value.detach().numpy()
        made = pt.tensor(np.array(array), dtype=str(value.dtype).removeprefix("torch."))
        if value.requires_grad:
            made.requires_grad = True
            if leaves is not None:
                leaves.append((value, made))
        return made
    if isinstance(value, torch.dtype):
        name = str(value).removeprefix("torch.")
        if name.startswith(("complex", "q")):
            raise UnsupportedSampleError(name)
        return getattr(pt, name)
    if isinstance(value, torch.device):
        return pt.device(str(value))
    if isinstance(value, complex):
        raise UnsupportedSampleError("complex")
    if isinstance(value, torch.layout | torch.memory_format):
        if value in (torch.preserve_format, torch.contiguous_format, torch.strided):
            return value
        raise UnsupportedSampleError(str(value))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_ours(v, leaves) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(to_ours(v, leaves) for v in value)
    if isinstance(value, dict):
        return {k: to_ours(v, leaves) for k, v in value.items()}
    return value


def flat(value: Any) -> list[Any]:
    """The tensors and numbers of a result, in order."""
    if isinstance(value, list | tuple) and not all(isinstance(v, int) for v in value):
        return [v for part in value for v in flat(part)]
    return [value]


def assert_same(
    ours: Any, theirs: Any, what: str, exact_dtype: bool = True, factor: float = 1.0, rounding: int = 0
) -> None:
    """Values, shapes and element types of results are equal; integers differ by at most ``rounding``."""
    mine, reference = flat(ours), flat(theirs)
    assert len(mine) == len(reference), f"{what}: {len(mine)} results, expected {len(reference)}"
    for a, b in zip(mine, reference, strict=True):
        if not isinstance(b, torch.Tensor):
            equal = a == b or (a != a and b != b) or str(a) == str(b)
            assert equal or tuple(np.atleast_1d(a)) == tuple(np.atleast_1d(b)), f"{what}: {a!r}, expected {b!r}"
            continue
        dtype = str(b.dtype).removeprefix("torch.")
        assert isinstance(a, pt.Tensor), f"{what}: {type(a).__name__}, expected a tensor"
        assert tuple(a.shape) == tuple(b.shape), f"{what}: shape {tuple(a.shape)}, expected {tuple(b.shape)}"
        assert not exact_dtype or str(a.dtype) == dtype, f"{what}: {a.dtype}, expected {dtype}"
        rtol, atol = TOLERANCES.get(dtype, (0, rounding))
        got = np.asarray(a.detach().numpy()).astype("float64") if dtype in TOLERANCES else _numbers(a, rounding)
        want = b.detach().clone().double().numpy() if dtype in TOLERANCES else _numbers(b, rounding)
        np.testing.assert_allclose(got, want, rtol=rtol * factor, atol=atol * factor, equal_nan=True, err_msg=what)


def _numbers(value: Any, rounding: int) -> np.ndarray:
    return value.numpy().astype("int64") if rounding else value.numpy()


def describe(value: Any) -> str:
    """Arguments in short, for messages."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return ", ".join(f"{k}={describe(v)}" for k, v in value.items())
    return repr(value)[:60]


def run_sample(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    sample: Any,
    gradient: bool = False,
    factor: float = 1.0,
    rounding: int = 0,
) -> None:
    """Run a sample on both sides and compare. Raises UnsupportedSampleError for one that is not for us."""
    what = f"({describe(sample.input)}, {describe(sample.args)}, {describe(sample.kwargs)})"
    leaves: list[tuple[Any, Any]] = []
    input_, args, kwargs = (to_ours(v, leaves) for v in (sample.input, sample.args, sample.kwargs))
    expected = theirs(sample.input, *sample.args, **sample.kwargs)
    if any(isinstance(v, torch.Tensor) and v.is_complex() for v in flat(expected)):
        raise UnsupportedSampleError("a complex result")
    result = ours(input_, *args, **kwargs)
    output = sample.output_process_fn_grad
    expected, result = output(expected), output(result)
    assert_same(result, expected, what, factor=factor, rounding=rounding)
    if gradient:
        compare_gradients(result, expected, leaves, what, factor)


def compare_gradients(result: Any, expected: Any, leaves: list[tuple[Any, Any]], what: str, factor: float) -> None:
    """The gradients of a weighted sum of the results by all leaves."""
    pairs = [
        (a, b)
        for a, b in zip(flat(result), flat(expected), strict=True)
        if isinstance(b, torch.Tensor) and b.requires_grad
    ]
    for a, b in zip(flat(result), flat(expected), strict=True):
        if isinstance(b, torch.Tensor) and b.is_floating_point():
            assert b.requires_grad or not a.requires_grad, f"{what}: requires_grad is {a.requires_grad}"
    if not pairs or not leaves:
        return
    rng = np.random.default_rng(0)
    seeds = [rng.standard_normal(tuple(b.shape)) for _, b in pairs]
    want = torch.autograd.grad(
        [b for _, b in pairs],
        [t for t, _ in leaves],
        [torch.tensor(s, dtype=b.dtype) for s, (_, b) in zip(seeds, pairs, strict=True)],
        allow_unused=True,
    )
    outputs = [(a, pt.tensor(s, dtype=a.dtype)) for (a, _), s in zip(pairs, seeds, strict=True) if a.requires_grad]
    # a result that no gradient flows through here must have zero gradients there
    got = [None] * len(leaves)
    if outputs:
        got = list(grad([a for a, _ in outputs], [m for _, m in leaves], [s for _, s in outputs], allow_unused=True))
    for a, b, (leaf, _) in zip(got, want, leaves, strict=True):
        zero = torch.zeros_like(leaf)
        mine = a if a is not None else to_ours(zero)
        assert_same(mine, zero if b is None else b, f"gradient of {what}", factor=factor)
