"""Distances as modules."""

from __future__ import annotations

from typing import Any

from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(FieldModule):
    """The cosine of the angle between x1 and x2 along a dimension; norms are at least eps."""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """[...] and [...], which broadcast, to their shape without ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(FieldModule):
    """The p-norm of x1 - x2 + eps over the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """[..., d] and [..., d] to [...], with ``keepdim`` to [..., 1]."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
