"""Matrix products: of two matrices as 1x1 convolutions, whose engines are precompiled and can be captured; batches of
them by cuDNN's matmul; what cuDNN does not support by the package's own kernel.

A matrix [m, k] is an image [m, k, 1, 1]. y = a b is the gradient of a convolution's input, a b^T the convolution
itself, a^T b the gradient of its weights: no operand has to be transposed.
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

__all__ = ["matmul"]

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
    kernel_fn = _matmul_as_conv(ins, outs, attrs) or _batched_matmul(ins, outs, attrs)
    return kernel_fn if kernel_fn is not None else tiled_matmul(ins, outs, attrs)


def _matmul_as_conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The product as a convolution, where the right operand is one matrix."""
    a, b = ins
    dtype = a.dtype
    transpose_a, transpose_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    if b.ndim != 2 or dtype == "float64" or (transpose_a and (a.ndim != 2 or transpose_b)):
        return None
    if transpose_a:
        k, m = a.shape
        n = b.shape[1]
        tensors = (
            ("x", _matrix_desc(k, n, dtype)),
            ("g", _matrix_desc(k, m, dtype)),
            ("dw", _matrix_desc(m, n, dtype)),
        )
        return make_graph_kernel(
            GraphDesc("conv_weight_grad", tensors, ("dw",), _CONV_1X1),
            ins,
            {"g": InputArg(0), "x": InputArg(1), "dw": OutputArg(0)},
        )
    m, k = prod(a.shape[:-1]), a.shape[-1]
    if transpose_b:
        n = b.shape[0]
        tensors = (("x", _matrix_desc(m, k, dtype)), ("w", _matrix_desc(n, k, dtype)), ("y", _matrix_desc(m, n, dtype)))
        return make_graph_kernel(
            GraphDesc("conv", tensors, ("y",), _CONV_1X1), ins, {"x": InputArg(0), "w": InputArg(1), "y": OutputArg(0)}
        )
    n = b.shape[1]
    tensors = (("g", _matrix_desc(m, k, dtype)), ("w", _matrix_desc(k, n, dtype)), ("dx", _matrix_desc(m, n, dtype)))
    return make_graph_kernel(
        GraphDesc("conv_input_grad", tensors, ("dx",), _CONV_1X1),
        ins,
        {"g": InputArg(0), "w": InputArg(1), "dx": OutputArg(0)},
    )


def _batched_matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The product of batches of matrices; an operand with a batch of one broadcasts."""
    a, b = ins
    batch = outs[0].shape[:-2]
    if any(s.shape[:-2] != batch and prod(s.shape[:-2]) != 1 for s in ins) or a.dtype == "float64":
        return None

    def matrices(spec: Spec, transposed: bool) -> TensorDesc:
        batch_size = prod(spec.shape[:-2])
        rows, columns = spec.shape[-2:]
        if transposed:
            return TensorDesc((batch_size, columns, rows), (rows * columns, 1, columns), spec.dtype)
        return TensorDesc((batch_size, rows, columns), (rows * columns, columns, 1), spec.dtype)

    tensors = (
        ("a", matrices(a, attrs.get("transpose_a", False))),
        ("b", matrices(b, attrs.get("transpose_b", False))),
        ("y", matrices(outs[0], False)),
    )
    return make_graph_kernel(
        GraphDesc("matmul", tensors, ("y",)), ins, {"a": InputArg(0), "b": InputArg(1), "y": OutputArg(0)}
    )


@kernel("cuda", "fused")
def fused_matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """A product, then an elementwise kernel over its result."""
    name, refs, anchor_attrs = attrs["program"][0]
    if name != "matmul" or any(r[0] != "in" for r in refs):
        return None
    operands, y = tuple(ins[r[1]] for r in refs), outs[0]
    group_epilogue = build_epilogue(attrs, ins, outs, Spec(y.shape, operands[0].dtype))
    anchor = None if group_epilogue is None else matmul(operands, (group_epilogue.result,), dict(anchor_attrs))
    return None if group_epilogue is None or anchor is None else group_epilogue.attach_to(anchor, [r[1] for r in refs])


register_fusion_role("cuda", "anchor", "matmul")
