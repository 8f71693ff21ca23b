"""Tables by type: categories, gaps and dates of a CSV file, with NumPy as the oracle of what they become."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.dataset import ArrayDataset
from prototorch.data.pipeline.samples import open_paths
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.table_encoding import TableEncoding
from prototorch.errors import DataError, DataWarning, TextError

TEXT = """
name: "people"
input {{ name: "row"  shape: [{width}] }}
Dense {{ name: "logits"  units: 2 }}
compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }}  optimizer: sgd  metrics: [accuracy] }}
fit {{
  data {{ source: "{source}"  {data} }}
  epochs: 2
  {fit}
}}
"""
ROWS = [
    ("age", "town", "since", "member", "mood"),
    ("31", "Oslo", "2020-02-29", "yes", "good"),
    ("", "Bergen", "2021-12-31", "no", "bad"),
    ("47", "Oslo", "2019-06-03", "no", "bad"),
    ("20", "", "2024-01-01", "yes", "good"),
    ("58", "Oslo", "2020-07-15", "yes", "good"),
    ("36", "Bergen", "2022-10-09", "no", "bad"),
]


def write(path, rows, delimiter=","):
    path.write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
    return path


def make_model(tmp_path, data, rows=ROWS, width="none", fit="", inputs=None):
    write(tmp_path / "people.csv", rows)
    text = TEXT.format(source=tmp_path / "people.csv", data=data, width=width, fit=fit)
    (tmp_path / "people.proto").write_text(inputs or text)
    return pt.load_model(tmp_path / "people.proto")


def fit(model, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model.fit(verbose=0, **arguments)
    return model


def encoded(model, path):
    """What the model's input is for a table [rows, elements]."""
    (columns,) = open_paths([str(path)], model.signature().without_targets, 32).groups
    return columns.dataset.column_array("row")


def test_categories_gaps_and_dates_become_elements(tmp_path):
    model = fit(make_model(tmp_path, 'label: "mood"  missing: mean  column { name: "town"  missing: indicator }'))
    x = encoded(model, tmp_path / "people.csv")
    ages = np.array([31, np.nan, 47, 20, 58, 36])
    ages[1] = np.nanmean(ages)
    towns = [row[1] for row in ROWS[1:]]
    dates = [datetime.date.fromisoformat(row[2]) for row in ROWS[1:]]

    def standard(values):
        values = np.asarray(values, float)
        return (values - values.mean()) / values.std()

    expected = np.column_stack(
        [
            standard(ages),
            *([town == word for town in towns] for word in ("Bergen", "Oslo", "")),
            standard([date.year for date in dates]),
            *([date.month == month for date in dates] for month in range(1, 13)),
            *([date.weekday() == day for date in dates] for day in range(7)),
            standard([date.toordinal() for date in dates]),
            [row[3] == "yes" for row in ROWS[1:]],
        ]
    )
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
    assert model.fit_block.data.classes == ("bad", "good")


def test_statistics_are_those_of_the_training_part_alone(tmp_path):
    values = [str(i * i) for i in range(40)]
    rows = [("a", "b", "y"), *((value, "st"[i % 2], str(i % 2)) for i, value in enumerate(values))]
    model = fit(make_model(tmp_path, 'label: "y"', rows, fit="validation_split: 0.25"))
    training, _ = ArrayDataset({"a": np.square(np.arange(40.0))}, ["a"]).split(0.25, seed=0)
    expected = training.column_array("a")
    column = model.table_columns.encoding.columns[0]
    assert column.rows == len(expected) == 30
    assert column.scaling[0] == pytest.approx((expected.mean(), 1 / expected.std()), rel=1e-12)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("mean", 38.4),
        ("median", 36.0),
        ("most_frequent", 20.0),
        ("7", 7.0),
    ],
)
def test_what_a_gap_becomes(tmp_path, policy, expected):
    data = f'label: "mood"  scale: none  features: ["age"]  column {{ name: "age"  missing: {policy} }}'
    x = encoded(fit(make_model(tmp_path, data)), tmp_path / "people.csv")
    assert x[:, 0].tolist() == pytest.approx([31, expected, 47, 20, 58, 36], rel=1e-6)


def test_an_indicator_marks_the_gaps(tmp_path):
    data = 'label: "mood"  scale: minmax  features: ["age"]  column { name: "age"  missing: indicator }'
    x = encoded(fit(make_model(tmp_path, data)), tmp_path / "people.csv")
    assert x[:, 1].tolist() == [0, 1, 0, 0, 0, 0]
    assert x[:, 0].tolist() == pytest.approx([(a - 20) / 38 for a in (31, 38.4, 47, 20, 58, 36)])


def test_rows_with_gaps_are_left_out_of_training_and_refused_in_a_prediction(tmp_path):
    model = make_model(tmp_path, 'label: "mood"  features: ["age"]  column { name: "age"  missing: drop }')
    with pytest.warns(DataWarning, match=r"1 of the 6 rows are left out for gaps in 'age'"):
        model.fit(verbose=0)
    assert model.table_columns.encoding.columns[0].rows == 5
    with pytest.raises(DataError, match=r"1 in 'age' \(the first: line 3\)"):
        model.predict(tmp_path / "people.csv")


def test_gaps_that_nothing_is_said_of_are_counted_by_column(tmp_path):
    message = (
        r"people.proto:7:\d+: .*people.csv: of 6 rows there are gaps: 1 in 'age' \(the first: line 3\), 1 in 'town' "
        r'\(the first: line 5\); .*column { name: "age"  missing: median }'
    )
    with pytest.raises(DataError, match=message):
        make_model(tmp_path, 'label: "mood"').fit(verbose=0)


def test_a_typing_mistake_among_numbers_stays_an_error(tmp_path):
    rows = [*ROWS[:3], ("4x", *ROWS[3][1:]), *ROWS[4:]]
    message = "people.csv, line 4, column 'age': expected a number, got text of 2 characters"
    with pytest.raises(DataError, match=message):
        make_model(tmp_path, 'label: "mood"  missing: median', rows).fit(verbose=0)


def test_texts_that_hardly_repeat_are_not_taken_for_categories(tmp_path):
    rows = [("name", "y"), *((f"person {i}", str(i % 2)) for i in range(30))]
    with pytest.raises(DataError, match=r"'name': holds 30 different texts in 30 rows.*type: ignore"):
        make_model(tmp_path, 'label: "y"', rows).fit(verbose=0)
    rows = [("n", *rows[0]), *((str(i), *row) for i, row in enumerate(rows[1:]))]
    model = fit(make_model(tmp_path, 'label: "y"  column { name: "name"  type: ignore }', rows))
    assert [one.name for one in model.table_columns.encoding.columns] == ["n"]


def test_a_saved_model_reads_new_tables_by_the_same_statistics(tmp_path):
    model = fit(make_model(tmp_path, 'label: "mood"  missing: median'))
    model.save(tmp_path / "people.h5")
    (tmp_path / "new").mkdir()
    new = [("member", "since", "town", "age"), ("no", "2030-05-01", "Oslo", "99"), ("yes", "1990-01-01", "Paris", "")]
    write(tmp_path / "new" / "new.csv", new, ";")
    loaded = pt.load_model(tmp_path / "people.h5")
    assert loaded.table_columns == model.table_columns
    with pytest.warns(DataWarning, match=r"1 in 'town' \(the first: line 3\)"):
        predicted = loaded.predict(tmp_path / "new" / "new.csv")
    with pytest.warns(DataWarning):
        x = encoded(model, tmp_path / "new" / "new.csv")
    names = [name for one in model.table_columns.encoding.columns for name in one.element_names()]
    assert x[1, [names.index("town=Oslo"), names.index("town=Bergen")]].tolist() == [0, 0]
    assert x[1, names.index("age")] == pytest.approx(
        (36 - np.mean([31, 36, 47, 20, 58, 36])) / np.std([31, 36, 47, 20, 58, 36])
    )
    kernel, bias = (loaded.weights[f"logits/{name}"] for name in ("kernel", "bias"))
    np.testing.assert_allclose(predicted, x @ np.asarray(kernel) + np.asarray(bias), rtol=1e-5)
    with pytest.warns(DataWarning):
        copied = pt.load_model(tmp_path / "people.h5").predict(str(tmp_path / "new" / "new.csv"))
    np.testing.assert_array_equal(predicted, copied)


def test_a_second_fit_keeps_what_the_first_has_learned_unless_it_is_told_to_refit(tmp_path):
    model = fit(make_model(tmp_path, 'label: "mood"  missing: median'))
    first = model.table_columns.encoding
    write(tmp_path / "people.csv", [ROWS[0], *((str(2 * int(row[0] or 1)), *row[1:]) for row in ROWS[1:])])
    assert fit(model).table_columns.encoding == first
    model.fit_block = model.fit_block.replace(data=model.fit_block.data.replace(refit=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model.evaluate()
    assert model.table_columns.encoding == first
    assert fit(model).table_columns.encoding.columns[0].scaling != first.columns[0].scaling


def test_evaluation_reads_columns_by_name_and_refuses_other_classes(tmp_path):
    model = fit(make_model(tmp_path, 'label: "mood"  missing: median'))
    turned = [tuple(reversed(row)) for row in ROWS]
    write(tmp_path / "turned.csv", turned)
    write(tmp_path / "other.csv", [turned[0], *(("fair", *row[1:]) for row in turned[1:])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert model.evaluate(tmp_path / "turned.csv") == model.evaluate(tmp_path / "people.csv")
    with pytest.raises(DataError, match=r"other.csv, line 2, column 'mood': expected one of the classes bad, good"):
        model.evaluate(tmp_path / "other.csv")
    write(tmp_path / "short.csv", [row[1:] for row in ROWS])
    with pytest.raises(DataError, match="has no column 'age', which the model was trained on"):
        model.predict(tmp_path / "short.csv")


def test_rare_categories_share_an_element(tmp_path):
    rows = [
        ("town", "n", "y"),
        *(("Oslo", "1", "0"), ("Bergen", "2", "1")) * 4,
        ("Hamar", "3", "0"),
        ("Moss", "4", "1"),
    ]
    data = 'label: "y"  features: ["town"]  column { name: "town"  min_count: 2 }'
    model = fit(make_model(tmp_path, data, rows))
    write(tmp_path / "new.csv", [("town",), ("Moss",), ("Bergen",), ("Oslo",)])
    with pytest.warns(DataWarning, match=r"1 in 'town' \(the first: line 2\)"):
        x = encoded(model, tmp_path / "new.csv")
    assert x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    data = 'label: "y"  features: ["town"]  column { name: "town"  max_categories: 1 }'
    with pytest.warns(DataWarning):
        x = encoded(fit(make_model(tmp_path, data, rows)), tmp_path / "new.csv")
    assert x.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_an_input_of_integers_reads_categories_as_indices(tmp_path):
    text = f"""
    input {{ name: "town"  shape: [1]  dtype: int32 }}
    input {{ name: "rest"  shape: [none] }}
    Embedding {{ bottom: "town"  input_dim: 4  output_dim: 2 }}
    Flatten {{ name: "vector" }}
    Concatenate {{ bottom: ["vector", "rest"] }}
    Dense {{ units: 2 }}
    compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }} }}
    fit {{ data {{ source: "{tmp_path / "people.csv"}"  label: "mood"  missing: indicator }}  epochs: 1 }}
    """
    model = fit(make_model(tmp_path, "", inputs=text))
    columns = {one.name: one for one in model.table_columns.encoding.columns}
    assert (columns["town"].input, columns["town"].is_index, columns["town"].count) == ("town", True, 4)
    assert {columns[name].input for name in ("age", "since", "member")} == {"rest"}
    (opened,) = open_paths([str(tmp_path / "people.csv")], model.signature().without_targets, 32).groups
    assert opened.dataset.column_array("town").ravel().tolist() == [2, 1, 2, 3, 2, 1]
    assert opened.dataset.column_array("town").dtype == np.int32


def test_the_width_of_an_input_is_checked_with_the_columns_that_make_it(tmp_path):
    message = (
        r"the input 'row' has the shape \[4\], and its columns become 25 elements \(age 1, town 2, since 21, member 1\)"
    )
    with pytest.raises(DataError, match=message):
        make_model(tmp_path, 'label: "mood"  missing: median', width=4).fit(verbose=0)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('column { name: "ages" }', r"has no column 'ages'; it has 'age', .*Did you mean 'age'\?"),
        (
            'column { name: "mood"  scale: standard }',
            "column 'mood': scale is for values, and these are names of classes",
        ),
        ('column { name: "town"  type: number }', "line 2, column 'town': expected a number, got text of 4 characters"),
        ('column { name: "age"  type: date }', "line 2, column 'age': expected a date as 2024-01-31, got a number"),
        ('column { name: "age"  missing: "x" }', "column 'age': missing: 'x' is no value of a number"),
        ('column { name: "town"  missing: mean }', "these are categories: most_frequent"),
        ('column { name: "town"  input: "rows" }', "the model has no input 'rows'; its inputs are row"),
        ('column { name: "since"  scale: log }', "scale: log is for numbers"),
    ],
)
def test_statements_that_the_table_does_not_go_with(tmp_path, statement, message):
    with pytest.raises(DataError, match=message):
        make_model(tmp_path, f'label: "mood"  missing: median  {statement}').fit(verbose=0)


def test_statements_that_contradict_themselves(tmp_path):
    with pytest.raises(TextError, match="scale is for numbers and dates"):
        make_model(tmp_path, 'column { name: "town"  type: category  scale: log }')
    with pytest.raises(TextError, match=r"missing must be one of mean, median.* not the word meen"):
        make_model(tmp_path, 'column { name: "town"  missing: meen }')


def test_dates_of_another_form_and_their_parts(tmp_path):
    rows = [("sold", "y"), ("31.12.2020", "0"), ("1.2.2021", "1"), ("2.2.2021", "1")]
    data = 'label: "y"  scale: none  column { name: "sold"  format: "%d.%m.%Y"  parts: [elapsed, year] }'
    x = encoded(fit(make_model(tmp_path, data, rows)), tmp_path / "people.csv")
    assert x.tolist() == [[0, 2020], [32, 2021], [33, 2021]]
    rows = [("sold", "y"), ("2020-01-01T06:30:00Z", "0"), ("2020-01-01 08:30+02:00", "1"), ("2020-01-02T00:00", "1")]
    data = 'label: "y"  scale: none  column { name: "sold"  parts: [hour, elapsed] }'
    x = encoded(fit(make_model(tmp_path, data, rows)), tmp_path / "people.csv")
    np.testing.assert_allclose(x, [[6.5, 0], [6.5, 0], [0, 17.5 / 24]], rtol=1e-6)


def test_a_table_of_numbers_is_read_as_it_is(tmp_path):
    rows = [("a", "b", "y"), ("10", "2.5", "0"), ("30", "4", "1")]
    model = fit(make_model(tmp_path, 'label: "y"', rows))
    assert model.table_columns == TableColumns(("a", "b"), ("y",))
    model = fit(make_model(tmp_path, 'label: "y"  scale: minmax', rows))
    assert encoded(model, tmp_path / "people.csv").tolist() == [[0, 0], [1, 1]]


def test_targets_without_a_value_may_be_left_out(tmp_path):
    rows = [*ROWS, ("33", "Oslo", "2020-01-01", "no", "")]
    with pytest.raises(DataError, match="line 8, column 'mood': the target is missing"):
        make_model(tmp_path, 'label: "mood"  missing: median', rows).fit(verbose=0)
    model = make_model(tmp_path, 'label: "mood"  missing: median  column { name: "mood"  missing: drop }', rows)
    with pytest.warns(DataWarning, match="1 of the 7 rows have no 'mood' and are left out"):
        model.fit(verbose=0)


def test_names_of_columns_of_older_files_are_read(tmp_path):
    assert TableColumns.from_json({"format": 1, "features": ["a"], "labels": ["y"]}) == TableColumns(("a",), ("y",))
    encoding = fit(make_model(tmp_path, 'label: "mood"  missing: median')).table_columns.encoding
    columns = TableColumns(("a",), ("y",), encoding=encoding)
    assert TableColumns.from_json(columns.to_json()).encoding.widths() == encoding.widths()


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "code"},
        {"scaling": [[0.0, float("nan")]]},
        {"scaling": [[0.0, 1.0]] * 2},
        {"fill": "x"},
        {"fill": None, "missing": "fill"},
        {"unknown": 1},
        {"rows": -1},
        {"is_index": True},
        {"categories": [1]},
        {"input": 3},
    ],
)
def test_what_a_file_says_of_columns_is_checked(changes):
    column = {"name": "a", "type": "number", "input": "row", "missing": "fill", "fill": 1.0, "scaling": [[0.0, 1.0]]}
    assert TableEncoding.from_json({"columns": [column], "classes": [], "unread": []}).widths() == {"row": 1}
    with pytest.raises(ValueError, match=r"column|scaling|categories"):
        TableEncoding.from_json({"columns": [{**column, **changes}], "classes": [], "unread": []})
