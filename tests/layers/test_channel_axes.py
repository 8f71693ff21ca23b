"""The table of the channel axis in docs/language.md: each row beside Keras, and every class of a layer in a row."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.spec import Spec
from tests import channel_axes
from tests.keras_random.differences import differs
from tests.keras_random.layer_cases import keras_layer, peer_fields
from tests.layers.compare import keras_named, numbers
from tests.layers.kernel_layouts import moved, split
from tests.layers.peers import KERAS, assert_same, ours, random_weights

ROWS = list(channel_axes.rows())
CHANNELS = 6
PER_CHANNEL = "[0.5, 1, 2, 3, -1, 0.25]"
#: fields of the layers over arrays of any rank
FIELDS = {
    "BatchNormalization": "epsilon: 0.01",
    "Concatenate": "",
    "GroupNormalization": "groups: 3",
    "LRN": "size: 3",
    "Normalization": f"mean: {PER_CHANNEL}  variance: [1, 4, 0.5, 2, 9, 3]",
    "Rescaling": f"scale: {PER_CHANNEL}  offset: {PER_CHANNEL}",
}


def has_keras_peer(name):
    is_other_in_keras = name == "RandomCrop" and differs("RandomCrop outside training")
    return hasattr(keras.layers, name) and not is_other_in_keras


def case(name, rank, axis):
    """The text of a layer without its last brace, and its inputs with their channels last."""
    cls = Layer.members()[name]
    if name in FIELDS:
        sizes = (3, 4, 2, 5)[: rank - 1]
        others = [CHANNELS, 2] if name == "Concatenate" else [CHANNELS]
        return f"{name} {{ {FIELDS[name]}", [numbers(2, *sizes, n, seed=n) for n in others]
    for one in cls.examples:
        layer = parse_layer(one.text)
        if getattr(layer, "batch_axes", 1) == 1 and layer.data_format is None and layer.reads_rank(rank):
            low, high = one.extra.get("range", (-1, 1))
            inputs = [numbers(2, *shape, low=low, high=high) for shape in one.inputs]
            return one.text.rstrip()[:-1], [np.moveaxis(x, axis, -1) for x in inputs]
    raise AssertionError(f"{name} has no example of rank {rank}")


def kernel_maps(name, rank, channels):
    """The layouts of Keras' kernels."""
    if "Depthwise" in name or "Separable" in name:
        part = split(rank, channels)
        return {"kernel": part, "depthwise_kernel": part, "pointwise_kernel": moved(rank)}
    return dict.fromkeys(("kernel", "recurrent_kernel"), moved(rank)) if "Conv" in name else {}


def keras_peer(layer, axis, rank, is_default):
    """Keras' layer with the channels at an axis: by its data_format or its axis, else between transposes."""
    is_last, known = axis == rank, peer_fields(type(layer))
    if "data_format" in known:
        return keras_layer(layer, "channels_last" if is_last else "channels_first")
    if "axis" in known:
        return keras_layer(layer, axis=-1 if is_default and is_last else axis)  # -1 is Keras' default
    peer = keras_layer(layer)
    there = [*(i for i in range(1, rank + 1) if i != axis), axis]
    back = [there.index(i) + 1 for i in range(1, rank + 1)]
    return peer if is_last else keras.Sequential([keras.layers.Permute(there), peer, keras.layers.Permute(back)])


@pytest.mark.parametrize("index", range(len(channel_axes.FORMATS)), ids=[str(f) for f in channel_axes.FORMATS])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_each_row_is_keras(row, index):
    name, rank, axes = row
    data_format, axis = channel_axes.FORMATS[index], axes[index]
    start, inputs_last = case(name, rank, axes[0])
    text = f"{start}  data_format: {data_format} }}" if data_format else f"{start} }}"
    layer = parse_layer(text)
    inputs = [np.moveaxis(x, -1, axis) for x in inputs_last]
    weights = {n: np.abs(w) + 0.3 if "variance" in n else w for n, w in random_weights(text, inputs).items()}
    mine = ours(text, inputs, weights)
    if has_keras_peer(name):
        maps = kernel_maps(name, getattr(layer, "rank", rank), inputs_last[0].shape[-1])
        peer = keras_peer(layer, axis, rank, is_default=data_format is None)
        assert_same(mine, keras_named(peer, inputs, weights, maps), KERAS)
    else:  # as the same layer with its channels first, which has tests of its own beside PyTorch and Caffe
        inputs_first = [np.moveaxis(x, -1, axes[2]) for x in inputs_last]
        first = ours(f"{start}  data_format: channels_first }}", inputs_first, weights)[0]
        for mine_output, output in zip(mine[0], first, strict=True):
            moves = isinstance(layer, MapLayer) and output.ndim == rank + 1
            np.testing.assert_allclose(mine_output, np.moveaxis(output, axes[2], axis) if moves else output, rtol=1e-12)


@pytest.mark.parametrize("data_format", channel_axes.FORMATS, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_spatial_dropout_drops_whole_channels_in_each_format(rank, data_format):
    name = f"SpatialDropout{rank}D"
    axis = next(axes for layer, _, axes in ROWS if layer == name)[channel_axes.FORMATS.index(data_format)]
    text = f"{name} {{ rate: 0.5 {f'data_format: {data_format}' if data_format else ''} }}"
    x = np.moveaxis(np.ones((8, *(3, 4, 5)[:rank], 16)), -1, axis)
    channels = np.moveaxis(outputs(text, [x], training=True)[0], axis, 1).reshape(8, 16, -1)
    assert (channels == channels[..., :1]).all()
    assert set(np.unique(channels)) == {0.0, 2.0}


def outputs(text, inputs, training):
    """The outputs of a layer without weights."""
    traced = trace_layer(Graph(), parse_layer(text), [Spec(x.shape, str(x.dtype)) for x in inputs], training, "float64")
    results = CompiledLayer(traced, named_outputs(traced), cpu(), {})(inputs, key=(1, 2))
    return [results[f"y{i}"] for i in range(len(traced.outputs))]


def test_the_page_has_the_table():
    assert channel_axes.format_table() in channel_axes.PAGE.read_text("utf-8"), "python -m tests.channel_axes writes it"


def test_every_class_of_a_layer_is_in_the_table():
    following = {name for name, *_ in ROWS}
    assert following == set(channel_axes.followers())
    assert following | set(channel_axes.notes()) | set(channel_axes.alike()) == {
        name for name, _ in channel_axes.package_layers()
    }
    assert not set(channel_axes.alike()) & (following | set(channel_axes.notes()))


@pytest.mark.parametrize("name", channel_axes.alike())
def test_a_layer_without_a_note_treats_all_elements_alike(name):
    """Its output for inputs with their axes exchanged is its output with these exchanged, or a number for all."""
    (one, *_) = Layer.members()[name].examples
    ranges, dtypes = one.extra.get("range", (-1, 1)), one.dtype
    ranges = ranges if isinstance(ranges[0], tuple) else [ranges] * len(one.inputs)
    dtypes = [dtypes] * len(one.inputs) if isinstance(dtypes, str) else dtypes
    inputs = []
    for i, (shape, (low, high), dtype) in enumerate(zip(one.inputs, ranges, dtypes, strict=True)):
        x = numbers(*((3, 2, 3, 4) if shape else (3,)), low=low, high=high, seed=i)
        inputs.append(x > (low + high) / 2 if dtype == "bool" else x.astype(dtype.replace("float32", "float64")))
    before = outputs(one.text, inputs, training=False)
    after = outputs(one.text, [exchange(x) for x in inputs], training=False)
    for y, exchanged in zip(before, after, strict=True):
        np.testing.assert_allclose(exchange(y), exchanged, rtol=1e-12)


def exchange(x):
    """An array with its axes but the batch's in another order."""
    return x.transpose(0, 3, 1, 2) if x.ndim > 1 else x
