"""Activation kernels: rectifiers by hand, the others by their plain bodies on chunks that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.backends.core import Runner, kernel
from prototorch.backends.cpu import numpy_elementwise as elementwise
from prototorch.backends.cpu.numpy_elementwise import known
from prototorch.backends.cpu.pool import parallel, scratch
from prototorch.ops import activation
from prototorch.ops.core import Op
from prototorch.spec import Spec

#: Elements of a chunk whose body is said in other ops: enough to hide what interpreting them costs.
_COMPOSITE_CHUNK = 1 << 15

_ZEROS = {name: np.zeros(elementwise.CHUNK, name) for name in ("float32", "float64")}


@kernel("numpy", "relu")
def relu(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """max(x, 0) with a vector of zeros: three times as fast as with one zero."""
    x = ins[0]
    zeros = _ZEROS.get(x.dtype)
    if zeros is None:
        return None
    if x.size <= len(zeros):
        zeros = zeros[: x.size].reshape(x.shape)

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            np.maximum(inputs[0], zeros, out=outputs[0])

        return run

    def body(v: Any, y: Any) -> None:
        for start in range(0, len(v), len(zeros)):
            part = v[start : start + len(zeros)]
            np.maximum(part, zeros[: len(part)], out=y[start : start + len(zeros)])

    return elementwise.flat(body, x.size, x.size if x.size < elementwise.BIG else elementwise.PIECE)


@kernel("numpy", "relu_grad")
def relu_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """g times whether the output is above 0."""
    if not known(*ins) or ins[0].shape != ins[1].shape:
        return None

    def body(g: Any, v: Any, y: Any) -> None:
        (above,) = scratch((v.shape, "bool"))
        np.greater(v, 0, out=above)
        np.multiply(g, above, out=y)

    return elementwise.passes(body, ins, outs[0])


@kernel("numpy", "relu6_grad")
def relu6_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """g times whether the output is above 0 and below 6."""
    if not known(*ins):
        return None

    def body(g: Any, v: Any, y: Any) -> None:
        above, below = scratch((v.shape, "bool"), (v.shape, "bool"))
        np.greater(v, 0, out=above)
        np.less(v, 6, out=below)
        np.logical_and(above, below, out=above)
        np.multiply(g, above, out=y)

    return elementwise.passes(body, ins, outs[0])


@kernel("numpy", "sigmoid")
def sigmoid(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
    """1 / (1 + exp(-x)): where the exponential overflows, the result is the 0 that it should be."""
    if ins[0].dtype not in ("float32", "float64"):
        return None

    def body(x: Any, y: Any) -> None:
        np.negative(x, out=y)
        np.exp(y, out=y)
        np.add(y, 1, out=y)
        np.divide(1, y, out=y)

    return elementwise.passes(body, ins, outs[0])


def _enter(op: Op) -> None:
    @kernel("numpy", op.name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Runner | None:
        size = outs[0].size
        if not known(*ins) or any(s.size != size for s in ins):
            return None
        chunk = _COMPOSITE_CHUNK if op.composite and type(op).plain is Op.plain else elementwise.CHUNK

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            arrays = [a.reshape(-1) for a in inputs]
            out = outputs[0].reshape(-1)

            def work(start: int, stop: int) -> None:
                out[start:stop] = op.plain(np, *(a[start:stop] for a in arrays), **attrs)

            parallel(work, size, chunk)

        return run


BY_HAND = ("relu", "relu_grad", "relu6_grad", "sigmoid")
for _op in [v for v in vars(activation).values() if isinstance(v, Op)]:
    if type(_op).__module__ == activation.__name__ and _op.inplace == {0: 0} and _op.name not in BY_HAND:
        _enter(_op)
_enter(activation.erf)
