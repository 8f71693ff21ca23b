"""How Caffe stores the weights of our layers: the blobs of a layer by their positions ("0", "1", ...).

Source: the layers' ``LayerSetUp`` of BVLC/caffe, and files that it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototorch import layers
from prototorch.interop.layouts import LayoutTable, Shapes, WeightLayout
from prototorch.interop.transforms import Transform, TransposeArray

__all__ = ["LAYOUTS"]

LAYOUTS = LayoutTable("caffe", separator="/")
_TRANSPOSED = TransposeArray((1, 0))


def _in_order(shapes: Shapes, *names: str, **transforms: Transform) -> list[WeightLayout]:
    """Weights in the order of their blobs; those that the layer does not have are left out."""
    present = [name for name in names if name in shapes]
    return [WeightLayout((n,), (str(i),), transforms.get(n, Transform())) for i, n in enumerate(present)]


@LAYOUTS.register(layers.Dense)
def _dense(layer: layers.Dense, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "kernel", "bias", kernel=_TRANSPOSED)


@LAYOUTS.register(
    layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose
)
def _conv(layer: layers.Layer, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "kernel", "bias")
