"""Layers of a model that are used again bring their weights along, as in Keras; and models are called."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import prototorch as pt
from prototorch.eager.layer_call import weights_of
from prototorch.errors import UsageError

L = pt.layers
X = np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, 3, 12)


def trained():
    x = pt.Input((5,))
    y = L.Dense(4, activation="tanh", name="hidden")(x)
    y = L.BatchNormalization(name="norm")(y)
    model = pt.Model(x, L.Dense(3, activation="softmax", name="head")(y), name="trained")
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(X, Y, epochs=2, verbose=0)
    return model


def same_weights(a, b, names=("hidden/kernel", "hidden/bias")):
    return all(np.array_equal(a.get_weights()[n], b.get_weights()[n]) for n in names)


def test_a_layer_of_a_trained_model_on_symbols_brings_its_weights():
    model = trained()
    x = pt.Input((5,))
    features = pt.Model(x, model.get_layer("hidden")(x))
    weights = model.get_weights()
    np.testing.assert_allclose(
        features.predict(X), np.tanh(X @ weights["hidden/kernel"] + weights["hidden/bias"]), rtol=1e-5, atol=1e-6
    )


def test_training_one_model_changes_the_other_and_its_own_layers_alone():
    model = trained()
    x = pt.Input((5,))
    other = pt.Model(x, L.Dense(1)(model.get_layer("hidden")(x)))
    before, head = model.predict(X), model.get_weights()["head/kernel"]
    assert other.predict(X).shape == (12, 1)
    other.compile(pt.optimizers.SGD(0.1), "mse")
    for _ in range(3):  # each trains after the other has predicted
        other.fit(X, X[:, :1], epochs=1, verbose=0)
        after = model.predict(X)
        assert not np.array_equal(before, after)
        weights = model.get_weights()
        hidden = np.tanh(X @ weights["hidden/kernel"] + weights["hidden/bias"])
        scale = weights["norm/gamma"] / np.sqrt(weights["norm/moving_variance"] + 1e-3)
        logits = ((hidden - weights["norm/moving_mean"]) * scale + weights["norm/beta"]) @ head + weights["head/bias"]
        expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-6)
        before = after
    assert same_weights(model, other)
    assert np.array_equal(head, model.get_weights()["head/kernel"])
    model.fit(X, Y, epochs=1, verbose=0)
    assert same_weights(model, other)
    hidden = np.tanh(X @ model.weights["hidden/kernel"] + model.weights["hidden/bias"])
    dense = other.get_weights()
    np.testing.assert_allclose(
        other.predict(X), hidden @ dense["dense_1/kernel"] + dense["dense_1/bias"], rtol=1e-4, atol=1e-5
    )


def test_weights_written_by_name_in_one_model_are_those_of_the_other():
    model = trained()
    x = pt.Input((5,))
    other = pt.Model(x, model.get_layer("hidden")(x))
    other.predict(X)
    model.weights["hidden/kernel"] = np.zeros((5, 4))
    model.weights["hidden/bias"] = np.full(4, 0.5)
    np.testing.assert_allclose(other.predict(X), np.full((12, 4), np.tanh(0.5)), rtol=1e-6)
    other.set_weights({"hidden/kernel": np.ones((5, 4)), "hidden/bias": np.zeros(4)})
    assert model.get_weights()["hidden/kernel"].min() == 1


def test_one_layer_object_in_two_models_that_are_not_built_yet():
    dense = L.Dense(4, name="d")
    a, b = ((lambda x: pt.Model(x, dense(x)))(pt.Input((5,))) for _ in range(2))
    c = pt.Model(z := pt.Input((5,)), L.Dense(1)(dense(z)))
    assert np.array_equal(a.predict(X), b.predict(X))
    c.compile("sgd", "mse")
    c.fit(X, X[:, :1], verbose=0)
    assert np.array_equal(a.predict(X), b.predict(X))
    assert np.array_equal(a.get_weights()["d/kernel"], c.get_weights()["d/kernel"])


def test_the_weights_stay_when_the_first_model_is_gone():
    model = trained()
    expected, layer = model.get_weights()["hidden/kernel"], model.get_layer("hidden")
    del model
    gc.collect()
    x = pt.Input((5,))
    assert np.array_equal(pt.Model(x, layer(x)).get_weights()["hidden/kernel"], expected)


def test_a_loaded_model_is_a_feature_extractor_frozen_and_saved(tmp_path):
    trained().save(tmp_path / "base.h5")
    base = pt.load_model(tmp_path / "base.h5")
    base.trainable = False
    x = pt.Input((5,))
    model = pt.Model(x, L.Dense(2, name="new")(base(x)))
    model.compile("adam", "mse")
    before = base.get_weights()
    model.fit(X, X[:, :2], epochs=1, verbose=0)
    assert all(np.array_equal(before[n], a) for n, a in base.get_weights().items())
    model.save(tmp_path / "new.h5")
    again = pt.load_model(tmp_path / "new.h5")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_two_models_with_layers_of_the_same_names_are_joined():
    first, second = trained(), trained()
    x = pt.Input((5,))
    both = pt.Model(x, L.Add()(first(x), second(x)))
    np.testing.assert_allclose(both.predict(X), first.predict(X) + second.predict(X), rtol=1e-5)


def test_a_model_called_twice_shares_its_weights():
    base = trained()
    a, b = pt.Input((5,), name="a"), pt.Input((5,), name="b")
    twins = pt.Model([a, b], L.Subtract()(base(a), base(b)))
    assert twins.count_params() == base.count_params()
    assert np.abs(twins.predict({"a": X, "b": X})).max() == 0


def test_a_layer_inside_time_distributed_brings_its_weights():
    model = trained()
    x = pt.Input((2, 5))
    steps = pt.Model(x, L.TimeDistributed(model.get_layer("hidden"))(x))
    weights = model.get_weights()
    expected = np.tanh(X.reshape(6, 2, 5) @ weights["hidden/kernel"] + weights["hidden/bias"])
    np.testing.assert_allclose(steps.predict(X.reshape(6, 2, 5)), expected, rtol=1e-5, atol=1e-6)


def test_one_layer_inside_and_outside_of_another_is_refused():
    dense = L.Dense(5)
    x = pt.Input((2, 5))
    model = pt.Model(x, L.TimeDistributed(dense)(dense(x)))
    with pytest.raises(UsageError, match=r"'dense_1' and as 'time_distributed_1/layer'.*make two objects"):
        model.build()


def test_a_copy_of_a_layer_has_its_weights_where_its_own_fields_are_the_same():
    model = trained()
    x = pt.Input((5,))
    frozen = model.get_layer("hidden").replace(name="frozen", trainable=False)
    assert np.array_equal(pt.Model(x, frozen(x)).get_weights()["frozen/kernel"], model.get_weights()["hidden/kernel"])
    other = model.get_layer("hidden").replace(name="other", units=4, activation="relu")
    assert not np.array_equal(pt.Model(x, other(x)).get_weights()["other/kernel"], model.get_weights()["hidden/kernel"])


# ---------------------------------------------------------------- calls


def test_a_model_called_on_arrays_and_tensors_gives_what_it_predicts():
    model = trained()
    expected = model.predict(X)
    np.testing.assert_allclose(model(X).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(pt.tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model({"input": X}).numpy(), expected, rtol=1e-5, atol=1e-6)
    before = model.get_weights()["norm/moving_mean"]
    assert not np.allclose(model(X, training=True).numpy(), expected)
    assert not np.array_equal(before, model.get_weights()["norm/moving_mean"])  # as a training step does
    np.testing.assert_allclose(model.predict(X), model(X).numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_of_a_call_reach_the_weights_of_the_model():
    model = trained()
    weights = model.get_weights()
    loss = pt.ops.sum(model(X) * np.arange(3, dtype=np.float32))
    loss.backward()
    kernel = weights_of(model.get_layer("head"))["kernel"]
    direction = np.zeros((4, 3), np.float32)
    direction[1, 2] = 1e-2
    values = []
    for sign in (1, -1):
        kernel.data[...] = weights["head/kernel"] + sign * direction
        values.append(float((model.predict(X) * np.arange(3)).sum()))
    np.testing.assert_allclose(kernel.grad.numpy()[1, 2], (values[0] - values[1]) / 2e-2, rtol=1e-2)


def test_eager_weights_become_those_of_the_model():
    dense = L.Dense(4, name="d")
    made = dense(pt.tensor(X)).numpy()
    x = pt.Input((5,))
    model = pt.Model(x, dense(x))
    np.testing.assert_allclose(model.predict(X), made, rtol=1e-5, atol=1e-6)
    weights_of(dense)["bias"].data[...] = 1
    np.testing.assert_allclose(model.predict(X), made + 1, rtol=1e-5, atol=1e-6)
    model.weights["d/bias"] = np.zeros(4)
    np.testing.assert_allclose(dense(pt.tensor(X)).numpy(), made, rtol=1e-5, atol=1e-6)


def test_preprocess_layers_come_first_in_a_call():
    x = pt.Input((5,))
    model = pt.Model(x, L.Dense(2)(x), preprocess=[L.Rescaling(0.5)])
    np.testing.assert_allclose(model(X).numpy(), model.predict(X), rtol=1e-5, atol=1e-6)
    z = pt.Input((5,))
    np.testing.assert_allclose(pt.Model(z, model(z)).predict(X), model.predict(X), rtol=1e-5, atol=1e-6)


def test_wrong_calls_are_refused():
    model = trained()
    with pytest.raises(UsageError, match=r"takes 1 input \(input\), got 2"):
        model(X, X)
    with pytest.raises(UsageError, match=r"takes 1 input \(input\), got image"):
        model({"image": X})
    with pytest.raises(UsageError, match="the input 'input' takes numbers of dtype float32"):
        model(object())
