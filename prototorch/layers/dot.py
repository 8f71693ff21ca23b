"""The product of two inputs along an axis of each."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.merge import MergeLayer
from prototorch.schema import example, field


class Dot(MergeLayer):
    """The products of two inputs, summed along one axis of each (Keras).

    Inputs a [batch, ..., n, ...] and b [batch, ..., n, ...], n at ``axes``; output [batch, rest of a, rest of b], and
    [batch, 1] for two vectors. Axes count the batch dimension.
    """

    channel_axis_note = "its field `axes` says it"
    inputs = 2
    mask_policy = "end"
    consumes_features = True
    axes: list[int] = field(doc="The axis to sum along, one for both inputs or one each; the batch dimension is 0.")
    normalize: bool = field(default=False, doc="Whether both are brought to length 1 along it: the cosine similarity.")
    examples = [
        example("Dot { axes: 1 }", inputs=[(3,), (3,)]),
        example("Dot { axes: [2, 1]  normalize: true }", inputs=[(2, 3), (3, 4)]),
        example("Dot { axes: -1 }", inputs=[(2, 1, 3), (4, 3)]),
    ]

    def check(self) -> None:
        """One axis, or one for each input; none of them the batch's."""
        if len(self.axes) not in (1, 2) or 0 in self.axes:
            self.refuse(f"axes is one axis or two, none of them 0, not {list(self.axes)}", "axes")

    def call(self, ctx: Context, a: ArrayValue, b: ArrayValue) -> Any:
        first, second = (n + v.ndim if n < 0 else n for n, v in zip((self.axes * 2)[:2], (a, b), strict=True))
        for n, v in ((first, a), (second, b)):
            if not 1 <= n < v.ndim:
                ctx.fail(f"axis {n} does not exist in {list(v.shape[1:])}, whose axes are 1 to {v.ndim - 1}")
        if a.shape[first] != b.shape[second]:
            ctx.fail(
                f"the axes that are summed must have one size: axis {first} of the first input has {a.shape[first]} "
                f"elements, axis {second} of the second has {b.shape[second]}"
            )
        rest = (_other_dims(a, first), _other_dims(b, second))
        rows = _move_axis_last(a, first)
        columns = _move_axis_last(b, second)
        if self.normalize:
            rows, columns = _normalize_rows(rows), _normalize_rows(columns)
        y = ops.matmul(rows, columns, transpose_b=True)
        return ops.reshape(y, shape=(a.shape[0], *(rest[0] + rest[1] or (1,))))


def _other_dims(x: ArrayValue, axis: int) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(x.shape) if i not in (0, axis))


def _move_axis_last(x: ArrayValue, axis: int) -> Any:
    """x [batch, rest, n] with the axis at the end and the rest as one."""
    if axis != x.ndim - 1:
        x = ops.transpose(x, order=(*(i for i in range(x.ndim) if i != axis), axis))
    return ops.reshape(x, shape=(x.shape[0], -1, x.shape[-1])) if x.ndim != 3 else x


def _normalize_rows(x: ArrayValue) -> Any:
    """Rows of length 1; Keras' floor of 1e-12 under the squared length."""
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-12))
