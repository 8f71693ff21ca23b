"""Elementwise kernels: NumPy's ufuncs, told where to write; large arrays over several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.backends.core import Runner, kernel
from prototorch.backends.cpu.pool import parallel
from prototorch.spec import Spec

#: From this many elements on a kernel is worth the 20 microseconds that waking another thread costs.
BIG = 1 << 18
#: Elements a thread takes at a time when one pass is made over them.
PIECE = 1 << 16
#: Elements a thread takes at a time when several passes are made: three arrays of them stay in an L2 cache.
#: Larger blocks were faster up to here: a call of a ufunc costs as much as some thousand elements.
CHUNK = 1 << 15

UNARY: dict[str, Any] = {
    "negative": np.negative, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "square": np.square, "absolute": np.absolute, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "is_finite": np.isfinite,
    "logical_not": np.logical_not,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "not_equal": np.not_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
}  # fmt: skip


def known(*specs: Spec) -> bool:
    """Whether NumPy has the element types."""
    return all(s.dtype != "bfloat16" for s in specs)


def flat(body: Callable[..., None], size: int, chunk: int) -> Runner:
    """A runner for arrays that all have the same size: ``body(*inputs, *outputs)`` on pieces of them as vectors."""

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays = [a.reshape(-1) for a in (*inputs, *outputs)]
        parallel(lambda start, stop: body(*(a[start:stop] for a in arrays)), size, chunk)

    return run


def split_axis(shape: tuple[int, ...]) -> int:
    """The first axis that can be cut: outer pieces are whole stretches of memory."""
    return next((i for i, n in enumerate(shape) if n > 1), 0)


def spread(body: Callable[..., None], shapes: Sequence[tuple[int, ...]], out: tuple[int, ...], piece: int) -> Runner:
    """A runner for inputs that broadcast to the output's shape: ``body(*inputs, output)`` on pieces along one axis."""
    axis = split_axis(out)
    n = out[axis]
    row = max(int(np.prod(out, dtype=np.int64)) // n, 1)
    grain = max(piece // row, 1)
    lead = (slice(None),) * axis
    places = [axis - len(out) + len(s) for s in shapes]  # the axis of the input that is cut, if it has it
    cut = [p if p >= 0 and s[p] != 1 else -1 for p, s in zip(places, shapes, strict=True)]

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        target = outputs[0]

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            body(
                *(a[(slice(None),) * c + (part,)] if c >= 0 else a for a, c in zip(inputs, cut, strict=True)),
                target[(*lead, part)],
            )

        parallel(work, n, grain)

    return run


def elementwise(
    body: Callable[..., None], ins: Sequence[Spec], out: Spec, small: Runner, several: bool = False
) -> Runner:
    """The runner for an elementwise body: ``small`` for few elements, else pieces over threads.

    ``several``: the body makes several passes, so that its pieces should stay in the cache.
    """
    if out.size < BIG:
        return small
    piece = CHUNK if several else PIECE
    if all(s.shape == out.shape for s in ins):
        return flat(body, out.size, piece)
    return spread(body, [s.shape for s in ins], out.shape, piece)


def _enter(name: str, function: Any) -> None:
    binary = name in BINARY

    def one(x: Any, y: Any) -> None:
        function(x, out=y)

    def two(a: Any, b: Any, y: Any) -> None:
        function(a, b, out=y)

    def run_one(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        function(inputs[0], out=outputs[0])

    def run_two(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        function(inputs[0], inputs[1], out=outputs[0])

    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
        if not known(*ins):
            return None
        return elementwise(two if binary else one, ins, outs[0], run_two if binary else run_one)


for _name, _function in {**UNARY, **BINARY}.items():
    _enter(_name, _function)


def passes(body: Callable[..., None], ins: Sequence[Spec], out: Spec) -> Runner:
    """The runner for a body of several passes over arrays of one shape: in chunks that stay in the cache.

    ``body`` takes the inputs, then the outputs, as vectors; it may write an output before it has read all inputs only
    where that output is no input's memory.
    """
    if out.size <= CHUNK:
        return lambda inputs, outputs: body(*inputs, *outputs)
    return flat(body, out.size, CHUNK)


@kernel("numpy", "rsqrt")
def rsqrt(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """1 / sqrt(x), chunk by chunk."""
    if not known(*ins):
        return None

    def body(x: Any, y: Any) -> None:
        np.sqrt(x, out=y)
        np.divide(1, y, out=y)

    return passes(body, ins, outs[0])


@kernel("numpy", "where")
def where(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """The second choice everywhere, then the first where the condition holds."""
    if not known(*ins):
        return None

    def body(c: Any, a: Any, b: Any, y: Any) -> None:
        np.copyto(y, b)
        np.copyto(y, a, where=c)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        c, a, b = inputs
        body(c, a, b, outputs[0])

    return elementwise(body, ins, outs[0], run, several=True)


@kernel("numpy", "cast", "stop_gradient")
def cast(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """A copy into the output's type."""
    if not known(*ins, *outs):
        return None

    def body(x: Any, y: Any) -> None:
        np.copyto(y, x, casting="unsafe")

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        np.copyto(outputs[0], inputs[0], casting="unsafe")

    return elementwise(body, ins, outs[0], run)


@kernel("numpy", "full")
def full(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """One number everywhere."""
    if not known(*outs):
        return None
    value = np.full((), attrs["value"], outs[0].dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        outputs[0][...] = value

    return run
