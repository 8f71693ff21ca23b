"""Tables by type from the shell: what `check` and `run` say of the columns, and predictions by class names."""

import json

import pytest

from prototorch.cli import main

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
