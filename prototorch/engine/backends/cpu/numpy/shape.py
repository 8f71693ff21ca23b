"""Kernels that move elements: copies into the outputs, large ones on several threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy import elementwise as elementwise
from prototorch.engine.backends.cpu.numpy.elementwise import first_splittable_axis, has_numpy_dtypes
from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

_CACHE_LINE = 16  # elements of a cache line: a transposing copy writes whole lines


def copy_in_parallel(source: Any, target: Any) -> None:
    """target[...] = source, split along the first axis of the target with more than one element, on several threads."""
    if target.size < elementwise.PARALLEL_MIN_SIZE:
        np.copyto(target, source)
        return
    axis = first_splittable_axis(target.shape)
    lead = (slice(None),) * axis
    n = target.shape[axis]
    grain = max(elementwise.TASK_SIZE * n // target.size, 1)

    def work(start: int, stop: int) -> None:
        part = (*lead, slice(start, stop))
        np.copyto(target[part], source[part])

    parallel_for(work, n, grain)


@kernel("numpy", "transpose")
def transpose(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A copy of the view; where the last axis moves, stripe by stripe, each as wide as a cache line."""
    if not has_numpy_dtypes(*ins):
        return None
    order, out = attrs["order"], outs[0]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        copy_in_parallel(inputs[0].transpose(order), outputs[0])

    if not order or order[-1] == len(order) - 1 or out.size < elementwise.CHUNK_SIZE or out.shape[-1] < 2 * _CACHE_LINE:
        return run
    n = out.shape[-1]
    grain = (
        n
        if out.size < elementwise.PARALLEL_MIN_SIZE
        else max(elementwise.TASK_SIZE * n // out.size // _CACHE_LINE, 1) * _CACHE_LINE
    )

    def run_by_stripes(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        source, target = inputs[0].transpose(order), outputs[0]

        def work(start: int, stop: int) -> None:
            for i in range(start, stop, _CACHE_LINE):
                end = min(i + _CACHE_LINE, stop)
                np.copyto(target[..., i:end], source[..., i:end])

        parallel_for(work, n, grain)

    return run_by_stripes


@kernel("numpy", "concat")
def concat(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Each input copied to its slice of the output."""
    if not has_numpy_dtypes(*ins):
        return None
    (axis,) = normalize_axes(attrs["axis"], outs[0].ndim)
    lead = (slice(None),) * axis
    positions, at = [], 0
    for s in ins:
        positions.append((*lead, slice(at, at + s.shape[axis])))
        at += s.shape[axis]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        out = outputs[0]
        for position, source in zip(positions, inputs, strict=True):
            copy_in_parallel(source, out[position])

    return run


def _slices(attrs: dict[str, Any]) -> tuple[slice, ...]:
    return tuple(map(slice, attrs["start"], attrs["stop"], attrs["step"]))


@kernel("numpy", "slice")
def slice_(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A copy of the part."""
    key = _slices(attrs)
    return (lambda inputs, outputs: copy_in_parallel(inputs[0][key], outputs[0])) if has_numpy_dtypes(*ins) else None


@kernel("numpy", "slice_grad")
def slice_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Zeros, and the input at its positions."""
    key = _slices(attrs)
    return _make_framed(key, 0) if has_numpy_dtypes(*ins) else None


def _make_framed(key: tuple[slice, ...], value: float) -> KernelFn:
    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        out = outputs[0]
        out.fill(value)
        copy_in_parallel(inputs[0], out[key])

    return run


@kernel("numpy", "pad")
def pad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The border filled with a constant; other modes are left to the reference implementation."""
    if not has_numpy_dtypes(*ins) or attrs.get("mode", "constant") != "constant":
        return None
    x = ins[0]
    value = np.full((), attrs.get("value", 0.0), x.dtype).item()
    return _make_framed(tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, attrs["pads"], strict=True)), value)


@kernel("numpy", "static_gather")
def gather(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Elements at constant positions of an axis."""
    if not has_numpy_dtypes(*ins) or not ins[0].size:
        return None
    (axis,) = normalize_axes(attrs["axis"], ins[0].ndim)
    positions = np.asarray(attrs["indices"], np.int64)
    if any(not -ins[0].shape[axis] <= i < ins[0].shape[axis] for i in attrs["indices"]):
        return None  # the reference implementation raises the error

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.take(inputs[0], positions, axis=axis, out=outputs[0], mode="wrap")

    return run
