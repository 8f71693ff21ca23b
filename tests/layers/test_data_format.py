"""`data_format`: each layer over maps with its channels last is the one with its channels first between transposes, and
Keras' with the same data_format."""

import re

import keras
import numpy as np
import pytest
import torch

from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ModelWarning, ShapeError
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.model.load import model_from_text
from tests.layers.compare import beside_keras, numbers, text_of, tupled
from tests.layers.kernel_layouts import moved, split
from tests.layers.peers import KERAS, assert_same, keras_side, ours, random_weights
from tests.layers.test_conv_peers import CHANNELWISE, CONVOLUTIONS, TRANSPOSED, names

EXAMPLES = [(name, one) for name, cls in Layer.members().items() if issubclass(cls, MapLayer) for one in cls.examples]


def in_format(text, data_format):
    """A layer's text with this data_format."""
    plain = re.sub(r"\s*data_format: \w+", "", text).rstrip()
    return f"{plain[:-1].rstrip()}  data_format: {data_format} }}"


def axes_moved(array, rank, to_last):
    """An array with the axis before those of the map moved behind them, or back; itself where it is no map."""
    axis = array.ndim - 1 - rank
    if axis < 1 or rank < 1:
        return array
    return np.moveaxis(array, axis, -1) if to_last else np.moveaxis(array, -1, axis)


@pytest.mark.parametrize(("name", "one"), EXAMPLES, ids=lambda v: v if isinstance(v, str) else v.text)
def test_channels_last_is_channels_first_between_transposes(name, one):
    layer = parse_layer(one.text)
    low, high = one.extra.get("range", (-1, 1))
    inputs = [numbers(2, *s, low=low, high=high) for s in one.inputs]
    rank = layer.map_rank(inputs[0].ndim)
    if layer.has_channels_last(inputs[0].ndim - 1):
        inputs = [axes_moved(x, rank, to_last=False) for x in inputs]
    first, last = in_format(one.text, "channels_first"), in_format(one.text, "channels_last")
    weights = random_weights(first, inputs)
    expected = [axes_moved(y, rank, to_last=True) for y in ours(first, inputs, weights)[0]]
    found = ours(last, [axes_moved(x, rank, to_last=True) for x in inputs], weights)[0]
    assert_same((found, {}), (expected, {}))


def channels_last_shape(name, shape):
    """The shape of a row of test_conv_peers, in which the channels of sequences are last already."""
    return shape if "1D" in name else (*shape[1:], shape[0])


@pytest.mark.parametrize("row", CONVOLUTIONS + TRANSPOSED, ids=names)
def test_convolution_with_channels_last_is_keras(row):
    name, shape, options = row
    layer = getattr(keras.layers, name)(**{k: tupled(v) for k, v in options.items()}, data_format="channels_last")
    x = numbers(2, *channels_last_shape(name, shape))
    beside_keras(layer, in_format(text_of(name, options), "channels_last"), [x], {"kernel": moved(len(shape) - 1)})


@pytest.mark.parametrize("row", CHANNELWISE, ids=names)
def test_channelwise_convolution_with_channels_last_is_keras(row):
    name, shape, options = row
    layer = getattr(keras.layers, name)(**{k: tupled(v) for k, v in options.items()}, data_format="channels_last")
    x = numbers(2, *channels_last_shape(name, shape))
    depthwise, pointwise = split(len(shape) - 1, x.shape[-1]), moved(len(shape) - 1)
    maps = {"kernel": depthwise, "depthwise_kernel": depthwise, "pointwise_kernel": pointwise}
    beside_keras(layer, in_format(text_of(name, options), "channels_last"), [x], maps)


OTHERS = [
    ("MaxPooling1D", (6, 3), {}),
    ("AveragePooling1D", (6, 3), {"pool_size": 3, "strides": 2}),
    ("MaxPooling2D", (6, 4, 3), {"pool_size": 3, "strides": 2, "padding": "same"}),
    ("AveragePooling2D", (6, 4, 3), {"pool_size": 2}),
    ("MaxPooling3D", (4, 4, 2, 3), {}),
    ("GlobalAveragePooling1D", (5, 3), {}),
    ("GlobalMaxPooling1D", (5, 3), {"keepdims": True}),
    ("GlobalAveragePooling2D", (5, 4, 3), {}),
    ("GlobalMaxPooling2D", (5, 4, 3), {"keepdims": True}),
    ("GlobalAveragePooling3D", (5, 4, 2, 3), {}),
    ("ZeroPadding2D", (3, 2, 4), {"padding": [[1, 0], [2, 1]]}),
    ("Cropping2D", (5, 4, 2), {"cropping": [[1, 0], [1, 1]]}),
    ("UpSampling2D", (3, 2, 2), {}),
    ("CenterCrop", (5, 4, 3), {"height": 3, "width": 2}),
    ("Rescaling", (2, 3), {"scale": [1.0, 2.0, 0.5], "offset": 1.0}),
    ("Rescaling", (5, 4, 3), {"scale": [1.0, 2.0, 0.5], "offset": [0.0, 1.0, 2.0]}),
]


@pytest.mark.parametrize("row", OTHERS, ids=names)
def test_layer_with_channels_last_is_keras(row):
    name, shape, options = row
    takes_format = name not in ("Rescaling",)
    given = {"data_format": "channels_last"} if takes_format else {}
    layer = getattr(keras.layers, name)(**{k: tupled(v) for k, v in options.items()}, **given)
    beside_keras(layer, in_format(text_of(name, options), "channels_last"), [numbers(2, *shape)], tolerance=1e-5)


@pytest.mark.parametrize("activation", ["softmax", "log_softmax"])
def test_an_activation_over_the_last_axis_is_over_the_channels(activation):
    options = {"filters": 3, "kernel_size": 2, "activation": activation}
    layer = keras.layers.Conv2D(3, 2, activation=activation, data_format="channels_last")
    text = in_format(text_of("Conv2D", options), "channels_last")
    beside_keras(layer, text, [numbers(2, 4, 3, 2)], {"kernel": moved(2)}, tolerance=1e-5)


@pytest.mark.parametrize("name", ["BatchNormalization", "GroupNormalization", "Normalization"])
def test_the_default_axis_follows_the_data_format(name):
    options = {
        "BatchNormalization": {},
        "GroupNormalization": {"groups": 3},
        "Normalization": {"mean": [1.0, 2.0, 0.0], "variance": [1.0, 4.0, 0.5]},
    }[name]
    layer = getattr(keras.layers, name)(**options)
    beside_keras(layer, in_format(text_of(name, options), "channels_last"), [numbers(2, 4, 5, 3)], tolerance=1e-5)


def test_concatenate_follows_the_data_format():
    a, b = numbers(2, 4, 3, 2), numbers(2, 4, 3, 1, seed=2)
    ((found,), _) = ours("Concatenate { data_format: channels_last }", [a, b], {})
    np.testing.assert_array_equal(found, np.concatenate([a, b], axis=-1))


def test_a_wrong_number_of_axes_names_them_in_the_order_of_the_data_format():
    with pytest.raises(Exception, match=r"3 dimensions \(rows, columns, channels\), got 2"):
        ours("Conv2D { filters: 2  kernel_size: 3  data_format: channels_last }", [numbers(2, 4, 2)], {})


def test_features_of_steps_are_the_channels_of_the_layers_behind():
    """Words as vectors, as in Keras: 8 factors of a normalization, and two sequences joined along their features."""
    text = """input { shape: [60]  dtype: int32 }
    Embedding { name: "words"  input_dim: 20  output_dim: 8 }
    BatchNormalization { name: "norm" }
    Conv1D { name: "conv"  filters: 4  kernel_size: 3  activation: relu }
    Concatenate { name: "both"  bottom: ["conv", "conv"] }
    output: "both"
    """
    model = model_from_text(text)
    words = keras.Input((60,), dtype="int32")
    peer_norm, peer_conv = keras.layers.BatchNormalization(), keras.layers.Conv1D(4, 3, activation="relu")
    embed = keras.layers.Embedding(20, 8)
    y = peer_conv(peer_norm(embed(words)))
    peer = keras.Model(words, keras.layers.Concatenate()([y, y]))
    weights = model.get_weights()
    assert weights["norm/gamma"].shape == (8,)
    embed.embeddings.assign(weights["words/embeddings"])
    peer_conv.kernel.assign(weights["conv/kernel"].transpose(2, 1, 0))
    x = np.random.default_rng(0).integers(0, 20, (3, 60)).astype(np.int32)
    ours_out, theirs = model.predict(x), peer(torch.tensor(x)).detach().numpy()
    assert ours_out.shape == theirs.shape == (3, 58, 8)
    np.testing.assert_allclose(ours_out, theirs, rtol=1e-5, atol=1e-6)


def test_a_convolution_on_every_step_is_keras():
    layer = keras.layers.TimeDistributed(keras.layers.Conv1D(3, 2))
    text = "TimeDistributed { Conv1D { filters: 3  kernel_size: 2 } }"
    x = numbers(2, 4, 5, 2)
    weights = random_weights(text, [x])
    mine = ours(text, [x], weights)
    kernel, bias = weights["layer/kernel"].transpose(2, 1, 0), weights["layer/bias"]
    outputs, grads = keras_side(layer, lambda one, t: one(t[0]), [x], {"kernel": kernel, "bias": bias})
    theirs = {"x0": grads["x0"], "layer/kernel": grads["kernel"].transpose(2, 1, 0), "layer/bias": grads["bias"]}
    assert_same(mine, (outputs, theirs), KERAS)


@pytest.mark.parametrize("batch_axes", [2, 10**9, 2**62])
def test_a_wrong_number_of_axes_is_named_with_the_axes_of_the_batch(batch_axes):
    text = f"Conv1D {{ filters: 2  kernel_size: 3  batch_axes: {batch_axes}  data_format: channels_last }}"
    message = (
        rf"batch_axes {batch_axes} .* have {batch_axes + 2} axes.*{batch_axes} of the batch, steps, channels\), got 3"
    )
    with pytest.raises(ShapeError, match=message):
        ours(text, [numbers(2, 4, 2)], {})


@pytest.mark.parametrize(
    "layer", ["Conv2D { filters: 4  kernel_size: 3", "MaxPooling2D { pool_size: 2", "RandomFlip {"]
)
def test_images_with_their_channels_last_are_reported_to_a_layer_that_has_them_first(layer):
    text = f"input {{ shape: [28, 28, 3] }}  {layer} }}  Flatten {{ }}  Dense {{ units: 2 }}"
    with pytest.warns(ModelWarning, match="28 x 28 pixels with their 3 channels last.*data_format: channels_last"):
        model_from_text(text).summary()


@pytest.mark.parametrize("shape", [[3, 28, 28], [4, 28, 3], [28, 28, 5], [28, 4, 3]])
@pytest.mark.parametrize("field", ["", "data_format: channels_first"])
def test_other_shapes_are_not_reported(shape, field):
    model_from_text(f"input {{ shape: {shape} }}  ZeroPadding2D {{ {field} }}  Dense {{ units: 2 }}").summary()


def test_a_layer_that_says_its_data_format_is_not_warned_about():
    for data_format in ("channels_first", "channels_last"):
        text = f"input {{ shape: [28, 28, 3] }}  ZeroPadding2D {{ data_format: {data_format} }}  Dense {{ units: 2 }}"
        model_from_text(text).summary()
