"""`fit`, `evaluate` and `predict` on data loaders of prototorch and PyTorch, and on tensors of both."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, UsageError
from prototorch.utils import data

torch = pytest.importorskip("torch")
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 5)).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int64)


def batches(make):
    """Batches of 16, the last one smaller."""
    return lambda: (make(X[i : i + 16], Y[i : i + 16]) for i in range(0, 40, 16))


def build():
    model = pt.Sequential([pt.Input(shape=(5,)), pt.layers.Dense(8, activation="relu"), pt.layers.Dense(2)])
    model.compile(optimizer="sgd", loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def ours(**options):
    return data.DataLoader(data.TensorDataset(pt.tensor(X), pt.tensor(Y)), 16, **options)


def theirs(**options):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)), 16, **options)


def check_history(history, expected):
    """The same losses and accuracies."""
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        assert history[name] == pytest.approx(values, rel=1e-6)


class Batches:
    """An iterable without a length, such as tf.data's."""

    def __iter__(self):
        return batches(lambda x, y: (x, y))()


class Samples(torch.utils.data.IterableDataset):
    """A stream without a length."""

    def __iter__(self):
        return iter(zip(X, Y, strict=True))


SOURCES = {
    "ours": ours,
    "ours with workers": lambda: ours(num_workers=2),
    "pytorch": theirs,
    "pytorch stream": lambda: torch.utils.data.DataLoader(Samples(), 16),
    "iterable": Batches,
    "lists": lambda: batches(lambda x, y: [x, y]),
    "tensors": lambda: batches(lambda x, y: (pt.tensor(x), pt.tensor(y))),
    "pytorch tensors": lambda: batches(lambda x, y: (torch.tensor(x), torch.tensor(y))),
    "tensors with gradients": lambda: batches(lambda x, y: (torch.tensor(x, requires_grad=True), torch.tensor(y))),
    "list of tensors": lambda: batches(lambda x, y: [torch.tensor(x), torch.tensor(y)]),
}


@pytest.fixture(scope="module")
def expected():
    """History, evaluation and prediction with arrays."""
    model = build()
    history = model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0).history
    return history, model.evaluate(X, Y, verbose=0), model.predict(X, verbose=0)


@pytest.mark.parametrize("name", SOURCES)
def test_batches_of_any_kind_train_as_arrays_do(name, expected):
    model = build()
    history, result, outputs = expected
    check_history(model.fit(SOURCES[name](), epochs=2, verbose=0).history, history)
    assert model.evaluate(SOURCES[name](), verbose=0) == pytest.approx(result, rel=1e-6)
    assert np.allclose(model.predict(SOURCES[name](), verbose=0), outputs, atol=1e-6)


def test_validation_data_may_be_a_loader():
    history = build().fit(ours(shuffle=True), validation_data=theirs(), epochs=2, verbose=0).history
    assert len(history["val_loss"]) == 2


def test_a_loader_that_ends_early_leaves_the_rest():
    history = build().fit(ours(num_workers=2), steps_per_epoch=2, epochs=3, verbose=0).history
    assert len(history["loss"]) == 3


@pytest.mark.parametrize("wrap", [pt.tensor, torch.tensor], ids=["ours", "pytorch"])
def test_tensors_are_arrays(wrap, expected):
    model = build()
    history = model.fit(wrap(X), wrap(Y), batch_size=16, epochs=2, shuffle=False, verbose=0).history
    check_history(history, expected[0])
    assert np.allclose(model.predict(wrap(X), verbose=0), expected[2], atol=1e-6)


def test_bfloat16_tensors_are_rounded_arrays():
    x = torch.tensor(X).bfloat16()
    assert np.allclose(build().predict(x, verbose=0), build().predict(x.float().numpy(), verbose=0))


def test_several_inputs_are_a_list_in_a_batch():
    a, b = pt.Input(shape=(5,), name="a"), pt.Input(shape=(5,), name="b")
    model = pt.Model(inputs=[a, b], outputs=pt.layers.Dense(2)(pt.layers.Add()(a, b)))
    model.compile(optimizer="sgd", loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    pairs = data.StackDataset(data.StackDataset(X, 2 * X), Y)
    expected = model.evaluate([X, 2 * X], Y, verbose=0)
    assert model.evaluate(data.DataLoader(pairs, 8), verbose=0) == pytest.approx(expected, rel=1e-6)
    assert len(model.fit(data.DataLoader(pairs, 8), epochs=1, verbose=0).history["loss"]) == 1


def test_mistakes_are_errors_in_words():
    for dataset in (data.TensorDataset(pt.tensor(X)), torch.utils.data.TensorDataset(torch.tensor(X))):
        with pytest.raises(UsageError, match=r"TensorDataset gives single samples.*DataLoader"):
            build().fit(dataset, epochs=1, verbose=0)
    with pytest.raises(DataError, match=r"torch\.Tensor"):
        build().predict(torch.tensor(X).to_sparse(), verbose=0)
    with pytest.raises(UsageError, match="y is given together"):
        build().fit(ours(), Y, verbose=0)
