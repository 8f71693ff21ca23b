"""The mask of an output leaves steps out of the loss and of the metrics, as in Keras."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch import losses as L
from prototorch import metrics as M
from prototorch import tensor
from prototorch.errors import ShapeError

# Keras reads its PyTorch variables in a way that NumPy 2 advises against
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

RNG = np.random.default_rng(5)
TOKENS = RNG.integers(1, 9, size=(6, 5))
TOKENS[0, 2:] = TOKENS[2, 4:] = TOKENS[3, 1:] = TOKENS[4] = 0  # paddings; sample 4 has no step at all
LABELS = RNG.integers(0, 4, size=(6, 5))
VECTORS = RNG.normal(size=(6, 5, 3)).astype(np.float32) * (TOKENS != 0)[..., None]
BITS = RNG.integers(0, 2, size=(6, 5, 1)).astype(np.float32)
REAL = RNG.normal(size=(6, 5, 2)).astype(np.float32)
WEIGHTS = RNG.uniform(0.2, 2.0, size=6).astype(np.float32)


def tagger(module, activation="softmax"):
    """Tokens -> a distribution over four classes at each step."""
    x = module.Input((5,), dtype="int32")
    y = module.layers.Embedding(9, 3, mask_zero=True)(x)
    y = module.layers.LSTM(4, return_sequences=True)(y)
    return module.Model(x, module.layers.Dense(4, activation=activation)(y))


def chain(module, units, activation="linear"):
    """Vectors, those of zeros masked -> numbers at each step."""
    x = module.Input((5, 3))
    y = module.layers.GRU(4, return_sequences=True)(module.layers.Masking()(x))
    # the bias keeps the outputs of a sample without steps from zero, where Keras' cosine has no gradient
    return module.Model(x, module.layers.Dense(units, activation=activation, bias_initializer="ones")(y))


def logits(module):
    return tagger(module, "linear")


def yes_or_no(module):
    return chain(module, 1, "sigmoid")


def numbers(module):
    return chain(module, 2)


CASES = {
    "classes": (tagger, TOKENS, LABELS, "SparseCategoricalCrossentropy", {}, ["SparseCategoricalAccuracy"]),
    "one hot": (tagger, TOKENS, np.eye(4, dtype=np.float32)[LABELS], "CategoricalCrossentropy", {},
                ["CategoricalAccuracy", "CategoricalCrossentropy"]),
    "logits": (logits, TOKENS, LABELS, "SparseCategoricalCrossentropy", {"from_logits": True},
               ["SparseCategoricalAccuracy"]),
    "ignored class": (logits, TOKENS, LABELS, "SparseCategoricalCrossentropy",
                      {"from_logits": True, "ignore_class": 0}, []),
    "binary": (yes_or_no, VECTORS, BITS, "BinaryCrossentropy", {}, ["BinaryAccuracy", "BinaryCrossentropy"]),
    "numbers": (numbers, VECTORS, REAL, "MeanSquaredError", {}, ["MeanAbsoluteError", "MeanSquaredError"]),
    "angles": (numbers, VECTORS, REAL, "CosineSimilarity", {}, ["CosineSimilarity"]),
}  # fmt: skip


def pair(name, weighted):
    """The same net in both, with the same weights."""
    build, x, y, loss, options, metrics = CASES[name]
    ours, theirs = build(pt), build(keras)
    kind = "weighted_metrics" if weighted else "metrics"
    ours.compile(pt.optimizers.SGD(0.5), getattr(L, loss)(**options), **{kind: [getattr(M, m)() for m in metrics]})
    their_metrics = {kind: [getattr(keras.metrics, m)() for m in metrics]}
    theirs.compile(keras.optimizers.SGD(0.5), getattr(keras.losses, loss)(**options), **their_metrics)
    theirs.set_weights(fitting(ours, theirs))
    return ours, theirs, x, y


def fitting(ours, theirs):
    """Our weights in Keras' order and shapes (a GRU has its two biases as two rows there)."""
    here = ours.get_weights()
    return [a.reshape(w.shape) for a, w in zip(here.values(), theirs.get_weights(), strict=True)]


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("name", CASES)
def test_masked_outputs_train_as_in_keras(name, weighted):
    ours, theirs, x, y = pair(name, weighted)
    given = {"sample_weight": WEIGHTS} if weighted else {}
    # beside a mask Keras on PyTorch takes only one weight for each step
    wanted = {"sample_weight": np.repeat(WEIGHTS[:, None], 5, 1)} if weighted else {}
    for _ in range(3):
        mine = ours.train_on_batch(x, y, **given)
        other = theirs.train_on_batch(x, y, return_dict=True, **wanted)
        assert mine.keys() == other.keys()
        # float32 on both sides; the second and third step also carry the differences of the weights
        np.testing.assert_allclose([mine[k] for k in other], list(other.values()), rtol=3e-5, atol=1e-6)
    for a, b in zip(fitting(ours, theirs), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
    # Keras on PyTorch changes the weights in place by each batch's share of masked steps, which one batch does not show
    size = 6 if weighted else 4
    mine = ours.evaluate(x, y, batch_size=size, **given)
    other = theirs.evaluate(x, y, batch_size=size, verbose=0, return_dict=True, **wanted)
    np.testing.assert_allclose([mine[k] for k in other], list(other.values()), rtol=3e-5, atol=1e-6)


def test_what_is_masked_changes_nothing():
    ours, _, x, y = pair("classes", False)
    other = np.where(TOKENS == 0, (y + 1) % 4, y)
    assert ours.test_on_batch(x, y) == ours.test_on_batch(x, other)


def test_all_masked_is_no_loss():
    ours, _, x, y = pair("classes", False)
    expected = {"loss": 0.0, "sparse_categorical_accuracy": 0.0}
    assert ours.test_on_batch(np.zeros_like(x), y, return_dict=True) == expected


def test_root_of_the_mean_leaves_out_what_is_masked():
    ours = numbers(pt)
    ours.compile("sgd", "mse", [M.RootMeanSquaredError()])
    found = ours.test_on_batch(VECTORS, REAL)
    want = np.sqrt(np.square(ours.predict(VECTORS) - REAL)[TOKENS != 0].mean())
    np.testing.assert_allclose(found["root_mean_squared_error"], want, rtol=1e-5)  # float32


def test_counting_metrics_leave_out_what_is_masked():
    """Keras leaves masks out of these; here they mean the same for every metric."""
    ours = yes_or_no(pt)
    ours.compile("sgd", "binary_crossentropy", [M.Precision(), M.Recall(), M.AUC()])
    found = ours.test_on_batch(VECTORS, BITS)
    keep = TOKENS != 0
    scores = ours.predict(VECTORS)
    for ask, metric in (("precision", M.Precision()), ("recall", M.Recall()), ("auc", M.AUC())):
        target, output = BITS[keep].reshape(-1, 1), scores[keep].reshape(-1, 1)
        states = {k: tensor(np.zeros(s.shape, s.dtype)) for k, s in metric.states(tensor(output).spec).items()}
        states = metric.update(states, tensor(target), tensor(output), tensor(np.ones(len(target), np.float32)))
        want = metric.result({k: v.numpy() for k, v in states.items()})
        np.testing.assert_allclose(found[ask], want, rtol=1e-12)  # both count in float64


def test_confusion_leaves_out_what_is_masked():
    ours = tagger(pt)
    ours.compile("sgd", "sparse_categorical_crossentropy", [M.ConfusionMatrix()])
    assert np.sum(ours.test_on_batch(TOKENS, LABELS)["confusion_matrix"]) == np.sum(TOKENS != 0)


def test_an_ignored_class_does_not_count_in_the_metric_of_the_loss():
    fields = {"from_logits": True, "ignore_class": 0}
    metric, loss = M.SparseCategoricalCrossentropy(**fields), L.SparseCategoricalCrossentropy(**fields)
    output, target = tensor(RNG.normal(size=(6, 5, 4)).astype(np.float32)), tensor(LABELS)
    states = {k: tensor(np.zeros(())) for k in ("total", "count")}
    states = metric.update(states, target, output, tensor(np.ones(6, np.float32)))
    want = loss.per_sample_loss(target, output).numpy().mean()
    np.testing.assert_allclose(metric.result({k: v.numpy() for k, v in states.items()}), want, rtol=1e-6)


def test_a_mask_that_does_not_belong_to_the_values_is_refused():
    mask = tensor(np.ones((6, 5), bool))
    with pytest.raises(ShapeError, match=r"values of shape \[6, 2\].*mask of shape \[6, 5\]"):
        L.CosineSimilarity(axis=1).per_sample_loss(tensor(REAL), tensor(REAL), mask)
