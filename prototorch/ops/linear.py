"""Matrix products."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import broadcast_shapes
from prototorch.ops.facts import BATCHED, Attrs, Dependences, PrecisionClass, Specs
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec


class Matmul(Op):
    """``a @ b`` over the last two axes, leading axes broadcast; ``transpose_a``/``transpose_b`` swap those two first.

    a [..., m, k] and b [..., k, n] result in [..., m, n]. Both have at least two dimensions.
    """

    is_product = True
    precision = PrecisionClass.LOW
    channel_axis = -1

    def infer_spec(self, a: Spec, b: Spec, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
        if a.ndim < 2 or b.ndim < 2:
            raise self.shape_error(f"expected two matrices, got shapes {list(a.shape)} and {list(b.shape)}")
        if a.dtype != b.dtype:
            raise self.shape_error(f"expected two inputs of the same dtype, got {a.dtype} and {b.dtype}")
        m, k = a.shape[-2:][:: -1 if transpose_a else 1]
        k2, n = b.shape[-2:][:: -1 if transpose_b else 1]
        if k != k2:
            raise self.shape_error(
                f"shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied: the inner sizes are {k} and {k2}"
            )
        return Spec((*broadcast_shapes(self, (a.shape[:-2], b.shape[:-2])), m, n), a.dtype)

    def reference(self, xp: Any, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        a = xp.matrix_transpose(a) if transpose_a else a
        b = xp.matrix_transpose(b) if transpose_b else b
        return xp.matmul(a, b)

    @staticmethod
    def _by_a(g: Any, y: Any, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        if transpose_a:
            got = matmul(b, g, transpose_a=transpose_b, transpose_b=True)
        else:
            got = matmul(g, b, transpose_b=not transpose_b)
        return sum_to(got, a.shape)

    @staticmethod
    def _by_b(g: Any, y: Any, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        if transpose_b:
            got = matmul(g, a, transpose_a=True, transpose_b=transpose_a)
        else:
            got = matmul(a, g, transpose_a=not transpose_a)
        return sum_to(got, b.shape)

    derivatives = (_by_a, _by_b)

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        a, b = ins
        if dependences[0] is BATCHED and dependences[1] is BATCHED:
            return a.ndim == b.ndim > 2 and a.shape[0] == b.shape[0]
        batched, other = (a, b) if dependences[0] is BATCHED else (b, a)
        if batched.ndim == 2:
            return batched is a and other.ndim == 2 and not attrs.get("transpose_a", False)
        return other.ndim < batched.ndim or (other.ndim == batched.ndim and other.shape[0] == 1)

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * outs[0].size * ins[0].shape[-2 if attrs.get("transpose_a") else -1]


matmul = Matmul()
