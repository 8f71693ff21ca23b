"""Layers as pycaffe shows them, and the base of layers that are written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.caffe.blob import Blob
from prototorch.caffe.text.message import Message

__all__ = ["BlobList", "Layer"]


class BlobList(list[Any]):
    """The parameter blobs of a layer. A layer in Python adds its own by `add_blob`."""

    def add_blob(self, *shape: int) -> None:
        """Add a parameter blob of this shape, filled with zeros."""
        self.append(Blob(*shape))


class Layer:
    """A layer of a net (``net.layers``), and the base class of layers in Python (``type: "Python"``).

    A layer in Python defines `setup`, `reshape`, `forward` and `backward`. ``bottom`` and ``top`` are lists of `Blob`;
    what a blob holds is ``blob.data`` and ``blob.diff``. Such a class runs only where the caller allows it (see
    `prototorch.caffe.allow_python`).

    Attributes:
        name, type: of the layer in its file.
        blobs: its parameters.
        param_str: ``python_param { param_str }``.
        phase: 0 in training (TRAIN), 1 else (TEST).
    """

    param_str = ""
    phase = 1

    def __init__(self, param: Message):
        self.layer_param = param
        self.name, self.type = str(param["name"]), str(param["type"])
        self.blobs = BlobList()

    def setup(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Called once, before the first `reshape`: check the bottoms and read `param_str`."""

    def reshape(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Called before each `forward`: give the tops their shapes, by ``top[0].reshape(...)``."""

    def forward(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Set ``top[i].data``."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(self, top: Sequence[Blob], propagate_down: Sequence[bool], bottom: Sequence[Blob]) -> None:
        """Set ``bottom[i].diff`` where ``propagate_down[i]``, and add to the diffs of `blobs`."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward")
