"""Tables by type from the shell: what `check` and `run` say of the columns, and predictions by class names."""

import csv
import json

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli import main
from prototorch.errors import UsageError
from prototorch.model.prediction import Predictions
from prototorch.model.prediction_table import prediction_rows

TEXT = """
name: "people"
input { name: "row"  shape: [none] }
Dense { units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: sgd }
fit { data { source: "people.csv"  label: "mood"  missing: median }  epochs: 1 }
"""
TABLE = "age,town,mood\n31,Oslo,good\n,Bergen,bad\n47,Oslo,bad\n20,,good\n"


@pytest.fixture
def shell(capfd, tmp_path, monkeypatch):
    """Run a command in a folder with a text and its table: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.proto").write_text(TEXT)
    (tmp_path / "people.csv").write_text(TABLE)

    def run(*args):
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def test_check_prints_what_each_column_becomes(shell):
    code, out, err = shell("check", "people.proto")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "column age   number    scale standard (mean 32.25, deviation 9.627); 1 of 4 rows have a gap, read as 31; "
        "1 element of 'row'",
        "column town  category  2 values (Bergen, Oslo); 1 of 4 rows have a gap, read as Oslo; 2 elements of 'row'",
    ]


def test_check_names_the_field_for_gaps(shell, tmp_path):
    (tmp_path / "people.proto").write_text(TEXT.replace("missing: median", ""))
    code, _, err = shell("check", "people.proto")
    assert code != 0
    assert err.startswith(
        "people.proto:6:22: people.csv: of 4 rows there are gaps: 1 in 'age' (the first: line 3), 1 in"
    )
    assert 'column { name: "age"  missing: median }' in err


def test_a_text_trains_and_its_model_predicts_and_evaluates_tables(shell, tmp_path):
    code, _, err = shell("run", "people.proto")
    assert code == 0
    assert "column town  category  2 values (Bergen, Oslo)" in err
    (tmp_path / "new.csv").write_text("town;age\nOslo;50\nParis;\n")
    code, out, err = shell("predict", "runs/people/model.h5", "new.csv", "--json")
    assert code == 0
    assert "1 in 'town' (the first: line 3)" in err
    assert {one["class"] for one in next(iter(json.loads(out)[0]["classes"].values()))} == {"good", "bad"}
    code, out, _ = shell("evaluate", "runs/people/model.h5", "--data", "people.csv")
    assert (code, out[:5]) == (0, "loss ")


def test_predictions_are_written_as_a_table_in_the_order_of_the_rows(shell, tmp_path):
    assert shell("run", "people.proto", "--quiet")[0] == 0
    (tmp_path / "new.csv").write_text("town,age\nOslo,50\nBergen,\n")
    for name in ("out.csv", "out.jsonl"):
        code, out, err = shell("predict", "runs/people/model.h5", "new.csv", "-o", name)
        assert (code, out) == (0, "")
        assert err.endswith(f"2 predictions in {name}\n")
    logits = np.asarray(pt.load_model("runs/people/model.h5").predict("new.csv"), np.float64)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == ["0", "1"]
    assert [list(line) for line in lines] == [["name", "prediction", "p(bad)", "p(good)"]] * 2
    np.testing.assert_allclose([[line["p(bad)"], line["p(good)"]] for line in lines], expected, rtol=1e-5)
    assert [line["prediction"] for line in lines] == [("bad", "good")[k] for k in expected.argmax(1)]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [{k: str(v) for k, v in line.items()} for line in lines] == rows


def test_tables_of_predictions_of_each_kind():
    logits = np.array([[-1.0], [2.0]], np.float32)
    binary = Predictions(["a", "=b"], {"x": logits}, ("no", "yes"), {"x": "sigmoid"})
    header, rows = prediction_rows(binary)
    assert header == ["name", "prediction", "probability"]
    assert [row[1] for row in rows] == ["no", "yes"]
    assert [row[2] for row in rows] == pytest.approx((1 / (1 + np.exp(-logits[:, 0]))).tolist())
    several = {"x": logits, "y": np.array([[1.5, 2], [3, 4]], np.float32)}
    header, rows = prediction_rows(Predictions(["a", "b"], several, (), {"x": "values", "y": "values"}))
    assert header == ["name", "x prediction", "y prediction[0]", "y prediction[1]"]
    assert rows == [["a", -1.0, 1.5, 2.0], ["b", 2.0, 3.0, 4.0]]
    with pytest.raises(UsageError, match="a row of a table has one axis"):
        prediction_rows(Predictions(["a"], {"x": np.zeros((1, 2, 2))}))
