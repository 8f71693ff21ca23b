"""Matrix products: of two matrices as convolutions of 1x1, whose engines are precompiled and may be captured; batches
of them by cuDNN's matmul; what cuDNN does not take by the kernel of our own.

A matrix [m, k] is a picture [m, k, 1, 1]. y = a b is the adjoint of a convolution by its input, a b^T the convolution
itself, a^T b its adjoint by the weights: no operand has to be turned.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.capabilities import register_fusion_role
from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.backends.cuda.cudnn.graph_kernel import make_graph_kernel
from prototorch.backends.cuda.kernels.epilogue import build_epilogue
from prototorch.backends.cuda.kernels.launch import InputArg, OutputArg
from prototorch.backends.cuda.kernels.matmul import tiled_matmul
from prototorch.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_CONV_1X1 = (("strides", (1, 1)), ("pads", ((0, 0), (0, 0))), ("dilation", (1, 1)))


def _matrix_desc(rows: int, columns: int, dtype: str) -> TensorDesc:
    return TensorDesc((rows, columns, 1, 1), (columns, 1, columns, columns), dtype)


@kernel("cuda", "matmul")
def matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The product over the last two axes."""
    if any(s.layout or not s.size for s in (*ins, *outs)) or len({s.dtype for s in (*ins, *outs)}) > 1:
        return None
    if ins[0].dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    made = _matmul_as_conv(ins, outs, attrs) or _batched_matmul(ins, outs, attrs)
    return made if made is not None else tiled_matmul(ins, outs, attrs)


def _matmul_as_conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """Where one matrix stands on the right (or both are matrices), as a convolution."""
    a, b = ins
    kind = a.dtype
    turned_a, turned_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    if b.ndim != 2 or kind == "float64" or (turned_a and (a.ndim != 2 or turned_b)):
        return None
    if turned_a:
        k, m = a.shape
        n = b.shape[1]
        ports = (("x", _matrix_desc(k, n, kind)), ("g", _matrix_desc(k, m, kind)), ("dw", _matrix_desc(m, n, kind)))
        return make_graph_kernel(
            GraphDesc("conv_weight_grad", ports, ("dw",), _CONV_1X1),
            ins,
            {"g": InputArg(0), "x": InputArg(1), "dw": OutputArg(0)},
        )
    m, k = prod(a.shape[:-1]), a.shape[-1]
    if turned_b:
        n = b.shape[0]
        ports = (("x", _matrix_desc(m, k, kind)), ("w", _matrix_desc(n, k, kind)), ("y", _matrix_desc(m, n, kind)))
        return make_graph_kernel(
            GraphDesc("conv", ports, ("y",), _CONV_1X1), ins, {"x": InputArg(0), "w": InputArg(1), "y": OutputArg(0)}
        )
    n = b.shape[1]
    ports = (("g", _matrix_desc(m, k, kind)), ("w", _matrix_desc(k, n, kind)), ("dx", _matrix_desc(m, n, kind)))
    return make_graph_kernel(
        GraphDesc("conv_input_grad", ports, ("dx",), _CONV_1X1),
        ins,
        {"g": InputArg(0), "w": InputArg(1), "dx": OutputArg(0)},
    )


def _batched_matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """Batches of matrices, one of which may stand for all."""
    a, b = ins
    batch = outs[0].shape[:-2]
    if any(s.shape[:-2] != batch and prod(s.shape[:-2]) != 1 for s in ins) or a.dtype == "float64":
        return None

    def matrices(spec: Spec, turned: bool) -> TensorDesc:
        many = prod(spec.shape[:-2])
        rows, columns = spec.shape[-2:]
        if turned:
            return TensorDesc((many, columns, rows), (rows * columns, 1, columns), spec.dtype)
        return TensorDesc((many, rows, columns), (rows * columns, columns, 1), spec.dtype)

    ports = (
        ("a", matrices(a, attrs.get("transpose_a", False))),
        ("b", matrices(b, attrs.get("transpose_b", False))),
        ("y", matrices(outs[0], False)),
    )
    return make_graph_kernel(
        GraphDesc("matmul", ports, ("y",)), ins, {"a": InputArg(0), "b": InputArg(1), "y": OutputArg(0)}
    )


@kernel("cuda", "fused")
def fused_matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """A product, then a sweep over its result."""
    name, refs, given = attrs["program"][0]
    if name != "matmul" or any(r[0] != "in" for r in refs):
        return None
    operands, y = tuple(ins[r[1]] for r in refs), outs[0]
    rest = build_epilogue(attrs, ins, outs, Spec(y.shape, operands[0].dtype))
    anchor = None if rest is None else matmul(operands, (rest.result,), dict(given))
    return None if rest is None or anchor is None else rest.attach_to(anchor, [r[1] for r in refs])


register_fusion_role("cuda", "anchor", "matmul")
