"""Ghost norm: the norm of a gradient that is a large matrix product, without the product.

The gradient of a dense layer's weights is a product of two matrices with a row for each sample, and its norm follows
from those: |x' g|^2 is the sum of (x x') * (g g'), which are as large as the batch (Goodfellow, 2015, "Efficient
per-example gradient computations"). So where gradients are clipped by their norm, the norm is known before the product,
which then need not be written, but is fused into the update. The sum is taken in float64: its terms may be of both
signs, and larger than it is.
"""

from __future__ import annotations

import numpy as np

from prototorch.graph.ir import Graph, Node
from prototorch.graph.passes.context import PassContext
from prototorch.ops.elementwise import cast, maximum, multiply, square
from prototorch.ops.linear import matmul
from prototorch.ops.reduce import normalize_axes, sum_

__all__ = ["MIN_PRODUCT_SIZE", "use_ghost_norm"]

MIN_PRODUCT_SIZE = 1 << 20  # elements of a product whose reading and writing takes longer than the small products
_MAX_SAMPLES = 128


def use_ghost_norm(graph: Graph, context: PassContext) -> bool:
    """Compute such sums of squares from the small products. Only on the CPU, where memory traffic decides."""
    if not context.kernels.prefers_ghost_norm:
        return False
    changed = False
    for node in graph.nodes:
        product = _find_squared_product(node)
        if product is not None:
            _replace_sum(graph, product, node)
            changed = True
    return changed


def _find_squared_product(node: Node) -> Node | None:
    """The product whose squares a node sums up."""
    source = node.inputs[0].producer if node.op is sum_ else None
    if source is None or source.op is not square or node.outputs[0].spec.size != 1:
        return None
    product = source.inputs[0].producer
    if product is None or product.op is not matmul or set(normalize_axes(node.attrs.get("axis"), 2)) != {0, 1}:
        return None
    x, g = product.inputs
    is_gradient = product.attrs.get("transpose_a", False) and not product.attrs.get("transpose_b", False)
    matrices = all(v.ndim == 2 and v.dtype == "float32" for v in (x, g, product.outputs[0]))
    large = product.outputs[0].spec.size >= MIN_PRODUCT_SIZE
    return product if is_gradient and matrices and x.shape[0] <= _MAX_SAMPLES and large else None


def _replace_sum(graph: Graph, product: Node, total: Node) -> None:
    with graph.insertion_point(total):
        wide = [cast(v, dtype="float64") for v in product.inputs]
        x, g = (matmul(v, v, transpose_b=True) for v in wide)
        squares = sum_(multiply(x, g), **total.attrs)
        norm = cast(maximum(squares, graph.constant(np.zeros(()))), dtype=total.outputs[0].dtype)
    graph.replace_all_uses(total.outputs[0], norm)
    graph.erase(total)
