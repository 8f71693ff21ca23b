"""A layer of a net, as pycaffe shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.caffe.param_blob import ParamBlob

__all__ = ["NetLayer"]


@dataclass(frozen=True)
class NetLayer:
    """A layer: its type in Caffe, and its parameters."""

    name: str
    type: str
    blobs: Sequence[ParamBlob]
