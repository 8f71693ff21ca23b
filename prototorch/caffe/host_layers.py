"""Layers that run in Python between the plans of a net: data sources, and what no plan can compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prototorch.caffe.blob import Blob

__all__ = ["HostLayer"]


class HostLayer(Protocol):
    """Fills its tops, and gives the gradients of its bottoms."""

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Set the data of the tops, whose shapes it may change."""

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """Set the diffs of the bottoms that need one, from those of the tops."""
