"""Elementwise kernels: NumPy's ufuncs with given outputs; large arrays are split over several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

#: Minimum size for which waking another thread, 20 microseconds, pays off.
PARALLEL_MIN_SIZE = 1 << 18
#: Elements that a thread processes at a time in a single pass.
TASK_SIZE = 1 << 16
#: Elements that a thread processes at a time in several passes: three arrays of this size stay in an L2 cache. Smaller
#: ones are slower, because a call of a ufunc costs as much as some thousand elements.
CHUNK_SIZE = 1 << 15

UNARY: dict[str, Any] = {
    "negative": np.negative, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "square": np.square, "abs": np.absolute, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "is_finite": np.isfinite,
    "logical_not": np.logical_not, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "log2": np.log2,
    "log10": np.log10, "exp2": np.exp2, "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
    "signbit": np.signbit,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "not_equal": np.not_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign,
    "nextafter": np.nextafter, "fmod": np.fmod,
}  # fmt: skip
#: of integers and bool alone
BITWISE: dict[str, Any] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
}


def has_numpy_dtypes(*specs: Spec) -> bool:
    """Whether NumPy supports the dtypes."""
    return all(s.dtype != "bfloat16" for s in specs)


def make_flat_kernel(body: Callable[..., None], size: int, chunk: int) -> KernelFn:
    """A kernel for arrays that all have the same size: ``body(*inputs, *outputs)`` on pieces of them as vectors."""

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays = [a.reshape(-1) for a in (*inputs, *outputs)]
        parallel_for(lambda start, stop: body(*(a[start:stop] for a in arrays)), size, chunk)

    return run


def first_splittable_axis(shape: tuple[int, ...]) -> int:
    """The first axis of more than one element: pieces along it are contiguous."""
    return next((i for i, n in enumerate(shape) if n > 1), 0)


def make_broadcast_kernel(
    body: Callable[..., None], shapes: Sequence[tuple[int, ...]], out: tuple[int, ...], piece: int
) -> KernelFn:
    """A kernel for inputs that broadcast to the output's shape: ``body(*inputs, output)`` on pieces along one axis."""
    axis = first_splittable_axis(out)
    n = out[axis]
    row = max(int(np.prod(out, dtype=np.int64)) // n, 1)
    grain = max(piece // row, 1)
    lead = (slice(None),) * axis
    split_axes = [axis - len(out) + len(s) for s in shapes]  # the axis of the input that is split, if it has it
    split_axis_of = [p if p >= 0 and s[p] != 1 else -1 for p, s in zip(split_axes, shapes, strict=True)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        target = outputs[0]

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            body(
                *(a[(slice(None),) * c + (part,)] if c >= 0 else a for a, c in zip(inputs, split_axis_of, strict=True)),
                target[(*lead, part)],
            )

        parallel_for(work, n, grain)

    return run


def make_elementwise_kernel(
    body: Callable[..., None], ins: Sequence[Spec], out: Spec, small: KernelFn, several: bool = False
) -> KernelFn:
    """A kernel for an elementwise body: ``small`` for few elements, else pieces on several threads.

    ``several``: the body takes several passes, so that its pieces should stay in the cache.
    """
    if out.size < PARALLEL_MIN_SIZE:
        return small
    piece = CHUNK_SIZE if several else TASK_SIZE
    if all(s.shape == out.shape for s in ins):
        return make_flat_kernel(body, out.size, piece)
    return make_broadcast_kernel(body, [s.shape for s in ins], out.shape, piece)


def _register(name: str, function: Any) -> None:
    binary = function.nin == 2

    def one(x: Any, y: Any) -> None:
        function(x, out=y)

    def two(a: Any, b: Any, y: Any) -> None:
        function(a, b, out=y)

    def run_one(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        function(inputs[0], out=outputs[0])

    def run_two(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        function(inputs[0], inputs[1], out=outputs[0])

    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        if not has_numpy_dtypes(*ins):
            return None
        return make_elementwise_kernel(two if binary else one, ins, outs[0], run_two if binary else run_one)


for _name, _function in {**UNARY, **BINARY, **BITWISE}.items():
    _register(_name, _function)


def make_chunked_kernel(body: Callable[..., None], ins: Sequence[Spec], out: Spec) -> KernelFn:
    """A kernel for a body of several passes over arrays of one shape: in chunks that stay in the cache.

    ``body`` takes the inputs, then the outputs, as vectors; it may write an output before it has read all inputs only
    where that output is no input's memory.
    """
    if out.size <= CHUNK_SIZE:
        return lambda inputs, outputs: body(*inputs, *outputs)
    return make_flat_kernel(body, out.size, CHUNK_SIZE)


@kernel("numpy", "where")
def where(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The second operand, overwritten by the first where the condition holds."""
    if not has_numpy_dtypes(*ins):
        return None

    def body(c: Any, a: Any, b: Any, y: Any) -> None:
        np.copyto(y, b)
        np.copyto(y, a, where=c)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        c, a, b = inputs
        body(c, a, b, outputs[0])

    return make_elementwise_kernel(body, ins, outs[0], run, several=True)


@kernel("numpy", "cast")
def cast(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """A copy into the output's dtype."""
    if not has_numpy_dtypes(*ins, *outs):
        return None

    def body(x: Any, y: Any) -> None:
        np.copyto(y, x, casting="unsafe")

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.copyto(outputs[0], inputs[0], casting="unsafe")

    return make_elementwise_kernel(body, ins, outs[0], run)


@kernel("numpy", "full")
def full(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The output filled with one value."""
    if not has_numpy_dtypes(*outs):
        return None
    value = np.full((), attrs["value"], outs[0].dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        outputs[0][...] = value

    return run
