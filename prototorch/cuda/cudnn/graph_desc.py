"""Descriptions of cuDNN graphs, without cuDNN: they are keys of the plan cache, also on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.cuda.kernels.launch import contiguous_strides
from prototorch.spec import Spec

__all__ = ["GraphDesc", "TensorDesc", "conv_tensor_desc", "tensor_desc"]


@dataclass(frozen=True)
class TensorDesc:
    """A tensor of a graph: its sizes, its strides in elements, and its dtype by NumPy's name."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements from the first to the last, gaps included."""
        return 1 + sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True))


@dataclass(frozen=True)
class GraphDesc:
    """A graph of a kind (a key of `graph_builders.BUILDERS`), its tensors by name, and its attributes. ``outputs`` are
    the names of the tensors that are written."""

    kind: str
    tensors: tuple[tuple[str, TensorDesc], ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def tensor(self, name: str) -> TensorDesc:
        """A tensor by name."""
        return dict(self.tensors)[name]

    @property
    def flops(self) -> int:
        """Multiplications and additions of a convolution, of its gradients, or of a product; 0 of other kinds."""
        dims = {name: tensor.dims for name, tensor in self.tensors}
        if self.kind == "matmul":
            return 2 * prod(dims["y"]) * dims["a"][-1]
        if not self.kind.startswith("conv"):
            return 0
        return 2 * prod(dims["y" if "y" in dims else "g"]) * prod(dims["w" if "w" in dims else "dw"][1:])

    def has_tensor(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return any(n == name for n, _ in self.tensors)


def tensor_desc(spec: Spec, dims: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> TensorDesc:
    """The tensor of a spec in its layout; or one with other sizes and strides in the same memory."""
    return TensorDesc(
        tuple(spec.shape if dims is None else dims),
        tuple(contiguous_strides(spec) if strides is None else strides),
        spec.dtype,
    )


def conv_tensor_desc(spec: Spec, lead: int = 0) -> TensorDesc:
    """A spec [N, C, *spatial] as a tensor with ``lead`` spatial axes of size 1 before the others (one dimension is two
    for cuDNN)."""
    dims, strides = list(spec.shape), list(contiguous_strides(spec))
    step = strides[2] * dims[2]
    return tensor_desc(spec, [*dims[:2], *[1] * lead, *dims[2:]], [*strides[:2], *[step] * lead, *strides[2:]])
