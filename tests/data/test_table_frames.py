"""Tables by type from Python: dicts of columns, frames that look like those of pandas and polars, Arrow's tables."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import prototorch as pt
from prototorch.data.pipeline.frame_tables import open_frame
from prototorch.data.pipeline.tables import encode_rows
from prototorch.data.tables.table_inputs import TableInputs
from prototorch.errors import DataError, UsageError
from prototorch.model.load import model_from_text

INPUTS = TableInputs({"row": "float32"})
TEXT = """
name: "people"
input { name: "row"  shape: [none] }
Dense { name: "logits"  units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: sgd }
"""
COLUMNS = {
    "age": [31.0, None, 47.0, 20.0],
    "town": ["Oslo", "Bergen", "Oslo", None],
    "since": [datetime.date(2020, 2, 29), datetime.date(2021, 12, 31), datetime.date(2019, 6, 3), None],
    "member": [True, False, None, True],
    "mood": ["good", "bad", "bad", "good"],
}
CSV = """age,town,since,member,mood
31,Oslo,2020-02-29,true,good
,Bergen,2021-12-31,false,bad
47,Oslo,2019-06-03,,bad
20,,,true,good
"""
TYPES = {
    "age": pa.float64(),
    "town": pa.dictionary(pa.int32(), pa.string()),
    "since": pa.date32(),
    "member": pa.bool_(),
    "mood": pa.string(),
}


class Frame:
    """What pandas and polars have in common, over arrays of objects."""

    def __init__(self, columns):
        self.values = {}
        for name, values in columns.items():
            self.values[name] = np.empty(len(values), object)
            self.values[name][:] = values
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.values[name]

    def to_numpy(self):
        return np.stack(list(self.values.values()), 1)


def arrow_table(columns):
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


MAKERS = {"dict": dict, "frame": Frame, "arrow": arrow_table}


def reference(tmp_path):
    """The model that the same rows of a CSV file train."""
    (tmp_path / "people.csv").write_text(CSV)
    model = model_from_text(TEXT)
    model.fit(pt.Data(source=str(tmp_path / "people.csv"), label="mood", missing="indicator"), verbose=0)
    return model


@pytest.mark.parametrize("kind", MAKERS)
def test_frames_are_read_as_a_file_is(kind, tmp_path):
    expected = reference(tmp_path)
    model = model_from_text(TEXT)
    table = MAKERS[kind](COLUMNS)
    model.fit(pt.data.TypedTable(table, "mood", missing="indicator"), verbose=0)
    assert model.table_columns == expected.table_columns
    turned = MAKERS[kind](dict(reversed(COLUMNS.items())))
    predicted = model.predict(turned)
    np.testing.assert_array_equal(predicted, expected.predict(tmp_path / "people.csv"))
    np.testing.assert_allclose(np.asarray(model(turned)), predicted, rtol=1e-5)
    np.testing.assert_array_equal(model.predict_on_batch(turned), predicted)
    assert model.evaluate(turned) == expected.evaluate(tmp_path / "people.csv")


def test_a_frame_with_texts_trains_as_it_is_and_keeps_the_class_names(tmp_path):
    rows = {"n": [1.0, 2.0, 3.0, 5.0], "town": ["a", "b", "a", "b"]}
    model = model_from_text(TEXT)
    model.fit(rows, ["no", "yes", "no", "yes"], verbose=0)
    assert model.table_columns.encoding.classes == ("no", "yes")
    model.save(tmp_path / "m.h5")
    loaded = pt.load_model(tmp_path / "m.h5")
    assert loaded.table_columns == model.table_columns
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    losses = loaded.evaluate(rows, ["no", "yes", "no", "yes"]), loaded.evaluate(rows, [0, 1, 0, 1])
    assert losses[0] == losses[1]
    with pytest.raises(DataError, match="row 1, y: expected one of the classes no, yes"):
        loaded.evaluate(rows, ["no", "perhaps", "no", "yes"])


def test_weights_go_with_the_rows_that_are_left():
    rows = {"n": [1.0, np.nan, 3.0, 5.0], "town": ["a", "b", "a", "b"]}
    model = model_from_text(TEXT)
    table = pt.data.TypedTable(rows, column=[pt.data.Column("n", missing="drop")])
    signature = model.signature()
    rows = open_frame(table, np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 4.0]), signature, learn=True)
    with pytest.warns(UserWarning, match="1 of the 4 rows are left out"):
        rows = rows.without_gaps(["n"])
    encoded = rows.encode(rows.fit(INPUTS), INPUTS, False, False)
    assert encoded.column_array("sample_weight").tolist() == [1, 3, 4]
    assert encoded.column_array("logits").tolist() == [0, 0, 1]


def test_frames_of_numbers_are_read_as_they_are():
    model = model_from_text(TEXT)
    rows = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}
    model.fit(rows, [0, 1, 0], verbose=0)
    assert model.table_columns.encoding is None
    np.testing.assert_allclose(model.predict(rows), model.predict(np.array([[1.0, 4], [2, 5], [3, 6]])), rtol=1e-6)


def test_batches_of_tables_are_refused_where_the_model_reads_types(tmp_path):
    model = reference(tmp_path)
    with pytest.raises(UsageError, match="those in a stream of batches are not"):
        model.predict(iter([Frame({n: v for n, v in COLUMNS.items() if n != "mood"})]))
    with pytest.raises(UsageError, match="has not been trained on a table"):
        model_from_text(TEXT).evaluate(pt.data.TypedTable(COLUMNS, "mood", missing="indicator"))


def test_values_of_several_kinds_in_a_column_are_refused():
    rows = {"n": [1.0, 2.0], "mixed": ["a", 3]}
    with pytest.raises(DataError, match=r"'mixed' holds values of several kinds .*\(int, str\)"):
        model_from_text(TEXT).fit(pt.data.TypedTable(rows, missing="mean"), [0, 1], verbose=0)


def test_integers_of_a_frame_and_of_a_file_are_one_category():
    model = model_from_text(TEXT)
    columns = [pt.data.Column("zip", type="category")]
    model.fit(pt.data.TypedTable({"zip": [1, 2, 1, 2]}, column=columns), [0, 1, 0, 1], verbose=0)
    encoding = model.table_columns.encoding
    assert encoding.columns[0].categories == ("1", "2")
    signature = model.signature().without_targets
    rows = encode_rows(open_frame(pt.data.TypedTable({"zip": np.array([2.0, 1.0])}), None, None, signature), signature)
    assert rows.column_array("row").tolist() == [[0, 1], [1, 0]]
