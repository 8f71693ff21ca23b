"""Matrix products: of two matrices as convolutions of 1x1, whose engines are precompiled and may be captured; batches
of them by cuDNN's matmul; what cuDNN does not take by the kernel of our own.

A matrix [m, k] is a picture [m, k, 1, 1]. y = a b is the adjoint of a convolution by its input, a b^T the convolution
itself, a^T b its adjoint by the weights: no operand has to be turned.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.core import Runner, fusable, kernel
from prototorch.backends.cuda.cudnn.request import Port, Request
from prototorch.backends.cuda.cudnn.runner import planned
from prototorch.backends.cuda.kernels.epilogue import after
from prototorch.backends.cuda.kernels.launch import In, Out
from prototorch.backends.cuda.kernels.matmul import tiled
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_ONE = (("strides", (1, 1)), ("pads", ((0, 0), (0, 0))), ("dilation", (1, 1)))


def _picture(rows: int, columns: int, dtype: str) -> Port:
    return Port((rows, columns, 1, 1), (columns, 1, columns, columns), dtype)


@kernel("cuda", "matmul")
def matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """The product over the last two axes."""
    if any(s.layout or not s.size for s in (*ins, *outs)) or len({s.dtype for s in (*ins, *outs)}) > 1:
        return None
    if ins[0].dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    made = _flat(ins, outs, attrs) or _batched(ins, outs, attrs)
    return made if made is not None else tiled(ins, outs, attrs)


def _flat(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """Where one matrix stands on the right (or both are matrices), as a convolution."""
    a, b = ins
    kind = a.dtype
    turned_a, turned_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    if b.ndim != 2 or kind == "float64" or (turned_a and (a.ndim != 2 or turned_b)):
        return None
    if turned_a:
        k, m = a.shape
        n = b.shape[1]
        ports = (("x", _picture(k, n, kind)), ("g", _picture(k, m, kind)), ("dw", _picture(m, n, kind)))
        return planned(Request("conv_weight_grad", ports, ("dw",), _ONE), ins, {"g": In(0), "x": In(1), "dw": Out(0)})
    m, k = prod(a.shape[:-1]), a.shape[-1]
    if turned_b:
        n = b.shape[0]
        ports = (("x", _picture(m, k, kind)), ("w", _picture(n, k, kind)), ("y", _picture(m, n, kind)))
        return planned(Request("conv", ports, ("y",), _ONE), ins, {"x": In(0), "w": In(1), "y": Out(0)})
    n = b.shape[1]
    ports = (("g", _picture(m, k, kind)), ("w", _picture(k, n, kind)), ("dx", _picture(m, n, kind)))
    return planned(Request("conv_input_grad", ports, ("dx",), _ONE), ins, {"g": In(0), "w": In(1), "dx": Out(0)})


def _batched(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """Batches of matrices, one of which may stand for all."""
    a, b = ins
    batch = outs[0].shape[:-2]
    if any(s.shape[:-2] != batch and prod(s.shape[:-2]) != 1 for s in ins) or a.dtype == "float64":
        return None

    def matrices(spec: Spec, turned: bool) -> Port:
        many = prod(spec.shape[:-2])
        rows, columns = spec.shape[-2:]
        if turned:
            return Port((many, columns, rows), (rows * columns, 1, columns), spec.dtype)
        return Port((many, rows, columns), (rows * columns, columns, 1), spec.dtype)

    ports = (
        ("a", matrices(a, attrs.get("transpose_a", False))),
        ("b", matrices(b, attrs.get("transpose_b", False))),
        ("y", matrices(outs[0], False)),
    )
    return planned(Request("matmul", ports, ("y",)), ins, {"a": In(0), "b": In(1), "y": Out(0)})


@kernel("cuda", "fused")
def fused(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """A product, then a sweep over its result."""
    name, refs, given = attrs["program"][0]
    if name != "matmul" or any(r[0] != "in" for r in refs):
        return None
    operands, y = tuple(ins[r[1]] for r in refs), outs[0]
    rest = after(attrs, ins, outs, Spec(y.shape, operands[0].dtype))
    anchor = None if rest is None else matmul(operands, (rest.result,), dict(given))
    return None if rest is None or anchor is None else rest.runner(anchor, [r[1] for r in refs])


fusable("cuda", "anchor", "matmul")
