"""Wrong fields and wrong shapes: each message says what is wrong, with its numbers."""

import numpy as np
import pytest

from prototorch import tensor
from prototorch.engine.harness.layer_graph import trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ModelWarning, ShapeError, TextError
from prototorch.graph.ir import Graph
from prototorch.spec import Spec

FIELDS = [
    ("Conv2D { kernel_size: 3 }", "Conv2D needs 'filters'"),
    ("Conv2D { filtres: 4  kernel_size: 3 }", "no field 'filtres'. Did you mean 'filters'?"),
    ("Conv2D { filters: 0  kernel_size: 3 }", "filters must be an integer of at least 1, not 0"),
    ("Conv2D { filters: 4  kernel_size: [3] }", "list of 2"),
    ("Conv2D { filters: 4  kernel_size: 3  padding: smae }", "Did you mean 'same'?"),
    ("Conv2D { filters: 4  kernel_size: 3  padding: -1 }", "at least 0"),
    ("Conv2D { filters: 5  kernel_size: 3  groups: 2 }", "5 filters do not divide into 2 groups"),
    ("Conv2D { filters: 4  kernel_size: 3  activation: rleu }", "Did you mean 'relu'?"),
    ("Conv2D { filters: 4  kernel_size: 3  padding: causal }", "'valid'"),
    ("Conv2DTranspose { filters: 1  kernel_size: 3  output_padding: 1 }", "must be smaller than strides (1)"),
    ("MaxPooling2D { pool_size: 0 }", "at least 1"),
    ("Dropout { rate: 1 }", "below 1"),
    ("Dropout { rate: -0.5 }", "at least 0"),
    ("Permute { dims: [1, 3] }", "each of 1 to 2 once"),
    ("Reshape { target_shape: [-1, -1] }", "-1"),
    ("Dot { axes: 0 }", "none of them 0"),
    ("GroupNormalization { groups: 0 }", "groups is at least 1"),
    ("LRN { size: 4 }", "must be odd"),
    ("Cropping2D { cropping: [[1, 2, 3], 1] }", "pairs"),
    ("Resizing { height: 4  width: 4  crop_to_aspect_ratio: true  pad_to_aspect_ratio: true }", "exclude each other"),
    ("RandomRotation { factor: 2 }", "at most 1"),
    ("RandomZoom { height_factor: [0.1, 0.2, 0.3] }", "a pair [lower, upper]"),
    ("RandomFlip { mode: sideways }", "'horizontal'"),
    ("UpSampling2D { interpolation: cubic }", "Did you mean 'bicubic'?"),
    ("Activation { }", "needs 'activation'"),
    ("RepeatVector { n: 0 }", "at least 1"),
    ("LeakyReLU { negative_slope: -1 }", "at least 0"),
]


@pytest.mark.parametrize(("text", "message"), FIELDS, ids=lambda v: v[:50])
def test_wrong_field(text, message):
    with pytest.raises(TextError) as caught:
        parse_layer(text)
    assert message in str(caught.value)


SHAPES = [
    (
        "Dense { units: 3  bias_initializer: identity }",
        [(4,)],
        "the weight 'layer/bias': Identity needs a matrix, got a weight of shape [3]",
    ),
    (
        "Dense { units: 3  bias_regularizer: orthogonal_regularizer }",
        [(4,)],
        "the weight 'layer/bias': OrthogonalRegularizer needs a matrix, got a weight of shape [3]",
    ),
    (
        "Dense { units: 3  bias_constraint: MaxNorm { axis: 1 } }",
        [(4,)],
        "the weight 'layer/bias': axis [1] is out of range for a weight of shape [3]",
    ),
    ("LSTM { units: 3  kernel_initializer: unit_forget_bias }", [(4, 2)], "the weight 'layer/kernel': UnitForgetBias"),
    (
        "Conv2D { filters: 4  kernel_size: 3 }",
        [(5, 5)],
        "the input must have 3 dimensions (channels, rows, columns), got 2",
    ),
    ("Conv2D { filters: 4  kernel_size: 3 }", [(1, 2, 5)], "kernel size 3 exceeds the padded input size 2"),
    ("Conv2D { filters: 4  kernel_size: 3  groups: 2 }", [(3, 5, 5)], "3 input channels do not divide into 2 groups"),
    ("Conv2DTranspose { filters: 2  kernel_size: 1  padding: 2 }", [(1, 3, 3)], "takes away more than there is"),
    ("DepthwiseConv2D { kernel_size: 3 }", [(4,)], "channels, rows, columns"),
    ("MaxPooling2D { pool_size: 4 }", [(1, 3, 3)], "pool size 4 exceeds the padded input size 3"),
    ("MaxPooling2D { pool_size: 2  padding: 2 }", [(1, 5, 5)], "padding 2 must be smaller"),
    ("GlobalAveragePooling2D { }", [(3, 4)], "channels, rows, columns"),
    ("BatchNormalization { axis: 3 }", [(2, 3)], "axis 3 does not exist"),
    ("BatchNormalization { axis: 0 }", [(2, 3)], "axis 0 does not exist"),
    ("LayerNormalization { axis: [1, 5] }", [(2, 3)], "axis 5 does not exist"),
    ("GroupNormalization { groups: 3 }", [(2, 4)], "4 channels do not divide into 3 groups"),
    (
        "Add { }",
        [(2, 3), (2, 4)],
        "must have one shape (sizes of 1 are repeated); dimension 2 is 3 and 4",
    ),
    ("Add { }", [(2, 3), (3,)], "same number of dimensions"),
    ("Add { }", [(2, 3)], "at least 2 inputs, not 1"),
    ("Subtract { }", [(2,), (2,), (2,)], "2 inputs, not 3"),
    (
        "Concatenate { }",
        [(3, 2), (4, 2)],
        "along dimension 2, all else must be equal; dimension 1 is 3 and 4",
    ),
    (
        "Concatenate { }",
        [(2, 3, 5), (2, 4, 5)],
        "along the channels, all else must be equal; the rows are 3 and 4",
    ),
    (
        "Concatenate { data_format: channels_last }",
        [(2, 3, 5), (2, 4, 5)],
        "along the channels, all else must be equal; the columns are 3 and 4",
    ),
    ("Concatenate { axis: -2 }", [(2,), (2,)], "batch dimension"),
    ("Dot { axes: 1 }", [(2,), (3,)], "axis 1 of the first input has 2 elements, axis 1 of the second has 3"),
    ("Dot { axes: 3 }", [(2,), (2,)], "axis 3 does not exist"),
    ("Reshape { target_shape: [4, 4] }", [(3, 5)], "15 elements do not fit into the shape [4, 4]"),
    ("Permute { dims: [2, 1] }", [(3,)], "orders 2 dimensions, the input has 1"),
    ("RepeatVector { n: 2 }", [(3, 3)], "one vector per sample"),
    ("Cropping1D { cropping: 2 }", [(1, 4)], "leaves nothing"),
    ("ZeroPadding2D { }", [(4,)], "channels, rows, columns"),
    ("UpSampling2D { }", [(4,)], "channels, rows, columns"),
    ("PReLU { shared_axes: [4] }", [(2, 3)], "shared_axes [4]"),
    ("Rescaling { scale: [1, 2, 3] }", [(2, 4)], "scale has 3 values"),
    ("Rescaling { scale: 1e39 }", [(2, 4)], "scale has values that are not finite in float32: 1e+39"),
    ("Normalization { mean: 0  variance: [1, 2]  axis: -1 }", [(3,)], "variance has 2 values"),
    ("Dropout { rate: 0.5  noise_shape: [none, 1] }", [(2, 3)], "noise_shape has 2 sizes"),
    ("Dropout { rate: 0.5  noise_shape: [none, 2] }", [(3,)], "does not broadcast"),
    ("Resizing { height: 2  width: 2 }", [(5,)], "channels, rows, columns"),
    ("Softmax { axis: 4 }", [(5,)], "axis 4 is out of range"),
    ("SpatialDropout2D { rate: 0.1 }", [(5, 2)], "channels, rows, columns"),
]


@pytest.mark.parametrize(("text", "shapes", "message"), SHAPES, ids=str)
def test_wrong_shape(text, shapes, message):
    with pytest.raises(ShapeError) as caught:
        trace_layer(Graph(), parse_layer(text), [Spec((1, *s)) for s in shapes], True, "float32")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_softmax_of_a_convolution_along_its_columns_is_reported(name):
    x = tensor(np.ones((2, 3, 5, 5), np.float32))
    with pytest.warns(ModelWarning, match=r"along the last axis of its output \[4, 5, 5\], not along the 4 channels"):
        parse_layer(f"Conv2D {{ filters: 4  kernel_size: 1  activation: {name} }}")(x)
    cls = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}[name]
    for axis in (1, 3):  # what is written on purpose is not reported
        parse_layer(f"Conv2D {{ filters: 4  kernel_size: 1  activation: {cls} {{ axis: {axis} }} }}")(x)
