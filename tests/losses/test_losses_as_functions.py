"""Losses as functions and instances that are called, on arrays, tensors and symbols: values, masks, weights and
gradients are Keras'."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import DataError, IndexRangeError, ShapeError, UsageError
from prototorch.text.case_conversion import snake_case
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.losses.test_losses_keras import CASES, CLOSE, IDS, K, L, chance, labels, one_hot, real


def name_of(loss):
    return snake_case(type(loss).__name__)


def fields_of(loss):
    return {name: getattr(loss, name) for name in loss.specs()}


def symbols_of(target, output):
    return (
        pt.Input(target.shape[1:], dtype=str(target.dtype)),
        pt.Input(output.shape[1:], dtype=str(output.dtype)),
    )


def run_symbol(make, target, output):
    """The value of a graph, and the gradient of its sum of squares with respect to the output."""
    t, p = symbols_of(target, output)
    value = make(t, p)
    return pt.Graph([t, p], [value, pt.gradients((value**2).sum(), p)])(target, output)


def run_tensor(make, target, output):
    p = pt.tensor(output, requires_grad=True)
    value = make(pt.tensor(target), p)
    return value.numpy(), pt.grad((value**2).sum(), [p])[0].numpy()


def run_keras(make, target, output):
    p = torch.tensor(output, requires_grad=True)
    value = make(torch.tensor(target), p)
    (value**2).sum().backward()
    return value.detach().numpy(), p.grad.numpy()


def assert_same(results, expected):
    np.testing.assert_allclose(results[0], expected[0], **CLOSE)
    scale = max(np.abs(expected[1]).max(), 1e-3)
    np.testing.assert_allclose(results[1] / scale, expected[1] / scale, **CLOSE)


@pytest.mark.parametrize(("loss", "theirs", "target", "output"), CASES, ids=IDS)
def test_functions_are_keras(loss, theirs, target, output):
    """One value a position, on arrays, tensors and symbols; the signature is Keras'."""
    function, keras_function = getattr(L, name_of(loss)), getattr(K, name_of(loss))
    assert list(inspect.signature(function).parameters) == [
        n for n in inspect.signature(keras_function).parameters if n != "axis" or n in loss.specs()
    ]
    options = fields_of(loss)
    expected = run_keras(lambda t, p: keras_function(t, p, **options), target, output)
    by_position = [options[name] for name in list(inspect.signature(function).parameters)[2:]]
    np.testing.assert_allclose(function(target, output, *by_position).numpy(), expected[0], **CLOSE)
    for run in (run_tensor, run_symbol):
        assert_same(run(lambda t, p: function(t, p, **options), target, output), expected)


@pytest.mark.parametrize(("loss", "theirs", "target", "output"), CASES, ids=IDS)
@pytest.mark.parametrize("weighting", ["none", "sample", "position", "mask", "mask and position"])
def test_instances_are_keras(loss, theirs, target, output, weighting):
    shape = tuple(theirs.call(torch.tensor(target), torch.tensor(output)).shape)
    rng = np.random.default_rng(3)
    weight = {"sample": rng.uniform(0.2, 2, shape[:1]), "position": rng.uniform(0.2, 2, shape)}.get(
        weighting.split(" ")[-1]
    )
    weight = None if weight is None else weight.astype("float32")
    keras_weight = weight
    if weight is not None and weight.ndim < len(shape):  # Keras adds one axis at most
        keras_weight = np.broadcast_to(weight.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
    mask = rng.random(shape) < 0.6 if "mask" in weighting else None

    def call_keras(t, p):
        if mask is not None:
            p._keras_mask = torch.tensor(mask)
        return theirs(t, p, sample_weight=None if keras_weight is None else torch.tensor(keras_weight))

    expected = run_keras(call_keras, target, output)

    def call(t, p):
        if mask is not None and isinstance(p, pt.Tensor):
            p.mask = pt.tensor(mask)
        return loss(t, p, sample_weight=weight)

    assert_same(run_tensor(call, target, output), expected)
    if mask is None:
        assert_same(run_symbol(call, target, output), expected)
        np.testing.assert_allclose(loss(target, output, weight).numpy(), expected[0], **CLOSE)


def test_every_loss_has_a_function():
    for cls in L.Loss.members().values():
        for name in L.Loss.family_registry.names_of(cls):
            if name not in (cls.__name__, "function_loss"):  # the last one is a module
                assert getattr(L, name).loss_class is cls
                assert name in L.__all__
                assert name in dir(L)
                assert pickle.loads(pickle.dumps(getattr(L, name))) is getattr(L, name)
    assert L.mse.__doc__.startswith(L.MeanSquaredError.__doc__)
    assert str(inspect.signature(L.huber)) == "(y_true, y_pred, delta=1.0)"
    of_keras = {name for name in dir(K) if name in dir(L) and name[0].islower()}
    assert len(of_keras) == 15


def test_one_dimension_and_lists():
    assert L.mean_squared_error([1.0, 2.0], [3.0, 5.0]).item() == float(K.mean_squared_error([1.0, 2.0], [3.0, 5.0]))
    assert L.MeanSquaredError()([1, 2], [3, 5]).item() == 6.5
    assert L.mean_absolute_error([[1, 2]], [[3, 5]]).tolist() == [2.5]
    assert L.binary_crossentropy([[1]], [[0.5]], False, 0.0, -1).item() == pytest.approx(np.log(2))


def test_masks_of_layers_reach_a_loss_in_a_graph():
    tokens, target = np.int32([[1, 2, 0, 0], [3, 0, 0, 0]]), real(2, 4, 3)
    x, t = pt.Input((4,), dtype="int32"), pt.Input((4, 3))
    y = pt.layers.Embedding(5, 3, mask_zero=True, name="e")(x)
    graph = pt.Graph([x, t], [pt.losses.MeanSquaredError()(t, y), y])
    loss, values = graph(tokens, target)
    errors = ((values - target) ** 2).mean(-1)
    np.testing.assert_allclose(loss, errors[tokens > 0].mean(), rtol=1e-5)


def test_training_by_a_loss_function_is_training_by_fit():
    """The lecture: loss = tf.losses.mean_squared_error(y_pred, y), and its optimizer."""
    a, b = real(16, 5), real(16, 2)
    x, y = pt.Input((5,)), pt.Input((2,))
    for make in (pt.losses.MeanSquaredError(), lambda t, p: pt.losses.mean_squared_error(t, p).mean()):
        w = pt.Variable("zeros", shape=(5, 2))
        loss = make(y, x @ w)
        graph = pt.Graph([x, y], loss, [pt.optimizers.SGD(0.1).minimize(loss)])
        losses = [float(graph(a, b)) for _ in range(4)]
        model = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2, use_bias=False, kernel_initializer="zeros")])
        model.compile(pt.optimizers.SGD(0.1), pt.losses.mean_squared_error)
        history = model.fit(a, b, batch_size=16, epochs=4, verbose=0).history["loss"]
        np.testing.assert_allclose(losses, history, rtol=1e-5)
        assert "loss: [mean_squared_error]" in model.to_text()


def test_functions_inside_of_other_functions():
    """As parts of a loss and of a metric of one's own, and of a compiled function."""
    a, b = real(8, 5), real(8, 2)
    model = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2, kernel_initializer="ones")])

    def own_loss(y_true, y_pred):
        return pt.losses.huber(y_true, y_pred, delta=0.5) + 0.1 * pt.losses.MeanAbsoluteError()(y_true, y_pred)

    model.compile("sgd", own_loss, metrics=[pt.losses.mean_absolute_error])
    out = model.predict(a)
    result = model.evaluate(a, b, verbose=0, return_dict=True)
    expected = float(K.Huber(delta=0.5)(b, out)) + 0.1 * float(K.MeanAbsoluteError()(b, out))
    assert result["loss"] == pytest.approx(expected, rel=1e-4)
    assert result["mean_absolute_error"] == pytest.approx(float(K.MeanAbsoluteError()(b, out)), rel=1e-4)
    compiled = pt.compile(lambda t, p: pt.losses.Huber(0.5)(t, p))
    assert compiled(pt.tensor(b), pt.tensor(out)).item() == pytest.approx(float(K.Huber(delta=0.5)(b, out)), rel=1e-5)


def test_files_of_graphs_hold_losses_by_their_text(tmp_path):
    t, p = pt.Input((4,), dtype="int32"), pt.Input((4, 5))
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)
    graph = pt.Graph([t, p], [loss(t, p, np.float32([1, 2])), pt.losses.sparse_categorical_crossentropy(t, p, True)])
    graph.save(tmp_path / "g.h5")
    a, b = labels(5, 2, 4).astype("int32"), real(2, 4, 5)
    for first, second in zip(graph(a, b), pt.Graph.load(tmp_path / "g.h5")(a, b), strict=True):
        np.testing.assert_array_equal(first, second)

    def own(y_true, y_pred):
        return (y_true - y_pred) ** 2

    x = pt.Input((2,))
    graph = pt.Graph(x, pt.losses.FunctionLoss(own)(x * 2, x))
    np.testing.assert_allclose(graph(real(3, 2) * 0 + 3), 9)
    with pytest.raises(UsageError, match="FunctionLoss holds the Python function own"):
        graph.save(tmp_path / "own.h5")


def test_a_class_of_ones_own():
    with pt.losses.Loss.family_registry.temporary_members():

        class PinballLoss(pt.losses.Loss):
            """The quantile loss."""

            tau: float = 0.5

            def values(self, target, output):
                error = target - output
                return pt.ops.maximum(error * self.tau, error * (self.tau - 1.0))

        a, b = real(4, 3), real(4, 3)
        each = np.maximum((a - b) * 0.9, (a - b) * -0.1)
        assert PinballLoss(0.9)(a, b).item() == pytest.approx(each.mean(), rel=1e-5)
        np.testing.assert_allclose(pt.losses.pinball_loss(a, b, 0.9).numpy(), each.mean(-1), rtol=1e-5)
        del pt.losses.pinball_loss  # which the package keeps, as all of its names


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_on_a_gpu(device):
    a, b = one_hot(5, 6), chance(6, 5)
    expected = float(K.CategoricalCrossentropy(label_smoothing=0.1)(a, b))
    loss = pt.losses.CategoricalCrossentropy(label_smoothing=0.1)
    with use_fake_cuda():
        for target in (a, pt.tensor(a, device=device)):  # an array goes where the tensor is
            value = loss(target, pt.tensor(b, device=device), sample_weight=np.ones(6, "float32"))
            assert value.device == device
            assert value.item() == pytest.approx(expected, rel=1e-5)
        t, p = pt.Input((5,)), pt.Input((5,))
        graph = pt.Graph([t, p], loss(t, p), device=device)
        assert float(graph(a, b)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: L.mean_squared_error(real(3, 2), real(4, 2)), ShapeError, "there are 3 targets for 4 samples"),
        (lambda: L.mean_squared_error(real(3, 2), real(3, 5)), ShapeError, "the output has 5 units, the target 2"),
        (lambda: L.mean_squared_error(1.0, 2.0), ShapeError, r"takes outputs \[batch, ...\], got one number"),
        (lambda: L.MeanSquaredError()(real(3, 2), real(3, 2), real(4)), ShapeError,
         r"values of shape \[3\], which sample weights of shape \[4\] do not match"),
        (lambda: L.sparse_categorical_crossentropy([0.5, 1], real(2, 3), True), DataError,
         r"integers from 0; the target at \[0\] is 0\.5"),
        (lambda: L.sparse_categorical_crossentropy([0, 3], real(2, 3), True), IndexRangeError, "3"),
        (lambda: L.huber(real(3, 2), real(3, 2), 1.0, 2.0), UsageError, "takes y_true, y_pred, delta, got 4 arguments"),
        (lambda: L.huber(real(3, 2), real(3, 2), 1.0, delta=2.0), UsageError, "delta is given twice"),
        (lambda: L.huber(real(3, 2), real(3, 2), dleta=2.0), UsageError, "Did you mean 'delta'"),
        (lambda: L.MeanSquaredError(reduction="none"), UsageError, r"pt\.losses\.mean_squared_error"),
        (lambda: L.mean_square_error, AttributeError, "mean_squared_error"),
    ],
)  # fmt: skip
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
