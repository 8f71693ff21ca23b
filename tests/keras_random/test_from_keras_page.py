"""The table of docs/from-keras.md: each row is shown here, on a case that gives one thing in Keras and another here."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import torch
from keras.src.backend import get_keras_mask, set_keras_mask

import prototorch as pt
from prototorch.errors import PrototorchError, TrainingError, UsageError
from prototorch.spec import Spec
from tests.keras_random.differences import DIFFERENCES, read_differences

pytestmark = pytest.mark.filterwarnings("ignore")
L, K = pt.layers, keras.layers
CASES = {}
RNG = np.random.default_rng(0)


def shows(what):
    """Register a case as the one of a row."""

    def register(case):
        assert what not in CASES
        CASES[what] = case
        return case

    return register


def test_every_row_is_shown_and_every_case_has_a_row():
    assert set(CASES) == set(DIFFERENCES)


@pytest.mark.parametrize("what", list(DIFFERENCES))
def test_difference(what):
    CASES[what]()


def test_a_malformed_table_is_refused():
    head = "## What differs on purpose\n\n| What | Keras | here | why |\n| --- | --- | --- | --- |\n"
    assert list(read_differences(head + "| a | b | c | d |\n")) == ["a"]
    for wrong in ("| a | b | c |\n", "| a | b | | d |\n", "| a | b | c | d |\n| a | e | f | g |\n"):
        with pytest.raises(ValueError, match=r"four cells|there twice"):
            read_differences(head + wrong)
    with pytest.raises(ValueError, match="has no section"):
        read_differences("# Another page")


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def here(layer, *arrays):
    """The layer's output as an array, and its mask; a mask may follow an array in a tuple."""
    tensors = []
    for one in arrays:
        x, mask = one if isinstance(one, tuple) else (one, None)
        tensors.append(pt.tensor(x))
        tensors[-1].mask = None if mask is None else pt.tensor(mask)
    out = layer(*tensors)
    out = out[0] if isinstance(out, tuple) else out
    return out.numpy(), None if out.mask is None else out.mask.numpy()


def in_keras(layer, *arrays, **options):
    """The same of Keras."""
    tensors = []
    for one in arrays:
        x, mask = one if isinstance(one, tuple) else (one, None)
        tensors.append(torch.tensor(x))
        if mask is not None:
            set_keras_mask(tensors[-1], torch.tensor(mask))
    out = layer(*tensors, **options)
    out = out[0] if isinstance(out, list | tuple) else out
    mask = get_keras_mask(out)
    return out.detach().numpy(), None if mask is None else mask.numpy()


def last(x):
    """An array of images with the channels last."""
    return np.moveaxis(x, 1, -1).copy()


@shows("Order of flattened images")
def flatten():
    x = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(here(L.Flatten(), x)[0], x.reshape(2, -1))
    np.testing.assert_array_equal(in_keras(K.Flatten(), last(x))[0], last(x).reshape(2, -1))


@shows("Softmax inside a convolution")
def softmax_in_conv():
    x = normal(1, 2, 3, 4)
    ours = here(L.Conv2D(5, 1, activation="softmax"), x)[0]
    theirs = in_keras(K.Conv2D(5, 1, activation="softmax"), last(x))[0]
    np.testing.assert_allclose(ours.sum(-1), 1, rtol=1e-5)  # columns
    np.testing.assert_allclose(theirs.sum(-1), 1, rtol=1e-5)  # channels
    over_channels = here(L.Conv2D(5, 1, activation=L.Softmax(axis=1)), x)[0]
    np.testing.assert_allclose(over_channels.sum(1), 1, rtol=1e-5)


@shows("Axis of normalization layers")
def normalization_axis():
    for name in ("BatchNormalization", "GroupNormalization"):
        assert (getattr(L, name)().axis, getattr(K, name)().axis) == (1, -1)
    assert L.Normalization(0.0, 1.0).axis == 1
    assert K.Normalization(mean=0.0, variance=1.0).axis == (-1,)


@shows("Axis of Concatenate")
def concatenate_axis():
    assert (L.Concatenate().axis, K.Concatenate().axis) == (1, -1)


@shows("Random numbers")
def random_numbers():
    x = np.ones((64, 64), np.float32)
    with pt.eager.layer_call.training():
        ours = here(L.Dropout(0.5, seed=1), x)[0]
    theirs = in_keras(K.Dropout(0.5, seed=1), x, training=True)[0]
    assert not np.array_equal(ours, theirs)
    for made in (ours, theirs):
        assert set(np.unique(made)) == {0.0, 2.0}
        assert abs(made.mean() - 1) < 0.1


@shows("RandomCrop outside training")
def random_crop():
    x = normal(1, 2, 6, 8)
    assert here(L.RandomCrop(3, 3), x)[0].shape == (1, 2, 3, 3)
    assert in_keras(K.RandomCrop(3, 3), last(x), training=False)[0].shape == (1, 6, 8, 2)


@shows("Average pooling with uneven padding")
def average_pooling():
    x = np.array([[[1.0, 2.0, 6.0, 8.0]]], np.float32)  # windows of 3, strides of 2: one step of padding, at the end
    np.testing.assert_allclose(here(L.AveragePooling1D(3, 2, "same"), x)[0], [[[3.0, 7.0]]])
    theirs = in_keras(K.AveragePooling1D(3, 2, "same", data_format="channels_first"), x)[0]
    np.testing.assert_allclose(theirs, [[[3.0, 22 / 3]]], rtol=1e-6)


@shows("Bicubic interpolation")
def bicubic():
    x = normal(1, 1, 4, 4)
    ours = here(L.UpSampling2D(2, interpolation="bicubic"), x)[0]
    theirs = in_keras(K.UpSampling2D(2, interpolation="bicubic", data_format="channels_first"), x)[0]
    assert np.abs(ours - theirs).max() > 1e-3
    assert np.abs(ours - theirs).max() < 0.5


@shows("Gradient of a maximum of equal inputs")
def equal_inputs():
    a, b = (pt.tensor(np.ones((1, 1), np.float32), requires_grad=True) for _ in range(2))
    L.Maximum()(a, b).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (1.0, 0.0)
    c, d = (torch.ones(1, 1, requires_grad=True) for _ in range(2))
    K.Maximum()([c, d]).sum().backward()
    assert (c.grad.item(), d.grad.item()) == (0.5, 0.5)


@shows("A mask beside first states")
def mask_beside_states():
    x, state = normal(2, 3, 4), normal(2, 5)
    mask = np.array([[1, 0, 0], [1, 1, 0]], bool)
    ours, theirs = L.GRU(5), K.GRU(5)
    assert np.abs(here(ours, (x, mask), state)[0] - here(ours, x, state)[0]).max() > 1e-3
    attached = in_keras(theirs, (x, mask), initial_state=torch.tensor(state))[0]
    np.testing.assert_array_equal(attached, in_keras(theirs, x, initial_state=torch.tensor(state))[0])
    by_hand = in_keras(theirs, x, initial_state=torch.tensor(state), mask=torch.tensor(mask))[0]
    assert np.abs(attached - by_hand).max() > 1e-3


@shows("The mask of a sequence that goes backwards")
def backwards_mask():
    mask = np.array([[1, 1, 0]], bool)
    options = {"return_sequences": True, "go_backwards": True}
    assert here(L.GRU(2, **options), (normal(1, 3, 2), mask))[1].tolist() == [[False, True, True]]
    assert in_keras(K.GRU(2, **options), (normal(1, 3, 2), mask))[1].tolist() == mask.tolist()


@shows("Queries that see nothing")
def blind_queries():
    x, mask = normal(1, 2, 3), np.array([[True, False]])
    ours = here(L.MultiHeadAttention(1, 2), (x, mask))[0]
    np.testing.assert_array_equal(ours[0, 1], 0)  # the bias, which is 0 at first
    layer = K.MultiHeadAttention(1, 2)
    given = torch.tensor(x)
    set_keras_mask(given, torch.tensor(mask))
    assert layer(given, given).abs()[0, 1].max() > 1e-3


@shows("Masks behind Permute and Dot")
def permute_and_dot():
    x, mask = normal(1, 2, 3), np.array([[True, False]])
    assert here(L.Permute([2, 1]), (x, mask))[1].tolist() == [[[True, False]]]
    assert in_keras(K.Permute([2, 1]), (x, mask))[1] is None
    a, b = pt.Input((2, 3)), pt.Input((2, 3))
    with pytest.warns(pt.errors.ModelWarning, match="mask"):
        pt.Model([a, b], L.Dot([2, 2])(L.Masking()(a), b)).predict([x, x])


@shows("The mask of attention scores")
def scores_mask():
    mask = np.array([[1, 1, 0]], bool)
    x = pt.tensor(normal(1, 3, 4))
    x.mask = pt.tensor(mask)
    assert L.MultiHeadAttention(1, 2, return_attention_scores=True)(x)[1].mask is None
    given = torch.tensor(normal(1, 3, 4))
    set_keras_mask(given, torch.tensor(mask))
    scores = K.MultiHeadAttention(1, 2)(given, given, return_attention_scores=True)[1]
    assert get_keras_mask(scores).ndim == 4


@shows("Reduction of a loss")
def reduction():
    with pytest.raises(UsageError, match="reduction"):
        pt.losses.MeanSquaredError(reduction="sum")
    assert keras.losses.MeanSquaredError(reduction="sum").reduction == "sum"


def metric_value(metric, target, output):
    states = {n: pt.tensor(np.zeros(s.shape, s.dtype)) for n, s in metric.states(Spec(output.shape)).items()}
    weight = pt.tensor(np.ones(len(output), np.float32))
    states = metric.update(states, pt.tensor(target), pt.tensor(output), weight)
    return float(metric.result({n: v.numpy() for n, v in states.items()}))


def keras_value(metric, target, output):
    metric.update_state(torch.tensor(target), torch.tensor(output))
    return float(metric.result())


@shows("Ignored classes in a metric")
def ignored_classes():
    target, output = np.array([0, 1, 1, 0]), np.full((4, 2), 0.5, np.float32)
    options = {"ignore_class": 1}
    ours = metric_value(pt.metrics.SparseCategoricalCrossentropy(**options), target, output)
    theirs = keras_value(keras.metrics.SparseCategoricalCrossentropy(**options), target, output)
    assert (ours, theirs) == pytest.approx((np.log(2), np.log(2) / 2), rel=1e-5)
    loss = keras.losses.SparseCategoricalCrossentropy(**options)
    assert float(loss(torch.tensor(target), torch.tensor(output))) == pytest.approx(ours, rel=1e-5)


@shows("MeanIoU reads the net's outputs")
def mean_iou():
    target, output = np.array([0, 1, 2, 2]), np.eye(3, dtype=np.float32)[[0, 1, 2, 1]]
    theirs = keras_value(keras.metrics.MeanIoU(3, sparse_y_pred=False), target, output)
    assert metric_value(pt.metrics.MeanIoU(), target, output) == pytest.approx(theirs)
    with pytest.raises((ValueError, RuntimeError)):
        keras_value(keras.metrics.MeanIoU(3), target, output)


def compiled(library, units, loss, metrics=(), **options):
    """A dense layer, whose weights are 0 but for a diagonal of 1."""
    model = library.Sequential([library.Input((2,)), library.layers.Dense(units)])
    model.compile("sgd", loss(library), metrics=list(metrics), **options)
    if isinstance(model, pt.Model):
        model.predict(np.zeros((1, 2), np.float32))
        (name,) = [n for n in model.weights if n.endswith("/kernel")]
        model.weights[name] = np.eye(2, units, dtype=np.float32)
    else:
        model.layers[0].kernel.assign(np.eye(2, units, dtype=np.float32))
    return model


def accuracies(x, y, units):
    for library in (pt, keras):
        model = compiled(library, units, lambda lib: lib.losses.BinaryCrossentropy(from_logits=True), ["accuracy"])
        results = model.evaluate(x, y, verbose=0, **({"return_dict": True} if library is keras else {}))
        yield results["accuracy"]


@shows("Accuracy of logits")
def accuracy_of_logits():
    x = np.array([[0.3, 0.0], [-0.3, 0.0]], np.float32)  # 0.3 means yes
    assert tuple(accuracies(x, np.array([[1.0], [0.0]], np.float32), 1)) == (1.0, 0.5)


@shows("Accuracy of several binary outputs")
def accuracy_of_several():
    x = np.array([[2.0, 1.0], [1.0, 2.0]], np.float32)  # yes and yes, the likeliest of which is right
    assert tuple(accuracies(x, np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), 2)) == (0.5, 1.0)


def fitted(library, callbacks=(), loss="mse", epochs=1, rate=0.01, x=None, **more):
    model = compiled(library, 1, lambda lib: loss)
    model.compile(library.optimizers.SGD(rate), loss)
    x = np.ones((4, 2), np.float32) if x is None else x
    return model, model.fit(
        x, np.zeros((4, 1), np.float32), epochs=epochs, verbose=0, callbacks=list(callbacks), **more
    )


@shows("The learning rate in the logs")
def rate_in_logs():
    assert set(fitted(pt)[1].history) == {"loss", "learning_rate"}
    assert set(fitted(keras)[1].history) == {"loss"}


@shows("EarlyStopping restores")
def restores():
    assert pt.callbacks.EarlyStopping().restore_best_weights is True
    assert keras.callbacks.EarlyStopping().restore_best_weights is False


@shows("NaN as the first monitored value")
def first_nan():
    best = []
    for library in (pt, keras):

        class Score(library.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                logs["score"] = [np.nan, 2.0, 3.0][epoch]

        stop = library.callbacks.EarlyStopping(monitor="score", mode="min", patience=5)
        fitted(library, [Score(), stop], epochs=3)
        best.append(stop.best)
    assert best[0] == 2.0
    assert np.isnan(best[1])


@shows("A loss that is not finite")
def not_finite():
    x = np.array([[np.inf, 0.0]] * 4, np.float32)
    with pytest.raises(TrainingError, match=r"finite|inf|nan"):
        fitted(pt, x=np.full((4, 2), 3e38, np.float32), epochs=2)
    model, history = fitted(keras, x=x, epochs=2, callbacks=[keras.callbacks.TerminateOnNaN()])
    assert history.epoch == [0]
    assert not np.isfinite(model.layers[0].kernel.numpy()).all()


@shows("Gradient accumulation")
def accumulation():
    with pytest.raises(UsageError, match="gradient_accumulation_steps"):
        pt.optimizers.SGD(gradient_accumulation_steps=2)
    assert keras.optimizers.SGD(gradient_accumulation_steps=2).gradient_accumulation_steps == 2


@shows("evaluate gives names")
def evaluate_names():
    x, y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
    assert set(compiled(pt, 1, lambda _: "mse", ["mae"]).evaluate(x, y)) == {"loss", "mae"}
    assert isinstance(compiled(keras, 1, lambda _: "mse", ["mae"]).evaluate(x, y, verbose=0), list)


@shows("Sample weights of several outputs")
def weights_of_several_outputs():
    x, weight = np.ones((4, 2), np.float32), np.array([1.0, 2.0, 0.0, 1.0], np.float32)
    for library in (pt, keras):
        start = library.Input((2,), name="x")
        outputs = [library.layers.Dense(1, name=name)(start) for name in ("a", "b")]
        model = library.Model(start, outputs)
        model.compile("sgd", {"a": "mse", "b": "mse"})
        y = [np.zeros((4, 1), np.float32)] * 2
        each = [weight, 2 * weight]
        if library is pt:
            with pytest.raises(PrototorchError, match="sample_weight"):
                model.fit(x, y, sample_weight=each, verbose=0)
        else:
            model.fit(x, y, sample_weight=each, verbose=0)


@shows("The defaults of compile")
def compile_defaults():
    names = [list(inspect.signature(model.compile).parameters)[1:4] for model in (pt.Model, keras.Model)]
    assert names == [["optimizer", "loss", "metrics"], ["optimizer", "loss", "loss_weights"]]
    defaults = [inspect.signature(model.compile).parameters["optimizer"].default for model in (pt.Model, keras.Model)]
    assert defaults == ["adam", "rmsprop"]
