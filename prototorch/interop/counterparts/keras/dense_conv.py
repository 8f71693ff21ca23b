"""Keras' dense layers and convolutions: [*size, in, out] for kernels of convolutions there, [out, in, *size] here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.keras.weights import BIAS, KERNEL, size_last
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair
from prototorch.interop.keras.config_import.layer_import import NO_SUCH_LAYER
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import Chain, ReshapeArray, TransposeArray

_CONV = (WeightPair("kernel", "kernel", size_last), BIAS)


def _depthwise_last(layer: Any, shape: tuple[int, ...]) -> Chain:
    """[*size, channels, multiplier] there."""
    channels_by_multiplier, _, *size = shape
    split = (channels_by_multiplier // layer.depth_multiplier, layer.depth_multiplier, *size)
    rank = len(size)
    return Chain((TransposeArray((rank, rank + 1, *range(rank))), ReshapeArray(shape, split)))


def _transposed_layouts(layer: Any, shapes: Shapes) -> Sequence[WeightLayout]:
    """[*size, out, in] there."""
    if layer.groups != 1:
        raise NotExpressibleError(f"Keras' {type(layer).__name__} has no groups, here it has {layer.groups}")
    return [pair.layout(layer, shapes[pair.ours]) for pair in _CONV if pair.ours in shapes]


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.Dense,),
            old_names={"TimeDistributedDense": "Dense"},
            old_arguments={"output_dim": "units"},
            weights=(KERNEL, BIAS),
            keeps_constraints=True,
        ),
        KerasRow(name="EinsumDense", reason=NO_SUCH_LAYER, weights=(KERNEL, BIAS)),
        KerasRow(
            layers=(layers.Conv1D, layers.Conv2D, layers.Conv3D),
            old_names={
                "Convolution1D": "Conv1D",
                "AtrousConvolution1D": "Conv1D",
                "Convolution2D": "Conv2D",
                "AtrousConvolution2D": "Conv2D",
                "Convolution3D": "Conv3D",
            },
            weights=_CONV,
        ),
        KerasRow(
            layers=(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
            old_names={
                "Deconvolution2D": "Conv2DTranspose",
                "Convolution2DTranspose": "Conv2DTranspose",
                "Convolution3DTranspose": "Conv3DTranspose",
            },
            fixed={"groups": 1},
            weights=_CONV,
            layouts=_transposed_layouts,
        ),
        KerasRow(
            layers=(layers.DepthwiseConv1D, layers.DepthwiseConv2D),
            weights=(WeightPair("kernel", "kernel", _depthwise_last), BIAS),
        ),
        KerasRow(
            layers=(layers.SeparableConv1D, layers.SeparableConv2D),
            old_names={"SeparableConvolution1D": "SeparableConv1D", "SeparableConvolution2D": "SeparableConv2D"},
            weights=(
                WeightPair("depthwise_kernel", "depthwise_kernel", _depthwise_last),
                WeightPair("pointwise_kernel", "pointwise_kernel", size_last),
                BIAS,
            ),
        ),
    ),
)
