"""How Caffe stores the weights of our layers: the blobs of a layer by their positions ("0", "1", ...).

Source: the layers' ``LayerSetUp`` of BVLC/caffe, and files that it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototorch import layers
from prototorch.caffe.interop.running_statistics import RunningStatistics
from prototorch.caffe.interop.scale_layers import SCALE, join_and_rename_layers
from prototorch.model.loading.layout.layout_table import LayoutTable, NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import ReshapeArray, Transform, TransposeArray

__all__ = ["LAYOUTS"]

LAYOUTS = LayoutTable(system="caffe", separator="/", adapt_file=join_and_rename_layers)
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


@LAYOUTS.register(layers.BatchNormalization)
def _batch_norm(layer: layers.BatchNormalization, shapes: Shapes) -> Sequence[WeightLayout]:
    """One BatchNorm, or where it has gamma or beta this and the Scale layer behind it (see `join_scale_layers`)."""
    if layer.weighted_sums:
        if "gamma" in shapes or "beta" in shapes:
            raise NotExpressibleError("Caffe's BatchNorm has no gamma and beta, which a Scale layer behind it holds")
        return _in_order(shapes, "moving_mean", "moving_variance", "moving_weight")
    statistics = WeightLayout(("moving_mean", "moving_variance"), ("0", "1", "2"), RunningStatistics())
    own = {name: shape for name, shape in shapes.items() if name in ("gamma", "beta")}
    below = SCALE if "gamma" in own else "bias"  # a Scale layer always has the factor, a Bias layer has none
    return [statistics, *(layout.under(theirs=f"{below}/") for layout in _in_order(own, "gamma", "beta"))]


@LAYOUTS.register(layers.Scale)
def _scale(layer: layers.Scale, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "scale", "bias")


@LAYOUTS.register(layers.Bias)
def _bias(layer: layers.Bias, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "bias")


@LAYOUTS.register(layers.PReLU)
def _prelu(layer: layers.PReLU, shapes: Shapes) -> Sequence[WeightLayout]:
    alpha_shape = shapes["alpha"]
    is_shared = 1 in (layer.shared_axes or ())
    if any(n != 1 for n in alpha_shape[0 if is_shared else 1 :]):
        raise NotExpressibleError(
            f"Caffe's PReLU has one slope for each channel, or one for all, not {list(alpha_shape)}"
        )
    return _in_order(shapes, "alpha", alpha=ReshapeArray(alpha_shape, () if is_shared else alpha_shape[:1]))


@LAYOUTS.register(layers.Embedding)
def _embedding(layer: layers.Embedding, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "embeddings")


@LAYOUTS.register(layers.StreamLSTM, layers.StreamRNN)
def _recurrent(layer: layers.Layer, shapes: Shapes) -> Sequence[WeightLayout]:
    names = ("kernel", "bias", "static_kernel", "recurrent_kernel", "output_kernel", "output_bias")
    return _in_order(shapes, *names, **{n: _TRANSPOSED for n in names if n.endswith("kernel")})


@LAYOUTS.register(layers.Variable)
def _variable(layer: layers.Variable, shapes: Shapes) -> Sequence[WeightLayout]:
    return _in_order(shapes, "value")
