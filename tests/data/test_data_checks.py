"""Binding a set to a model and looking at it before the first step: what is found, and in which words."""

import numpy as np
import pytest

from prototorch.data import (
    ArrayDataset,
    BatchStream,
    DataWarning,
    Loader,
    TargetSpec,
    as_dataset,
    bind,
    check_dataset,
    check_overlap,
)
from prototorch.data.array_conversion import is_stream
from prototorch.errors import DataError

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
CLASSES = TargetSpec((), "classes", 5, "sparse_categorical_crossentropy")
ONE_HOT = TargetSpec((5,), "one_hot", loss="categorical_crossentropy")
BINARY = TargetSpec((1,), "binary", loss="binary_crossentropy")
VALUES = TargetSpec((1,), "values", loss="mse")
Y = np.array([0, 1, 2, 3, 4, 0, 1, 2])


def checked(x, y, target=CLASSES, shape=(3,), weight=None, warn=False):
    data = as_dataset(x, y, weight, name="set")
    bound = bind(data, {"image": shape}, {"logits": target})
    return bound, check_dataset(bound, {"logits": target}, warn=warn)


def changed(array, place, value, dtype=None):
    array = np.array(array, dtype or array.dtype)
    array[place] = value
    return array


def test_good_data_pass_in_silence():
    bound, notes = checked(X, Y)
    assert notes == []
    assert (bound.input_columns, bound.target_columns) == ({"image": "x"}, {"logits": "y"})
    checked(X, np.eye(5)[Y], ONE_HOT)
    checked(X, Y % 2, BINARY)
    checked(X, X[:, 0], VALUES)
    checked(X, Y.astype(np.float32))
    checked(X, Y[:, None])


BAD = {
    "label too large": (X, changed(Y, 5, 7), CLASSES, r"set, row 5: y is 7; the model has 5 classes, 0 to 4"),
    "label negative": (X, changed(Y, 2, -1), CLASSES, r"row 2: y is -1; the model has 5 classes"),
    "label huge": (X, changed(Y, 2, 2**40), CLASSES, r"row 2: y is 1099511627776"),
    "several": (X, Y + 3, CLASSES, r"row 2: y is 5; .* \(and 3 more\)"),
    "counted from 1": (X, np.array([1, 2, 3, 4, 5, 1, 2, 3]), CLASSES, r"row 4: y is 5; .*seem to count from 1"),
    "label not whole": (
        X,
        Y + 0.5,
        CLASSES,
        r"row 0: y is 0.5; sparse_.* expects integer class labels",
    ),
    "label nan": (X, changed(Y, 3, np.nan, float), CLASSES, r"row 3: y is nan; the data must be finite"),
    "one output unit": (X, Y, TargetSpec((), "classes", 1), r"row 1: y is 1; the model has 1 classes"),
    "nan in data": (
        changed(X, (4, 2), np.nan),
        Y,
        CLASSES,
        r"row 4: x\[2\] is nan; the data must be finite numbers$",
    ),
    "inf in data": (changed(X, (4, 1), -np.inf), Y, CLASSES, r"row 4: x\[1\] is -inf"),
    "one-hot to sparse": (X, np.eye(5)[Y], CLASSES, r"'y' has shape \[5\] .*expects \[\]; it looks like one-hot"),
    "sparse to one-hot": (X, Y, ONE_HOT, r"'y' has shape \[\] .*expects \[5\]; it looks like class labels"),
    "one-hot of another size": (X, np.eye(6)[Y], ONE_HOT, r"has shape \[6\] per sample.*expects \[5\]"),
    "no distribution": (X, np.eye(5)[Y] * 2, ONE_HOT, r"row 0: y is not a distribution \(the sum is 2"),
    "negative distribution": (X, changed(np.eye(5)[Y], (1, 0), -0.5), ONE_HOT, r"row 1: y is not a distribution"),
    "not binary": (X, Y, BINARY, r"row 2: y\[0\] is 2; binary_crossentropy expects numbers from 0 to 1 \(and 3 more\)"),
    "would broadcast": (
        X,
        np.zeros((8, 2)),
        VALUES,
        r"'y' has shape \[2\] per sample, mse of .*'logits' expects \[1\]",
    ),
    "wrong features": (
        X[:, :2],
        Y,
        CLASSES,
        r"input 'image' has shape \[3\], the column 'x' has samples of shape \[2\]",
    ),
    "images to a vector": (
        np.zeros((8, 1, 3, 3)),
        Y,
        CLASSES,
        r"samples of shape \[1, 3, 3\] \(float64\); a Flatten layer",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_data_are_refused_with_row_value_and_what_is_wanted(kind):
    x, y, target, words = BAD[kind]
    with pytest.raises(DataError, match=words):
        checked(x, y, target)


def test_bad_weights():
    with pytest.raises(DataError, match=r"row 1: sample_weight is -1.0; a weight must not be negative"):
        checked(X, Y, weight=changed(np.ones(8), 1, -1))
    with pytest.raises(DataError, match="all of sample_weight are zero"):
        checked(X, Y, weight=np.zeros(8))
    with pytest.raises(DataError, match="sample_weight is nan"):
        checked(X, Y, weight=changed(np.ones(8), 1, np.nan))


def test_an_empty_set():
    with pytest.raises(DataError, match="the data set is empty"):
        checked(X[:0], Y[:0])


def test_nan_in_a_later_piece_of_a_large_set(monkeypatch):
    monkeypatch.setattr("prototorch.data.checks.CHUNK_ELEMENTS", 6)
    with pytest.raises(DataError, match=r"set, row 7: x\[0\]"):
        checked(changed(X, (7, 0), np.nan), Y)


MANY = np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)
NOTES = {
    "one class": (MANY, np.full(40, 3), r"all samples have the y 3: there is nothing to learn"),
    "missing classes": (MANY, np.arange(40) % 3, r"2 of the 5 classes have no samples \(such as 3, 4\)"),
    "imbalance": (np.resize(X, (204, 3)), np.r_[np.zeros(200, int), 1:5], r"class 0 has 200 samples, class 1 has 1"),
    "constant": (
        changed(MANY, (slice(None), 1), 7),
        np.arange(40) % 5,
        r"1 of the 3 elements of 'x' .*element 1, always 7",
    ),
}


@pytest.mark.parametrize("kind", NOTES)
def test_odd_data_are_noted(kind):
    x, y, words = NOTES[kind]
    with pytest.warns(DataWarning, match=words):
        _, notes = checked(x, y, warn=True)
    assert len(notes) == 1


def test_in_a_few_samples_nothing_is_odd():
    assert checked(np.zeros((10, 3)), np.zeros(10, int))[1] == []


def test_distributions_along_another_axis():
    target = TargetSpec((2, 3, 3), "one_hot", axis=1)
    y = np.zeros((4, 2, 3, 3))
    y[:, 1] = 1
    data = as_dataset(X[:4], y)
    check_dataset(bind(data, {"x": (3,)}, {"y": target}), {"y": target})
    data = as_dataset(X[:4], changed(y, (2, 0, 1, 1), 1.0), name="set")
    with pytest.raises(DataError, match=r"set, row 2: y\[1, 1\] is not a distribution"):
        check_dataset(bind(data, {"x": (3,)}, {"y": target}), {"y": target})


def test_samples_of_the_validation_set_in_the_training_set():
    x = np.random.default_rng(0).standard_normal((50, 9))
    train, other = as_dataset(x[:40]), as_dataset(x[30:])
    with pytest.warns(DataWarning, match="10 of the 20 validation samples are training samples too .*row 0"):
        check_overlap(train, other)
    assert check_overlap(as_dataset(x[:40]), as_dataset(x[40:])) == []


def test_a_set_that_declares_something_else():
    class Liar(ArrayDataset):
        def read(self, indices):
            return {name: array.astype(np.int16) for name, array in super().read(indices).items()}

    data = Liar({"x": X}, ["x"], name="liar")
    with pytest.raises(DataError, match=r"liar, row 0: column 'x' is int16\[3\], the set declares float32\[3\]"):
        check_dataset(bind(data, {"x": (3,)}))


# ---------------------------------------------------------------- binding


def test_columns_are_found_by_name_or_in_order():
    data = as_dataset({"a": X, "b": X[:, :2]}, {"p": Y, "q": X}, inputs=["a", "b"], outputs=["p", "q"])
    bound = bind(data, {"b": (2,), "a": (3,)}, {"q": TargetSpec((3,)), "p": CLASSES})
    assert bound.input_columns == {"b": "b", "a": "a"}
    assert bound.target_columns == {"q": "q", "p": "p"}
    bound = bind(data, {"l": (3,), "r": (None,)}, {})
    assert bound.input_columns == {"l": "a", "r": "b"}
    assert list(bound.read(np.arange(2))) == ["a", "b"]


def test_one_target_serves_several_outputs():
    data = as_dataset(X, Y)
    bound = bind(data, {"x": (3,)}, {"main": CLASSES, "aux": CLASSES})
    assert bound.target_columns == {"main": "y", "aux": "y"}
    assert bound.targets == ("y",)


def test_one_target_brought_to_the_shape_of_several_outputs():
    data = as_dataset(X, Y.astype(np.float32), name="set")
    bound = bind(data, {"image": (3,)}, {"main": VALUES, "aux": VALUES})
    assert bound.target_columns == {"main": "y", "aux": "y"}
    assert bound.read(np.arange(2))["y"].shape == (2, 1)


def test_a_wrong_number_of_columns():
    data = as_dataset(X, Y, name="set")
    with pytest.raises(DataError, match=r"the model's inputs are a, b; the data's inputs are x float32\[3\]"):
        bind(data, {"a": (3,), "b": (3,)})
    with pytest.raises(DataError, match="the model's outputs are y; the data's targets are none"):
        bind(as_dataset(X, name="set"), {"x": (3,)}, {"y": CLASSES})


def test_shapes_that_differ_by_an_axis_are_brought_to_what_is_wanted():
    grey = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    bound = bind(as_dataset(grey), {"image": (1, 4, 4)})
    assert bound.columns["x"].shape == (1, 4, 4)
    np.testing.assert_array_equal(bound.read(np.array([1, 0]))["x"], grey[[1, 0]][:, None])
    last = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    bound = bind(as_dataset(last), {"image": (3, 4, 5)})
    got = bound.read(np.array([1]))["x"]
    np.testing.assert_array_equal(got, last[[1]].transpose(0, 3, 1, 2))
    assert got.flags.c_contiguous
    assert bound.column_array("x").shape == (2, 3, 4, 5)
    bound = bind(as_dataset(X[:, 0]), {"x": (1,)}, {})
    assert bound.columns["x"].shape == (1,)
    with pytest.raises(DataError, match=r"images are \[channels, height, width\]"):
        bind(as_dataset(last), {"image": (3, 9, 9)})


def test_targets_get_the_shape_of_the_loss():
    bound = bind(as_dataset(X, X[:, 0]), {"x": (3,)}, {"y": VALUES})
    assert bound.columns["y"].shape == (1,)
    bound = bind(as_dataset(X, Y[:, None]), {"x": (3,)}, {"y": CLASSES})
    assert bound.columns["y"].shape == ()
    assert next(iter(Loader(bound, 4)))["y"].shape == (4,)


def test_a_model_that_learns_its_input():
    data = as_dataset(np.zeros((4, 2, 2), np.uint8)).with_targets(["x"])
    bound = bind(data, {"image": (1, 2, 2)}, {"out": TargetSpec((1, 2, 2))})
    assert bound.input_columns == {"image": "x"}
    assert bound.target_columns == {"out": "x"}
    assert list(bound.columns) == ["x"]


def test_a_label_for_each_position():
    target = TargetSpec((6,), "classes", 3)
    data = as_dataset(np.zeros((4, 6)), np.full((4, 6), 2))
    bound = bind(data, {"x": (6,)}, {"y": target})
    check_dataset(bound, {"y": target}, warn=False)
    data = as_dataset(np.zeros((4, 6)), changed(np.zeros((4, 6), int), (2, 5), 3), name="set")
    with pytest.raises(DataError, match=r"set, row 2: y\[5\] is 3"):
        check_dataset(bind(data, {"x": (6,)}, {"y": target}), {"y": target})


# ---------------------------------------------------------------- streams


def batches(count=5, size=4, start=0):
    for i in range(start, start + count):
        yield np.full((size, 3), i, np.float32), np.arange(size) % 5


def firsts(stream):
    return [batch["x"][0, 0] for batch in stream]


def stream_of(source, **kwargs):
    return BatchStream(source, {"x": (3,)}, {"y": CLASSES}, **kwargs)


def test_a_function_is_called_for_each_epoch():
    stream = stream_of(batches)
    assert firsts(stream) == firsts(stream) == [0, 1, 2, 3, 4]
    assert stream.epoch == 2
    assert stream.wait_seconds > 0


def test_an_iterator_goes_on_where_it_was():
    stream = stream_of(batches(6), steps=2)
    assert [firsts(stream) for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(DataError, match=r"gives no batches .an exhausted iterator"):
        firsts(stream)
    with pytest.raises(DataError, match="ends after 3 batches, expected 4"):
        firsts(stream_of(batches(3), steps=4))


def test_a_sequence_of_batches():
    class Sequence:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return np.full((2, 3), i), np.zeros(2, int)

    assert firsts(stream_of(Sequence())) == [0, 1, 2]
    assert firsts(stream_of(list(batches()))) == [0, 1, 2, 3, 4]


def test_items_of_every_form():
    x, y, w = np.zeros((2, 3)), np.zeros(2, int), np.ones(2)
    for item in ((x, y, w), {"x": x, "y": y, "sample_weight": w}, ({"x": x}, {"y": y}, w)):
        (batch,) = stream_of([item])
        assert set(batch) == {"x", "y", "sample_weight"}
    for item in (x, (x,), {"x": x}):
        (batch,) = BatchStream([item], {"x": (3,)})
        assert set(batch) == {"x"}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ((np.zeros((2, 3)), np.array([0, 9])), "the data, batch 1, row 1: y is 9; the model has 5 classes"),
        ((np.zeros((2, 4)), np.zeros(2)), r"batch 1: the input 'x' has shape \[3\]"),
        ((np.zeros((2, 3)), np.zeros(3)), "batch 1: .*x has 2, y has 3"),
        ((np.zeros((0, 3)), np.zeros(0)), "batch 1: is empty"),
        ((1, 2, 3, 4), "got a tuple of 4"),
        (("a", "b"), "holds text"),
    ],
)
def test_bad_items_are_named_by_their_batch(item, words):
    good = next(batches())
    with pytest.raises(DataError, match=words):
        list(stream_of([good, item]))


def test_an_exception_in_a_generator_is_carried_over():
    def source():
        yield next(batches())
        raise KeyError("gone")

    with pytest.raises(DataError, match=r"batch 1 cannot be made: KeyError: 'gone'") as caught:
        list(stream_of(source))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_stream_is_resumed():
    whole = [batch["x"].tobytes() for batch in stream_of(batches)]
    stream = stream_of(batches)
    running = iter(stream)
    next(running), next(running)
    state = stream.state()
    running.close()
    again = stream_of(batches)
    again.restore(state)
    assert [batch["x"].tobytes() for batch in again] == whole[2:]
    short = stream_of(lambda: batches(1))
    short.restore(state)
    with pytest.raises(DataError, match="has only 1 batches; the training was interrupted after 2"):
        list(short)


def test_a_stream_transforms_with_its_place():
    places = []

    def transform(columns, place):
        places.append((place.epoch, place.position, len(place.indices)))
        return columns

    list(stream_of(batches, transform=transform, dtypes={"x": "float64"}))
    assert places == [(0, 4 * i, 4) for i in range(5)]


def test_the_first_batch_can_be_looked_at():
    for source in (batches, batches(), list(batches())):
        stream = stream_of(source)
        first = stream.peek()
        assert stream.peek().column_array("x")[0, 0] == first.column_array("x")[0, 0] == 0
        stream.dtypes = {"x": "float64"}
        assert firsts(stream) == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="gives no batches"):
        stream_of(iter([])).peek()
    assert len(stream_of(batches, steps=7)) == 7
    assert stream_of(list(batches())).steps == 5
    with pytest.raises(TypeError, match="set steps"):
        len(stream_of(batches))


def test_what_is_a_stream():
    class Sequence:
        def __len__(self):
            return 0

        def __getitem__(self, i):
            raise IndexError

    for stream in (batches, batches(), iter([]), Sequence(), zip([], [], strict=True)):
        assert is_stream(stream)
    for other in (X, [X], (X, X), {"x": X}, "fashion-mnist-mini", None, np.float32(1)):
        assert not is_stream(other)


def test_a_class_number_that_does_not_count():
    labels = np.array([0, 1, 255, 1, -1, 0])
    target = TargetSpec((), "classes", 2, "SparseCategoricalCrossentropy", ignored_class=255)
    checked(np.zeros((5, 3), np.float32) + np.arange(5)[:, None], labels[[0, 1, 2, 3, 5]], target)
    with pytest.raises(DataError, match="is -1; the model has 2 classes"):
        checked(np.zeros((6, 3), np.float32) + np.arange(6)[:, None], labels, target)


def test_an_ignored_class_is_not_missed():
    labels = np.where(np.arange(60) % 4 == 2, 0, np.arange(60) % 4)
    x = np.random.default_rng(1).standard_normal((60, 3)).astype(np.float32)
    assert checked(x, labels, TargetSpec((), "classes", 4, ignored_class=2))[1] == []
    assert checked(x, labels, TargetSpec((), "classes", 4))[1] != []
