"""The norm of a large matrix product without the product.

The gradient of a dense layer's weights is a product of two matrices with a row for each sample, and its norm follows
from those: |x' g|^2 is the sum of (x x') * (g g'), which are as large as the batch. So where gradients are clipped by
their norm, the norm is known before the product, which then need not be written, but goes into the update as it is
made. The sum is taken in float64: its terms may be of both signs, and larger than it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.core import Op
from prototorch.ops.elementwise import cast, maximum, multiply, square
from prototorch.ops.linear import matmul
from prototorch.ops.reduce import normalize_axes, sum_
from prototorch.spec import Spec

MIN_PRODUCT_SIZE = 1 << 20  # numbers of a product whose reading and writing takes longer than the small products
_MAX_SAMPLES = 128  # at most


def use_ghost_norm(nodes: Sequence[Node], backend: Backend) -> list[Node]:
    """The nodes, with such sums of squares said in the small products. Only for the CPU, where memory decides."""
    if not backend.prefers_ghost_norm:
        return list(nodes)
    made: list[Node] = []
    for node in nodes:
        product = _find_squared_product(node)
        made += [node] if product is None else _ghost_norm_nodes(product, node)
    return made


def _find_squared_product(node: Node) -> Node | None:
    """The product whose squares a node sums up."""
    source = node.inputs[0].node if node.op is sum_ else None
    if source is None or source.op is not square or node.outputs[0].spec.size != 1:
        return None
    product = source.inputs[0].node
    if product is None or product.op is not matmul or set(normalize_axes(node.attrs.get("axis"), 2)) != {0, 1}:
        return None
    x, g = product.inputs
    turned = product.attrs.get("transpose_a", False) and not product.attrs.get("transpose_b", False)
    known = all(v.ndim == 2 and v.dtype == "float32" for v in (x, g, product.outputs[0]))
    return (
        product
        if turned and known and x.shape[0] <= _MAX_SAMPLES and product.outputs[0].spec.size >= MIN_PRODUCT_SIZE
        else None
    )


def _ghost_norm_nodes(product: Node, total: Node) -> list[Node]:
    """The nodes that give the sum."""
    made: list[Node] = []

    def say(op: Op, *inputs: Value, **attrs: object) -> Value:
        spec = op.infer_spec(*(v.spec for v in inputs), **attrs)
        assert not isinstance(spec, tuple)
        value = Value(total.outputs[0].interpreter, spec, "node")
        made.append(Node(op, inputs, dict(attrs), (value,), total.scope, total.phase))
        set_producer(made[-1])
        return value

    wide = [say(cast, v, dtype="float64") for v in product.inputs]
    x, g = (say(matmul, v, v, transpose_b=True) for v in wide)
    found = say(sum_, say(multiply, x, g), **total.attrs)
    zero = Value(found.interpreter, Spec((), "float64"), "constant", array=np.zeros(()))
    say(cast, say(maximum, found, zero), dtype=total.outputs[0].dtype)
    made[-1].outputs = total.outputs
    set_producer(made[-1])
    return made
