"""What a model gets right and wrong, beside counts by hand."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.model.load import model_from_text


def identity_model(features, loss, shape=None, outputs='Activation { name: "y"  activation: linear }'):
    shape = [features] if shape is None else shape
    model = model_from_text(f'input {{ name: "x"  shape: {shape} }}\n{outputs}\ncompile {{ loss: {loss} }}')
    model.build()
    return model


def counts(true, predicted, classes):
    table = np.zeros((classes, classes), int)
    for i, j in zip(true, predicted, strict=True):
        table[i, j] += 1
    return table


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy { from_logits: true }", "categorical_crossentropy"])
def test_classes_are_counted(loss):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 70)
    x = rng.uniform(0.1, 1, (70, 4)).astype(np.float32) + np.eye(4, dtype=np.float32)[y] * 0.4
    y[y == 3] = 2  # the last class has no sample
    model = identity_model(4, loss)
    target = np.eye(4, dtype=np.float32)[y] if "sparse" not in loss else y
    report = pt.evaluation_report(model, x, target, batch_size=16)["y"]
    table = counts(y, x.argmax(1), 4)
    np.testing.assert_array_equal(report.confusion, table)
    assert report.accuracy == np.mean(y == x.argmax(1))
    for k in range(3):
        assert report.precision()[k] == table[k, k] / table[:, k].sum()
        assert report.recall()[k] == table[k, k] / table[k].sum()
        p, r = report.precision()[k], report.recall()[k]
        np.testing.assert_allclose(report.f1()[k], 2 * p * r / (p + r))
    assert np.isnan(report.recall()[3])
    assert report.as_dict()["classes"][3]["recall"] is None
    assert report.as_dict()["classes"][0]["class"] == "0"
    assert "nan" not in "\n".join(report.lines())
    table[range(4), range(4)] = 0
    assert report.most_confused()[0][2] == table.max()


def test_positions_count_one_by_one_but_those_that_are_ignored():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(5, 3, 4, 2)).astype(np.float32), rng.integers(0, 3, (5, 4, 2))
    loss = "sparse_categorical_crossentropy { from_logits: true  axis: 1  ignore_class: 1 }"
    report = pt.evaluation_report(identity_model(None, loss, [3, 4, 2]), x, y, batch_size=2)["y"]
    known = y != 1
    np.testing.assert_array_equal(report.confusion, counts(y[known], x.argmax(1)[known], 3))


@pytest.mark.parametrize(("loss", "limit"), [("bce", 0.5), ("bce { from_logits: true }", 0.0)])
def test_yes_and_no_are_two_classes(loss, limit):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.01, 0.99, (30, 1)).astype(np.float32) - (0.5 - limit), rng.integers(0, 2, 30)
    report = pt.evaluation_report(identity_model(1, loss), x, y)["y"]
    np.testing.assert_array_equal(report.confusion, counts(y, (x[:, 0] > limit).astype(int), 2))


def test_values_have_errors_by_quantile():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(101, 2)).astype(np.float32)
    y = x + rng.normal(size=x.shape).astype(np.float32)
    report = pt.evaluation_report(identity_model(2, "mse"), x, y, batch_size=32)["y"].as_dict()
    errors = x.astype(float) - y
    np.testing.assert_allclose(report["mean_absolute_error"], np.abs(errors).mean())
    np.testing.assert_allclose(report["root_mean_squared_error"], np.sqrt((errors**2).mean()))
    np.testing.assert_allclose(report["mean_error"], errors.mean())
    np.testing.assert_allclose(report["r2"], 1 - (errors**2).sum() / ((y - y.mean(0, dtype=float)) ** 2).sum())
    np.testing.assert_allclose(report["quantiles_of_absolute_error"]["0.9"], np.quantile(np.abs(errors), 0.9))
    assert report["quantiles_of_absolute_error"]["1"] == np.abs(errors).max()


def test_independent_probabilities_have_no_report():
    x = np.full((4, 3), 0.5, np.float32)
    assert pt.evaluation_report(identity_model(3, "bce"), x, np.ones((4, 3), np.float32)) == {}


def test_the_command_prints_what_is_confused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,b,price\n" + "".join(f"{i},{i % 3},{2 * i + 1}\n" for i in range(40)))
    (tmp_path / "net.proto").write_text(
        'input { name: "x"  shape: [2] }\nDense { units: 1 }\ncompile { loss: mse }\n'
        'fit { data { source: "table.csv"  label: "price" } validation_split: 0.25 }\n'
    )
    result = CliRunner().invoke(group, ["evaluate", "net.proto"])
    assert result.exit_code == 0, result.output
    assert "absolute error below, by share of the values: 50 %:" in result.stdout
    assert "predicting the mean:" in result.stdout
    result = CliRunner().invoke(group, ["evaluate", "net.proto", "--json", "--report"])
    assert json.loads(result.stdout)["report"]["dense_1"]["samples"] == 10
    assert "report" not in json.loads(CliRunner().invoke(group, ["evaluate", "net.proto", "--json"]).stdout)
