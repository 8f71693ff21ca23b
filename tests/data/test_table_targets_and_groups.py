"""Groups of columns as inputs, weights of rows, several targets, and scaled targets of tables."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.table_files import read_table_file
from prototorch.errors import DataError, TextError, UsageError
from prototorch.model.load import model_from_text
from tests.data.typed_tables import FLAT, column, encoded, fit, flat_model, write

GROUPS = """
name: "groups"
input { name: "place"  shape: [none] }
input { name: "person"  shape: [none] }
Dense { name: "a"  bottom: "place"  units: 2 }
Dense { name: "b"  bottom: "person"  units: 2 }
Concatenate { bottom: ["a", "b"] }
Dense { name: "out"  units: 1 }
compile { loss: mse  optimizer: sgd }
"""


def test_groups_of_columns_are_the_inputs(tmp_path):
    rows = [("town", "lat", "lon", "age", "id", "y"), ("Oslo", 1, 2, 30, 7, 0), ("Rome", 3, 5, 40, 8, 1)]
    path = write(tmp_path / "t.csv", rows)
    (tmp_path / "t.proto").write_text(
        GROUPS + 'fit { data { source: "t.csv"  label: "y"  scale: none  inputs { name: "place"  columns: ["town", '
        '"l*"] }  inputs { name: "person"  columns: "age" } }  epochs: 1 }'
    )
    model = pt.load_model(tmp_path / "t.proto")
    model.fit(verbose=0)
    assert encoded(model, path, "place").tolist() == [[1, 0, 1, 2], [0, 1, 3, 5]]
    assert encoded(model, path, "person").tolist() == [[30], [40]]
    assert model.table_columns.encoding.unread == ("id",)
    message = r"has no column 'x\*'"
    with pytest.raises(DataError, match=message):
        fit(model_from_text(GROUPS), path, label="y", inputs=[pt.data.InputColumns(name="place", columns=["x*"])])


def test_columns_in_no_group_go_to_the_input_that_has_none(tmp_path):
    rows = [("lat", "age", "id", "y"), (1, 30, 7, 0), (3, 40, 8, 1)]
    path = write(tmp_path / "t.csv", rows)
    group = pt.data.InputColumns(name="place", columns=["lat"])
    model = fit(model_from_text(GROUPS), path, label="y", scale="none", inputs=[group])
    assert encoded(model, path, "person").tolist() == [[30, 7], [40, 8]]


def test_a_column_of_weights_weighs_the_rows(tmp_path):
    rng = np.random.default_rng(1)
    x, y, w = rng.normal(size=12), rng.normal(size=12), rng.integers(0, 4, 12)
    path = write(tmp_path / "t.csv", [("x", "w", "y"), *zip(x.round(4), w, y.round(4), strict=True)])
    model, other = flat_model(), flat_model()
    fit(model, path, label="y", weights="w", scale="none", epochs=3, batch_size=12)
    inputs, targets = x.round(4)[:, None].astype(np.float32), y.round(4).astype(np.float32)
    other.fit(inputs, targets, sample_weight=w, epochs=3, batch_size=12, verbose=0)
    for name, array in model.get_weights().items():
        np.testing.assert_allclose(array, other.get_weights()[name], rtol=1e-5)
    assert [one.name for one in model.table_columns.encoding.columns] == ["x"]
    new = write(tmp_path / "new.csv", [("x", "y"), (1, 2)])
    model.predict(new)
    model.evaluate(new)
    path = write(tmp_path / "bad.csv", [("x", "w", "y"), (1, -2, 1), (2, 1, 1)])
    with pytest.raises(DataError, match="line 2, column 'w': expected a weight of at least 0, got -2"):
        fit(flat_model(), path, label="y", weights="w")
    with pytest.raises(DataError, match="has no column 'weight' for the weights"):
        fit(flat_model(), path, label="y", weights="weight")


PRICES = [("area", "price"), *((a, round(1000 * np.exp(a / 40))) for a in range(20, 120, 3))]


@pytest.mark.parametrize("scale", ["standard", "minmax", "log"])
def test_predictions_and_metrics_of_a_scaled_target_are_in_its_unit(tmp_path, scale):
    path = write(tmp_path / "t.csv", PRICES)
    model = fit(flat_model(), path, label="price", column=[column("price", scale=scale)], epochs=200)
    y = np.array([row[1] for row in PRICES[1:]], np.float64)
    predicted = model.predict(path)[:, 0]
    scaled = np.log1p(y) if scale == "log" else y
    shift, extent = (scaled.min(), np.ptp(scaled)) if scale == "minmax" else (scaled.mean(), scaled.std())
    x = encoded(model, path)
    kernel, bias = (np.asarray(model.weights[f"out/{n}"], np.float64) for n in ("kernel", "bias"))
    raw = (x @ kernel + bias)[:, 0]
    expected = raw * extent + shift
    expected = np.expm1(expected) if scale == "log" else expected
    np.testing.assert_allclose(predicted, expected, rtol=2e-4)
    results = model.evaluate(path)
    assert results["loss"] == pytest.approx(np.mean((raw - (scaled - shift) / extent) ** 2), rel=1e-3)
    assert results["mae"] == pytest.approx(np.mean(np.abs(expected - y)), rel=1e-2)
    assert results["mae"] < np.std(y)
    # every other face has the same numbers
    np.testing.assert_allclose(model.predict_on_batch(x)[:, 0], predicted, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(model(x).detach())[:, 0], predicted, rtol=1e-4)
    model.save(tmp_path / "m.h5")
    loaded = pt.load_model(tmp_path / "m.h5")
    np.testing.assert_allclose(loaded.predict(path)[:, 0], predicted, rtol=1e-6)
    assert dict(loaded.evaluate(path)) == pytest.approx(dict(results), rel=1e-5)
    frame = {name: [row[at] for row in PRICES[1:]] for at, name in enumerate(PRICES[0])}
    np.testing.assert_allclose(loaded.predict(pt.data.TypedTable(frame))[:, 0], predicted, rtol=1e-6)
    runtime = pytest.importorskip("onnxruntime")
    loaded.export(tmp_path / "m.onnx", shapes={"row": (1,)})
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    (output,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(output[:, 0], predicted, rtol=1e-4)


def test_several_targets_each_have_their_scale(tmp_path):
    rows = [("a", "b", "c"), *((i, 100 * i + 5, float(np.exp(i / 5))) for i in range(1, 30))]
    path = write(tmp_path / "t.csv", rows)
    statements = [column("b", scale="standard"), column("c", scale="log")]
    model = fit(flat_model(units=2), path, label=["b", "c"], column=statements, epochs=300, batch_size=8)
    y = np.array([row[1:] for row in rows[1:]])
    predicted = model.predict(path)
    assert np.abs(predicted - y)[:, 0].mean() < 200
    assert np.abs(np.log(predicted[:, 1]) - np.log(y[:, 1])).mean() < 0.3
    assert model.evaluate(path)["mae"] == pytest.approx(np.abs(predicted - y).mean(), rel=1e-3)
    text = """
    input { name: "row"  shape: [none] }
    Dense { name: "kind"  bottom: "row"  units: 2 }
    Dense { name: "b"  bottom: "row"  units: 1 }
    output: ["b", "kind"]
    compile {
      loss { output: "b"  type: mse }
      loss { output: "kind"  type: sparse_categorical_crossentropy { from_logits: true } }
      optimizer: sgd { learning_rate: 0.1 }
    }
    """
    rows = [("a", "b", "kind"), *((i, 100 * i + 5, "ab"[i % 2]) for i in range(1, 30))]
    path = write(tmp_path / "u.csv", rows)
    model = fit(model_from_text(text), path, label=["b", "kind"], column=[statements[0]], epochs=100)
    outputs = model.predict(path)
    assert np.abs(outputs["b"][:, 0] - [row[1] for row in rows[1:]]).mean() < 300
    other = write(tmp_path / "v.csv", [rows[0], *((row[0], row[1], "b") for row in rows[1:5])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.evaluate(other)  # "b" is class 1 here, too
    columns = model.table_columns
    assert TableColumns.from_json(json.loads(json.dumps(columns.to_json()))).encoding == columns.encoding


def test_a_scale_for_class_names_or_a_loss_of_classes_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", [("a", "y"), (1, "x"), (2, "z")])
    with pytest.raises(DataError, match="column 'y': scale is for values, and these are names of classes"):
        fit(flat_model(), path, label="y", column=[column("y", scale="standard")])
    path = write(tmp_path / "u.csv", [("a", "y"), (1, 0), (2, 1)])
    model = flat_model(2, "sparse_categorical_crossentropy { from_logits: true }", "accuracy")
    with pytest.raises(UsageError, match="compares classes: leave scale out"):
        fit(model, path, label="y", column=[column("y", scale="standard")])


def test_a_value_for_all_gaps(tmp_path):
    path = write(tmp_path / "t.csv", [("a", "b", "y"), (1, 5, 0), ("", 7, 1)])
    model = fit(flat_model(), path, label="y", missing=0, scale="none")
    assert encoded(model, path).tolist() == [[1, 5], [0, 7]]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('column { name: "a"  type: number  separator: "|" }', "elements and separator are for lists"),
        ('column { name: "a"  type: text  scale: log }', "scale is for numbers and dates"),
        ('inputs { name: "row"  columns: [] }', "a group needs columns"),
    ],
)
def test_statements_that_contradict_themselves(statement, message):
    fit_block = f'fit {{ data {{ source: "t"  {statement} }} }}'
    with pytest.raises(TextError, match=message):
        model_from_text(FLAT.format(units=1, loss="mse", metrics="mae") + fit_block)


def test_tables_without_columns_of_texts_keep_their_format(tmp_path):
    path = write(tmp_path / "t.csv", [("a", "b", "y"), (1, "u", 0), (2, "v", 1)])
    assert fit(flat_model(), path, label="y").table_columns.to_json()["format"] == 3
    assert read_table_file(path, True).columns["b"].tolist() == ["u", "v"]
