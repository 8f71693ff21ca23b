"""Which columns a model depends on: linear models, of which it is known."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import UsageError
from prototorch.model.load import model_from_text

TEXT = """
name: "prices"
input { name: "x"  shape: [none] }
Dense { units: 1 }
compile { loss: mse  optimizer: SGD { learning_rate: 0.1 }  metrics: [mae] }
fit { data { source: "table.csv"  label: "price" } validation_split: 0.25  epochs: 40 }
"""


def linear_model(weights):
    model = model_from_text(
        f'input {{ name: "x"  shape: [{len(weights)}] }}\nDense {{ units: 1 }}\ncompile {{ loss: mse }}'
    )
    model.build()
    model.weights["dense_1/kernel"] = np.array(weights, np.float32)[:, None]
    return model


def test_the_loss_grows_by_what_shuffling_does():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3)).astype(np.float32)
    weights = [0.5, 0.0, 2.0]
    importances = pt.permutation_importance(linear_model(weights), x, x @ np.array(weights), repeats=3, rows=4000)
    assert [one.name for one in importances] == ["x[2]", "x[0]", "x[1]"]
    # the mean squared difference of two independent values is twice the variance
    np.testing.assert_allclose([one.mean() for one in importances[:2]], [8, 0.5], rtol=0.1)
    assert abs(importances[2].mean()) < 1e-6
    assert importances[0].changes["loss"].shape == (3,)


def test_the_rows_are_drawn_by_the_seed():
    rng = np.random.default_rng(1)
    x, model = rng.normal(size=(300, 2)).astype(np.float32), linear_model([1, 2])
    first, again, other = (
        pt.permutation_importance(model, x, x.sum(1), rows=50, seed=seed)[0].changes["loss"] for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_an_input_of_images_is_one_column():
    model = model_from_text(
        'input { name: "image"  shape: [1, 4, 4] }\ninput { name: "size"  shape: [1] }\n'
        'Flatten { bottom: "image"  name: "f" }\n'
        'Concatenate { bottom: ["f", "size"] }\nDense { units: 1  name: "y" }\ncompile { loss: mse }'
    )
    model.build()
    rng = np.random.default_rng(2)
    x = {
        "image": rng.normal(size=(40, 1, 4, 4)).astype(np.float32),
        "size": rng.normal(size=(40, 1)).astype(np.float32),
    }
    names = {one.name for one in pt.permutation_importance(model, x, rng.normal(size=40), repeats=1)}
    assert names == {"image", "size"}


def test_all_that_a_column_becomes_is_shuffled_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    size, color, noise = rng.normal(size=400), rng.choice(["red", "blue", "green"], 400), rng.normal(size=400)
    price = size + np.where(color == "red", 3, 0)
    rows = zip(size, color, noise, price, strict=True)
    (tmp_path / "table.csv").write_text(
        "size,color,noise,price\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    )
    (tmp_path / "net.proto").write_text(TEXT)
    assert CliRunner().invoke(group, ["run", "net.proto"]).exit_code == 0
    result = CliRunner().invoke(group, ["explain", "runs/prices/model.h5", "table.csv", "--json", "--repeats", "2"])
    columns = [one["column"] for one in json.loads(result.stdout)]
    assert columns == ["color", "size", "noise"]  # variances of 2 and 1
    printed = CliRunner().invoke(group, ["explain", "runs/prices/model.h5"])
    assert printed.exit_code == 0, printed.output
    assert [line.split()[0] for line in printed.stdout.splitlines()] == ["column", "color", "size", "noise"]
    assert "mae" in printed.stdout


def test_wrong_arguments_are_named():
    model = linear_model([1])
    with pytest.raises(UsageError, match="repeats"):
        pt.permutation_importance(model, np.ones((4, 1)), np.ones(4), repeats=0)
    with pytest.raises(UsageError, match="rows"):
        pt.permutation_importance(model, np.ones((4, 1)), np.ones(4), rows=1)
