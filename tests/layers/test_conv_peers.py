"""Convolutions against Keras (its words for padding) and PyTorch (explicit padding, groups)."""

import keras
import numpy as np
import pytest
import torch.nn.functional as F

from tests.layers.compare import beside_keras, beside_torch, numbers, text_of, tupled
from tests.layers.kernel_layouts import moved, split

CONVOLUTIONS = [
    ("Conv1D", (9, 2), {"filters": 3, "kernel_size": 3}),
    ("Conv1D", (8, 2), {"filters": 3, "kernel_size": 4, "strides": 3, "padding": "same"}),
    ("Conv1D", (7, 2), {"filters": 2, "kernel_size": 3, "dilation_rate": 2, "padding": "causal"}),
    ("Conv1D", (7, 4), {"filters": 6, "kernel_size": 2, "strides": 2, "groups": 2, "use_bias": False}),
    ("Conv2D", (3, 6, 7), {"filters": 4, "kernel_size": 3, "activation": "tanh"}),
    ("Conv2D", (3, 6, 7), {"filters": 4, "kernel_size": [2, 3], "strides": 2, "padding": "same"}),
    ("Conv2D", (2, 5, 5), {"filters": 2, "kernel_size": 1, "strides": [2, 1], "padding": "same"}),
    ("Conv2D", (2, 7, 8), {"filters": 2, "kernel_size": 3, "dilation_rate": [2, 1], "padding": "same"}),
    ("Conv2D", (4, 5, 6), {"filters": 4, "kernel_size": 3, "groups": 4, "padding": "same"}),
    ("Conv2D", (6, 4, 4), {"filters": 4, "kernel_size": 2, "strides": 2, "groups": 2}),
    ("Conv2D", (1, 3, 2), {"filters": 2, "kernel_size": 5, "padding": "same"}),
    ("Conv3D", (2, 3, 4, 5), {"filters": 3, "kernel_size": 2}),
    ("Conv3D", (2, 3, 4, 5), {"filters": 2, "kernel_size": [1, 2, 3], "strides": [1, 2, 2], "padding": "same"}),
]
TRANSPOSED = [
    ("Conv1DTranspose", (4, 3), {"filters": 2, "kernel_size": 3, "strides": 2}),
    ("Conv1DTranspose", (4, 3), {"filters": 2, "kernel_size": 4, "strides": 2, "padding": "same"}),
    ("Conv2DTranspose", (2, 3, 4), {"filters": 3, "kernel_size": 3}),
    ("Conv2DTranspose", (2, 3, 4), {"filters": 3, "kernel_size": [2, 3], "strides": [1, 3], "padding": "valid"}),
    ("Conv2DTranspose", (2, 3, 4), {"filters": 3, "kernel_size": 4, "strides": 2, "padding": "same"}),
    ("Conv2DTranspose", (2, 3, 3), {"filters": 1, "kernel_size": 3, "strides": 2, "output_padding": 1}),
    ("Conv2DTranspose", (2, 3, 3), {"filters": 1, "kernel_size": 3, "strides": 2, "padding": "same",
                                    "output_padding": 1}),
    ("Conv2DTranspose", (2, 3, 3), {"filters": 2, "kernel_size": 3, "dilation_rate": 2}),
    ("Conv3DTranspose", (1, 2, 2, 3), {"filters": 2, "kernel_size": 2, "strides": 2, "padding": "same"}),
]  # fmt: skip
CHANNELWISE = [
    ("DepthwiseConv1D", (7, 3), {"kernel_size": 3, "depth_multiplier": 2}),
    ("DepthwiseConv1D", (7, 3), {"kernel_size": 2, "strides": 2, "padding": "same"}),
    ("DepthwiseConv2D", (3, 5, 6), {"kernel_size": 3, "padding": "same", "activation": "relu"}),
    ("DepthwiseConv2D", (2, 5, 6), {"kernel_size": [2, 3], "strides": 2, "depth_multiplier": 3, "padding": "same"}),
    ("DepthwiseConv2D", (2, 6, 6), {"kernel_size": 2, "dilation_rate": 2, "use_bias": False}),
    ("SeparableConv1D", (7, 3), {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}),
    ("SeparableConv2D", (3, 5, 6), {"filters": 4, "kernel_size": 3, "depth_multiplier": 2}),
    ("SeparableConv2D", (2, 5, 6), {"filters": 2, "kernel_size": 2, "strides": 2, "padding": "same"}),
]


def names(row):
    return "-".join([row[0], *(f"{k}={v}" for k, v in row[2].items() if k not in ("filters", "kernel_size"))])


def keras_layer(name, options):
    """Keras' layer with its own data_format over sequences, else with the one that is the default here."""
    given = {k: tupled(v) for k, v in options.items()} | ({} if "1D" in name else {"data_format": "channels_first"})
    return getattr(keras.layers, name)(**given)


@pytest.mark.parametrize("row", CONVOLUTIONS + TRANSPOSED, ids=names)
def test_convolution_is_keras(row):
    name, shape, options = row
    maps = {"kernel": moved(len(shape) - 1)}
    beside_keras(keras_layer(name, options), text_of(name, options), [numbers(2, *shape)], maps)


@pytest.mark.parametrize("row", CHANNELWISE, ids=names)
def test_channelwise_convolution_is_keras(row):
    name, shape, options = row
    rank = len(shape) - 1
    which = "depthwise_kernel" if name.startswith("Separable") else "kernel"
    maps = {which: split(rank, shape[-1] if rank == 1 else shape[0]), "pointwise_kernel": moved(rank)}
    beside_keras(keras_layer(name, options), text_of(name, options), [numbers(2, *shape)], maps)


def padded(x, pads):
    return F.pad(x, [n for pair in reversed(pads) for n in pair])


@pytest.mark.parametrize("pads", [[[1, 1], [1, 1]], [[0, 2], [1, 0]], [[3, 0], [0, 0]]])
@pytest.mark.parametrize(
    ("strides", "dilation", "groups"), [((1, 1), (1, 1), 1), ((2, 3), (1, 1), 2), ((1, 2), (2, 1), 4)]
)
def test_explicit_padding_is_pytorch(pads, strides, dilation, groups):
    options = {"filters": 4, "kernel_size": [3, 2], "padding": pads, "strides": list(strides)}
    options |= {"dilation_rate": list(dilation), "groups": groups}

    def torch_conv(x, w):
        return F.conv2d(padded(x[0], pads), w["kernel"], w["bias"], strides, 0, dilation, groups)

    beside_torch(torch_conv, text_of("Conv2D", options), [numbers(2, 4, 6, 7)])


@pytest.mark.parametrize("padding", [0, 1, [2, 0]])
@pytest.mark.parametrize("extra", [0, 1, [0, 1]])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_with_explicit_padding_is_pytorch(padding, extra, groups):
    options = {"filters": 4, "kernel_size": [3, 4], "strides": 2, "padding": padding, "output_padding": extra}
    options["groups"] = groups

    def torch_conv(x, w):
        return F.conv_transpose2d(x[0], w["kernel"], w["bias"], 2, padding, extra, groups)

    beside_torch(torch_conv, text_of("Conv2DTranspose", options), [numbers(2, 4, 3, 3)])


def test_transposed_convolution_is_the_adjoint_of_same_convolution():
    """ "same" in all cases, also those in which PyTorch (and Keras on it) cannot: <conv(x), y> = <x, transposed(y)>."""
    from tests.layers.peers import ours

    rng = np.random.default_rng(0)
    for kernel in (1, 2, 3, 4, 5):
        for stride in (1, 2, 3):
            w = rng.standard_normal((2, 3, kernel))
            x, y = rng.standard_normal((1, 4 * stride, 3)), rng.standard_normal((1, 4, 2))
            options = f"kernel_size: {kernel}  strides: {stride}  padding: same  use_bias: false"
            (a,), _ = ours(f"Conv1D {{ filters: 2  {options} }}", [x], {"kernel": w})
            (b,), _ = ours(f"Conv1DTranspose {{ filters: 3  {options} }}", [y], {"kernel": w})
            assert abs((a * y).sum() - (x * b).sum()) < 1e-12 * 1000  # sums of up to 500 products in float64
