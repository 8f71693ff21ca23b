"""Layers that learn constants from data: Keras is the oracle where its layers run without TensorFlow."""

from __future__ import annotations

import copy

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch import layers
from prototorch.errors import DataError, TextError, UsageError
from prototorch.model.load import model_from_text

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (500, 3)).astype(np.float32)
NET = """
input {{ name: "row"  shape: [{width}] {dtype} }}
{layers}
Dense {{ name: "out"  units: 1 }}
compile {{ loss: mse  optimizer: sgd {{ learning_rate: 0.01 }}  seed: 1 }}
"""


def net(text, width=3, dtype=""):
    return model_from_text(NET.format(layers=text, width=width, dtype=dtype))


def apply(layer, values):
    return np.asarray(layer(pt.tensor(values)))


@pytest.mark.parametrize("shape", [(200, 3), (200, 4, 3), (200,)])
def test_normalization_is_that_of_keras(shape):
    data = RNG.normal(5, 3, shape).astype(np.float32)
    layer, peer = layers.Normalization(), keras.layers.Normalization(axis=None if len(shape) == 1 else -1)
    layer.adapt(data)
    peer.adapt(data)
    np.testing.assert_allclose(layer.mean, np.ravel(peer.mean), rtol=1e-5)
    np.testing.assert_allclose(layer.variance, np.ravel(peer.variance), rtol=1e-4)
    if len(shape) > 1:
        np.testing.assert_allclose(apply(layer, data), np.asarray(peer(data)), rtol=1e-3, atol=1e-4)


def test_batches_give_the_same_statistics_as_all_data():
    whole, parts = layers.Normalization(), layers.Normalization()
    whole.adapt(X)
    parts.adapt(X[i : i + 7] for i in range(0, 500, 7))
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-9)
    np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-9)
    np.testing.assert_allclose(whole.variance, X.astype(np.float64).var(0), rtol=1e-9)
    limited = layers.Normalization()
    limited.adapt((X[i : i + 7] for i in range(0, 500, 7)), steps=2)
    np.testing.assert_allclose(limited.mean, X[:14].astype(np.float64).mean(0), rtol=1e-9)


@pytest.mark.parametrize("size", [5000, 64])
@pytest.mark.parametrize(("count", "num_bins", "epsilon"), [(1000, 4, 0.01), (37, 5, 0.1), (5000, 10, 0.02)])
def test_discretization_learns_the_boundaries_of_keras(count, num_bins, epsilon, size):
    data = RNG.normal(size=(count, 2)).astype(np.float32)
    layer = layers.Discretization(num_bins=num_bins, epsilon=epsilon)
    peer = keras.layers.Discretization(num_bins=num_bins, epsilon=epsilon)
    layer.adapt(data[i : i + size] for i in range(0, count, size))
    for i in range(0, count, size):
        peer.update_state(data[i : i + size])  # its adapt needs TensorFlow
    peer.finalize_state()
    np.testing.assert_allclose(layer.bin_boundaries, peer.bin_boundaries, rtol=1e-6)
    np.testing.assert_array_equal(apply(layer, data), np.asarray(peer(data)))


def test_discretization_with_boundaries_is_that_of_keras():
    values = np.array([[-1.0, 0.0, 0.5, 1.0, 2.0, 1e9]], np.float32)
    peer = keras.layers.Discretization(bin_boundaries=[0.0, 1.0])
    layer = layers.Discretization(bin_boundaries=[0.0, 1.0])
    np.testing.assert_array_equal(apply(layer, values), np.asarray(peer(values)))


@pytest.mark.parametrize("mode", ["multi_hot", "one_hot", "count"])
@pytest.mark.parametrize("shape", [(5, 3), (5, 1)])
def test_category_encoding_is_that_of_keras(mode, shape):
    values = RNG.integers(0, 4, shape).astype(np.int32)
    layer, peer = layers.CategoryEncoding(4, mode), keras.layers.CategoryEncoding(4, mode)
    np.testing.assert_array_equal(apply(layer, values), np.asarray(peer(values)))


def test_integer_lookup_is_as_keras_documents_it():
    values = np.array([[12, 1138, 42], [42, 1000, 36]])
    layer = layers.IntegerLookup(vocabulary=[12, 36, 1138, 42])
    assert apply(layer, values).tolist() == [[1, 3, 4], [4, 0, 2]]
    learned = layers.IntegerLookup()
    learned.adapt(values)
    assert learned.get_vocabulary() == [-1, 42, 1138, 1000, 36, 12]
    assert apply(learned, values).tolist() == [[5, 2, 1], [1, 3, 4]]
    several = layers.IntegerLookup(vocabulary=[12, 36, 1138, 42], num_oov_indices=2)
    assert apply(several, np.array([[12, 1138, 42], [37, 1000, 36]])).tolist() == [[2, 4, 5], [1, 0, 3]]
    masked = layers.IntegerLookup(mask_token=0, max_tokens=4)
    masked.adapt(np.array([0, 0, 0, 7, 7, 5, 3]))
    assert masked.get_vocabulary() == [0, -1, 7, 5]
    assert apply(masked, np.array([[0, 7, 5, 3]])).tolist() == [[0, 2, 3, 1]]


@pytest.mark.parametrize("place", ["{}", "preprocess {{ {} }}"])
def test_fit_learns_what_is_left_out_from_the_training_part(tmp_path, place):
    model = net(place.format('Normalization { name: "norm" }'))
    y = X.sum(1)
    with pytest.raises(UsageError, match=r"norm.*its mean and variance are not known yet: fit learns them"):
        model.predict(X)
    with pytest.raises(UsageError, match="not known yet"):
        model.export(tmp_path / "m.onnx")
    model.fit(X, y, validation_split=0.2, epochs=2, verbose=0)
    (layer,) = [one for one in (*model.net.preprocess, *model.layers) if one.name == "norm"]
    np.testing.assert_allclose(layer.mean, X[:400].astype(np.float64).mean(0), rtol=1e-6)
    predictions = model.predict(X)
    kernel, bias = (np.asarray(model.weights[f"out/{n}"]) for n in ("kernel", "bias"))
    expected = (X - X[:400].mean(0)) / X[:400].std(0) @ kernel + bias
    np.testing.assert_allclose(predictions, expected, rtol=1e-3, atol=1e-3)
    model.save(tmp_path / "m.h5")
    loaded = pt.load_model(tmp_path / "m.h5")
    np.testing.assert_allclose(loaded.predict(X), predictions, rtol=1e-6)
    np.testing.assert_allclose(copy.deepcopy(model).predict(X), predictions, rtol=1e-6)
    runtime = pytest.importorskip("onnxruntime")
    loaded.export(tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    (output,) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(output, predictions, rtol=1e-4, atol=1e-5)
    before = layer.mean
    model.fit(2 * X, y, epochs=1, verbose=0)
    assert layer.mean == before  # a second training keeps it


def test_layers_behind_one_another_learn_in_order(tmp_path):
    model = net('Normalization { }  Discretization { name: "bins"  num_bins: 4 }  CategoryEncoding { num_tokens: 5 }')
    model.fit(X, X[:, 0], epochs=1, verbose=0)
    normalization, peer = keras.layers.Normalization(), keras.layers.Discretization(num_bins=4)
    normalization.adapt(X)
    peer.update_state(np.asarray(normalization(X)))
    peer.finalize_state()
    np.testing.assert_allclose(model.get_layer("bins").bin_boundaries, peer.bin_boundaries, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "m.h5")
    np.testing.assert_allclose(pt.load_model(tmp_path / "m.h5").predict(X), model.predict(X), rtol=1e-6)


def test_an_adapted_layer_changes_plans_that_have_run():
    model = net('Normalization { name: "norm" }')
    model.get_layer("norm").adapt(X)
    first = model.predict(X)
    model.get_layer("norm").adapt(X + 100)
    second = model.predict(X + 100)
    np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-3)


def test_integers_become_vectors_of_a_vocabulary_that_fit_learns(tmp_path):
    codes = RNG.choice([11, 500, 70_000, -3], (200, 1))
    text = 'IntegerLookup { name: "codes" }  Embedding { input_dim: 5  output_dim: 3 }  Flatten { }'
    model = net(text, width=1, dtype="dtype: int64")
    model.fit(codes, (codes[:, 0] > 100).astype(np.float32), epochs=1, verbose=0)
    assert sorted(model.get_layer("codes").vocabulary) == [-3, 11, 500, 70_000]
    model.save(tmp_path / "m.h5")
    np.testing.assert_allclose(pt.load_model(tmp_path / "m.h5").predict(codes), model.predict(codes), rtol=1e-6)
    unseen = model.predict(np.array([[12345], [999]]))
    assert unseen[0] == unseen[1]


def test_streams_and_layers_behind_others_say_what_to_do():
    model = net("Normalization { }")
    with pytest.raises(UsageError, match="learns from the whole training data, and these are a stream"):
        model.fit(iter([(X[:10], X[:10, 0])] * 3), steps_per_epoch=1, verbose=0)
    with pytest.raises(UsageError, match="stands behind other layers, and learns nothing"):
        net("Dense { units: 3 }  Normalization { }").fit(X, X[:, 0], verbose=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Normalization { mean: 1 }", "write mean and variance, or none of them"),
        ("Discretization { bin_boundaries: [1, 0] }", "bin_boundaries must rise"),
        ("IntegerLookup { vocabulary: [1, 1] }", "different integers"),
    ],
)
def test_statements_that_contradict_themselves(text, message):
    with pytest.raises(TextError, match=message):
        net(text)


@pytest.mark.parametrize(
    ("layer", "data", "message"),
    [
        (layers.Normalization(), ["a"], "expected numbers"),
        (layers.Normalization(), [X, X[:, :2]], "inhomogeneous|expected numbers|positions"),
        (layers.IntegerLookup(), X, "expected integers"),
        (layers.Discretization(), X, "write num_bins, the number of bins that are learned"),
        (layers.Normalization(), iter([]), "there are no data"),
        (layers.Normalization(), 3, "expected an array or batches"),
    ],
)
def test_data_that_teach_nothing(layer, data, message):
    with pytest.raises((UsageError, DataError, ValueError), match=message):
        layer.adapt(data)
