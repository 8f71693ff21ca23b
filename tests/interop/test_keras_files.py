"""Files that Keras writes are read here: every array is that of the layer and the weight that it is named for."""

import numpy as np
import pytest

from prototorch.model.loading.read.read_file import read_weights
from tests.interop import keras_nets


def own_weights(model, prefix=""):
    """Layer path -> its arrays in Keras' order, of all layers with weights, those of models inside too."""
    for layer in model.layers:
        if hasattr(layer, "layers") and not hasattr(layer, "layer"):
            yield from own_weights(layer, f"{prefix}{layer.name}/")
        elif layer.weights:
            yield prefix + layer.name, layer


@pytest.mark.parametrize("how", keras_nets.WRITERS)
@pytest.mark.parametrize("net", keras_nets.NETS)
def test_weights_of_every_layer(tmp_path, net, how):
    model = keras_nets.build(net)
    file = read_weights(keras_nets.write(model, how, tmp_path))
    assert file.system == "keras"
    layers = {layer.name: layer for layer in file.layers if layer.weights}
    expected = dict(own_weights(model))
    if file.metadata.get("names") == "class order":
        expected = by_class_order(expected)
    assert set(layers) == set(expected)
    assert sorted(file) == sorted(name for layer in layers.values() for name in layer.weights)
    for name, layer in expected.items():
        arrays = [file[weight] for weight in layers[name].weights]
        assert len(arrays) == len(layer.weights)
        for weight, variable, array in zip(layers[name].weights, layer.weights, arrays, strict=True):
            np.testing.assert_array_equal(array, variable.value.detach().numpy())
            last = weight.split("/")[-1]
            assert last == variable.name or last.isdigit()
        assert layers[name].kind in ("", type(layer).__name__)


def by_class_order(layers):
    """The same layers by Keras' own keys: their class with a number."""
    from keras.src.utils.naming import to_snake_case

    counts, result = {}, {}
    for path, layer in layers.items():
        folder, _, _ = path.rpartition("/")
        key = f"{folder and 'sequential/'}{to_snake_case(type(layer).__name__)}"
        number = counts[key] = counts.get(key, -1) + 1
        result[f"{key}_{number}" if number else key] = layer
    return result
