"""The blobs of a Caffe net with the shapes that Caffe gives them."""

from __future__ import annotations

from dataclasses import dataclass

from prototorch.caffe.interop.caffe_net import CaffeNet

__all__ = ["BlobRow", "blob_rows", "format_blobs"]


@dataclass(frozen=True)
class BlobRow:
    """A blob that a layer makes: name, shape with all axes, and the layer's name and type."""

    blob: str
    shape: tuple[int, ...]
    layer: str
    type: str


def blob_rows(net: CaffeNet) -> list[BlobRow]:
    """A row for each top of each layer, in the net's order; a layer in place has one, too."""
    return [
        BlobRow(blob, net.shapes[value], layer.name, layer.type)
        for layer in net.layers
        for blob, value in zip(layer.tops, layer.top_values, strict=False)
    ]


def format_blobs(rows: list[BlobRow]) -> str:
    """The rows as a table."""
    cells = [("blob", "shape", "layer"), *((r.blob, str(list(r.shape)), f"{r.layer} ({r.type})") for r in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(2)]
    lines = [f"{blob:{widths[0]}}  {shape:{widths[1]}}  {layer}".rstrip() for blob, shape, layer in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
