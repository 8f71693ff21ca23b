"""Matrix products: of two matrices as 1x1 convolutions, whose engines are precompiled and can be captured; weight
gradients with many rows and batches of products by cuDNN's matmul, whose engines are compiled at run time; what cuDNN
does not support by the package's own kernel.

A matrix [m, k] is an image [m, k, 1, 1]. y = a b is the gradient of a convolution's input, a b^T the convolution
itself, a^T b the gradient of its weights: no operand has to be transposed. cuDNN's heuristics rank other engines first
for the same matrices as images [m / 128, k, 128, 1], so that the form is chosen whose engine suits the GPU better
(see `product_forms`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.cuda.cudnn.graph_kernel import make_graph_kernel
from prototorch.cuda.cudnn.product_forms import MatrixProduct, select_form
from prototorch.cuda.kernels.epilogue import build_epilogue
from prototorch.cuda.kernels.launch import InputArg, OutputArg, current_device
from prototorch.cuda.kernels.matmul import tiled_matmul
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

__all__ = ["matmul"]

Specs = tuple[Spec, ...]


@kernel("cuda", "matmul")
def matmul(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The product over the last two axes."""
    if any(s.layout or not s.size for s in (*ins, *outs)) or len({s.dtype for s in (*ins, *outs)}) > 1:
        return None
    if ins[0].dtype not in ("float32", "float64", "float16", "bfloat16"):
        return None
    kernel_fn = _matmul_of_matrices(ins, outs, attrs) or _batched_matmul(ins, outs, attrs)
    return kernel_fn if kernel_fn is not None else tiled_matmul(ins, outs, attrs)


def _matmul_of_matrices(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The product where the right operand is one matrix. The result may have another dtype than the operands."""
    a, b = ins
    y_dtype = outs[0].dtype
    transpose_a, transpose_b = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
    if b.ndim != 2 or a.dtype == "float64" or (transpose_a and (a.ndim != 2 or transpose_b)):
        return None
    context = get_context(current_device())
    if context is None:
        return None
    if transpose_a:
        product = MatrixProduct("conv_weight_grad", a.shape[1], a.shape[0], b.shape[1], a.dtype, y_dtype)
    elif transpose_b:
        product = MatrixProduct("conv", prod(a.shape[:-1]), a.shape[-1], b.shape[0], a.dtype, y_dtype)
    else:
        product = MatrixProduct("conv_input_grad", prod(a.shape[:-1]), a.shape[-1], b.shape[1], a.dtype, y_dtype)
    form = select_form(product, context)
    if form is None:
        return None
    desc, (left, right, result) = form
    return make_graph_kernel(desc, ins, {left: InputArg(0), right: InputArg(1), result: OutputArg(0)})


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
    if _is_cast_result(attrs) and not any(s.layout or not s.size for s in (*operands, y)):
        return _matmul_of_matrices(operands, outs, dict(anchor_attrs)) if [r[1] for r in refs] == [0, 1] else None
    group_epilogue = build_epilogue(attrs, ins, outs, Spec(y.shape, operands[0].dtype))
    anchor = None if group_epilogue is None else matmul(operands, (group_epilogue.result,), dict(anchor_attrs))
    return None if group_epilogue is None or anchor is None else group_epilogue.attach_to(anchor, [r[1] for r in refs])


def _is_cast_result(attrs: dict[str, Any]) -> bool:
    """Whether a group is a product and a cast of its result, which nothing else reads."""
    program = attrs["program"]
    return len(program) == 2 and program[1][:2] == ("cast", (("node", 0, 0),)) and len(attrs["outputs"]) == 1


register_fusion_role("cuda", "anchor", "matmul")
