"""The forms in which cuDNN is given a product of two matrices, and the choice among them.

The same memory can be described as different graphs, for which cuDNN's heuristics rank different engines first. The
rule, for products of at least `MIN_FLOPS` (smaller ones are left to cuDNN's choice for the plain form):

1. A weight gradient a^T b over at least `MIN_SPLIT_ROWS` rows whose result has too few tiles for half of the GPU's
   multiprocessors is a matmul graph with its inner dimension split (`split_k`).
2. Else the first form whose engine runs in clusters of blocks, as those for Hopper and newer do: rows as the height of
   one image [rows, c, 1, 1], then as images with a width of 128, 64 or 32.
3. Else, on older GPUs among others, the first.

Nothing is measured for it: autotuning times the plans of the form that was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prototorch.cuda.cudnn.context import CudnnContext
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.cuda.cudnn.tensor_cores import MIN_FLOPS

__all__ = ["MIN_SPLIT_ROWS", "WIDTHS", "MatrixProduct", "select_form"]

#: rows of a weight gradient from which its inner dimension is split
MIN_SPLIT_ROWS = 2048
#: the tile that is assumed where only the number of tiles counts
TILE = 128
WIDTHS = (128, 64, 32)
_CONV_1X1 = (("strides", (1, 1)), ("pads", ((0, 0), (0, 0))), ("dilation", (1, 1)))
#: kind of the convolution -> the names of its tensors: the left operand, the right one, the result
OPERANDS = {"conv": ("x", "w", "y"), "conv_input_grad": ("g", "w", "dx"), "conv_weight_grad": ("g", "x", "dw")}


@dataclass(frozen=True)
class MatrixProduct:
    """A product [m, k] x [k, n] and the direction of a 1x1 convolution that it is: "conv" is a b^T, "conv_input_grad"
    a b, "conv_weight_grad" a^T b. ``result_dtype`` is that of the result (default: of the operands)."""

    kind: str
    m: int
    k: int
    n: int
    dtype: str
    result_dtype: str | None = None

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.k * self.n

    @property
    def is_weight_grad(self) -> bool:
        """Whether the inner dimension is that of the rows."""
        return self.kind == "conv_weight_grad"

    @property
    def rows(self) -> int:
        """The rows of the operands that lie in memory one after another: the samples."""
        return self.k if self.is_weight_grad else self.m

    @property
    def tiles(self) -> int:
        """Tiles of 128 x 128 of the result."""
        return -(-self.m // TILE) * -(-self.n // TILE)

    def as_conv(self, width: int = 1) -> GraphDesc:
        """The convolution, or its gradient, over images of this width, which divides the rows."""
        m, k, n, one = self.m, self.k, self.n, 1
        if self.kind == "conv":
            shapes = {"x": (m, k, width), "w": (n, k, one), "y": (m, n, width)}
        elif self.kind == "conv_input_grad":
            shapes = {"g": (m, k, width), "w": (k, n, one), "dx": (m, n, width)}
        else:
            shapes = {"x": (k, n, width), "g": (k, m, width), "dw": (m, n, one)}
        tensors = tuple((name, _image(*shape, self.dtype)) for name, shape in shapes.items())
        return GraphDesc(self.kind, tensors, (tensors[-1][0],), _CONV_1X1)

    def as_split_matmul(self, blocks: int) -> GraphDesc:
        """The matmul graph of a weight gradient, split into about so many blocks."""
        tensors = (
            ("a", TensorDesc((1, self.m, self.k), (self.k * self.m, 1, self.m), self.dtype)),
            ("b", TensorDesc((1, self.k, self.n), (self.k * self.n, self.n, 1), self.dtype)),
            ("y", TensorDesc((1, self.m, self.n), (self.m * self.n, self.n, 1), self.result_dtype or self.dtype)),
        )
        return GraphDesc("matmul", tensors, ("y",), (("blocks", blocks),))


def _image(rows: int, channels: int, width: int, dtype: str) -> TensorDesc:
    return TensorDesc((rows // width, channels, width, 1), (width * channels, 1, channels, channels), dtype)


def select_form(product: MatrixProduct, context: CudnnContext) -> tuple[GraphDesc, tuple[str, str, str]] | None:
    """The graph of a product by the rule of this module, and the names of its operands and its result; None where
    cuDNN supports none of the forms. A result of another dtype than the operands' is written by the matmul graph alone:
    convolutions of cuDNN 9.19 refuse it."""
    is_large = product.flops >= MIN_FLOPS
    if is_large and _needs_split(product, context.multiprocessors):
        split = product.as_split_matmul(context.multiprocessors)
        plan = context.get_plan(split, may_measure=False)
        if plan is not None and plan.heuristic_engine.slices > 1:
            return split, ("a", "b", "y")
    if product.result_dtype not in (None, product.dtype):
        return None
    best: GraphDesc | None = None
    for desc in _conv_forms(product, is_large):
        plan = context.get_plan(desc, may_measure=False)
        if plan is not None and plan.heuristic_engine.has_clusters:
            return desc, OPERANDS[product.kind]
        best = best or (None if plan is None else desc)
    return None if best is None else (best, OPERANDS[product.kind])


def _needs_split(product: MatrixProduct, multiprocessors: int) -> bool:
    return product.is_weight_grad and product.k >= MIN_SPLIT_ROWS and product.tiles * 2 < multiprocessors


def _conv_forms(product: MatrixProduct, is_large: bool) -> Iterator[GraphDesc]:
    yield product.as_conv()
    if is_large:
        yield from (product.as_conv(width) for width in WIDTHS if product.rows % width == 0)
