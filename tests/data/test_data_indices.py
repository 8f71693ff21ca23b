"""Numbers that a layer looks up in a table: what lies outside is refused with its row, wherever it comes from."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.data import ArrayDataset, BatchStream, Loader, bind
from prototorch.data.pipeline.signature import IndexRange
from prototorch.errors import DataError, IndexRangeError
from prototorch.model.load import model_from_text

GOOD = np.arange(24).reshape(8, 3) % 7
WANTED = {"tokens": IndexRange(7, "words")}


def changed(place, value, dtype=np.int64):
    array = GOOD.astype(dtype)
    array[place] = value
    return array


class OnDisk(ArrayDataset):
    """Columns that are read when they are wanted."""

    def column_array(self, column):
        return None


def bound(x, of=ArrayDataset):
    return bind(of({"x": x}, ["x"], name="set"), {"tokens": (3,)}, indices=WANTED)


BAD = {
    "too large": (changed((5, 1), 9), r"^set, row 5: x\[1\] is 9; the layer 'words' expects integers from 0 to 6$"),
    "below 0": (changed((2, 0), -1), r"row 2: x\[0\] is -1; the layer 'words' expects"),
    "the count itself": (
        changed((7, 2), 7),
        r"row 7: x\[2\] is 7; .*from 0 to 6; indices count from 0, so the table needs one",
    ),
    "several": (GOOD + 2, r"row 1: x\[2\] is 7; .* \(and 5 more\)$"),
    "unsigned": (changed((1, 1), 255, np.uint8), r"row 1: x\[1\] is 255;"),
    "a float": (changed((1, 1), 7.0, np.float32), r"row 1: x\[1\] is 7.0;"),
    "not a number": (changed((1, 1), np.nan, np.float32), r"row 1: x\[1\] is nan;"),
    "huge": (changed((1, 1), 2**40), r"row 1: x\[1\] is 1099511627776;"),
}


@pytest.mark.parametrize(("x", "message"), BAD.values(), ids=BAD)
def test_what_lies_outside_is_named(x, message):
    with pytest.raises(DataError, match=message):
        bound(x)


@pytest.mark.parametrize(("x", "message"), BAD.values(), ids=BAD)
def test_what_lies_outside_is_named_as_it_is_read(x, message):
    found = bound(x, OnDisk)
    with pytest.raises(DataError, match=message.replace("and 5 more", "and . more")):
        for _ in Loader(found, 3, shuffle=False):
            pass


def test_the_row_is_that_of_the_set_however_the_data_are_shuffled():
    with pytest.raises(DataError, match=r"^set, row 5: x\[1\] is 9"):
        for _ in Loader(bound(changed((5, 1), 9), OnDisk), 3, shuffle=True, seed=1):
            pass


def test_good_numbers_pass():
    for dtype in (np.int64, np.uint8, np.float32):
        bound(GOOD.astype(dtype))
        assert sum(b.num_samples for b in Loader(bound(GOOD.astype(dtype), OnDisk), 3)) == 8


def test_a_stream_is_checked_batch_by_batch():
    stream = BatchStream(lambda: iter([(GOOD,), (changed((4, 0), 8),)]), {"tokens": (3,)}, name="batches")
    stream.indices = WANTED
    found = iter(stream)
    assert next(found).num_samples == 8
    with pytest.raises(DataError, match=r"batches, batch 1, row 4: tokens\[0\] is 8; the layer 'words'"):
        next(found)


def net(layer=None, shape=(3,), dtype="int32"):
    x = pt.Input(shape, name="tokens", dtype=dtype)
    y = (layer or pt.layers.Embedding(7, 4, name="words"))(x)
    y = pt.layers.Dense(1)(pt.layers.Flatten()(y))
    model = pt.Model(x, y)
    model.compile("sgd", "mse")
    return model


Y = np.zeros((8, 1), np.float32)


def test_a_model_refuses_them_wherever_data_come_in():
    model, x = net(), changed((6, 2), 7)
    before = model.get_weights()
    for use in (
        lambda: model.fit(x, Y, verbose=0),
        lambda: model.fit(GOOD, Y, validation_data=(x, Y), verbose=0),
        lambda: model.evaluate(x, Y),
        lambda: model.predict(x),
        lambda: model.train_on_batch(x, Y),
        lambda: model.test_on_batch(x, Y),
        lambda: model.predict_on_batch(x),
    ):
        with pytest.raises(DataError, match=r"row 6: .*\[2\] is 7; the layer 'words' expects integers from 0 to 6"):
            use()
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(array, before[name])
    assert np.isfinite(model.fit(GOOD, Y, verbose=0).history["loss"]).all()


def test_a_layer_inside_another_says_it_too():
    layer = pt.layers.TimeDistributed(pt.layers.Embedding(7, 4), name="each")
    model = net(layer, (3, 1))
    with pytest.raises(DataError, match="the layer 'each' expects integers from 0 to 6"):
        model.predict(changed((6, 2), 7)[..., None])


def test_the_smaller_of_two_tables_counts():
    x = pt.Input((3,), name="tokens", dtype="int32")
    parts = [pt.layers.Embedding(n, 2, name=f"of_{n}")(x) for n in (9, 5)]
    model = pt.Model(x, pt.layers.Add()(*parts))
    assert model.net.index_inputs() == {"tokens": ("of_5", 5)}
    with pytest.raises(DataError, match="'of_5' expects integers from 0 to 4"):
        model.predict(GOOD)


def test_computed_numbers_outside_are_refused():
    """They are in no data: the executor counts them."""
    x = pt.Input((3,), name="tokens")
    model = pt.Model(x, pt.layers.Embedding(7, 4)(pt.layers.Rescaling(scale=2.0)(x)))
    assert model.net.index_inputs() == {}
    with pytest.raises(IndexRangeError, match=r"embedding_1: take: index \d+ .* are 0 to 6"):
        model.predict(GOOD.astype(np.float32))


def test_numbers_that_preprocess_changes_are_not_held_against_the_table():
    text = """
    input { name: "tokens"  shape: [3] }
    preprocess { Rescaling { scale: 1.0  offset: -10.0 } }
    Embedding { input_dim: 7  output_dim: 2 }
    """
    assert np.isfinite(model_from_text(text).predict(GOOD + 10)).all()


def test_a_model_checks_every_batch_of_a_stream():
    model, x = net(), changed((6, 2), 7)
    with pytest.raises(DataError, match=r"batch 1, row 6: tokens\[2\] is 7; the layer 'words'"):
        model.fit(lambda: iter([(GOOD, Y), (x, Y)]), verbose=0)


def test_fractions_are_no_indices():
    x = pt.Input((3,))
    model = pt.Model(x, pt.layers.Embedding(7, 4, name="words")(x))
    with pytest.raises(DataError, match=r"row 1: .*\[2\] is 3\.5; the layer 'words' expects integers from 0 to 6"):
        model.predict(np.array([[0, 1, 2], [0, 1, 3.5]]))
    assert model.predict(np.array([[0.0, 1.0, 2.0]])).shape == (1, 3, 4)


def test_masked_elements_are_refused():
    x = pt.Input((3,))
    model = pt.Model(x, pt.layers.Dense(2)(x))
    with pytest.raises(DataError, match="a masked array with 1 masked elements"):
        model.predict(np.ma.masked_array(np.ones((2, 3)), mask=[[0, 0, 0], [0, 1, 0]]))
    assert model.predict(np.ma.masked_array(np.ones((2, 3)))).shape == (2, 2)
