"""What `evaluate`, `train_on_batch` and `test_on_batch` return: a tuple as in Keras, whose values have names."""

from __future__ import annotations

import copy
import json
import math
import pickle

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.train.evaluation_result import EvaluationResult

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 3
CALLS = {
    "evaluate": lambda model, **options: model.evaluate(X, Y, batch_size=8, verbose=0, **options),
    "train_on_batch": lambda model, **options: model.train_on_batch(X, Y, **options),
    "test_on_batch": lambda model, **options: model.test_on_batch(X, Y, **options),
}
CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def model(library=pt, metrics=("accuracy",)):
    net = library.Sequential([library.Input((3,)), library.layers.Dense(3, activation="softmax", name="out")])
    net.compile("sgd", "sparse_categorical_crossentropy", metrics=list(metrics))
    net.set_weights([np.eye(3, dtype=np.float32), np.zeros(3, np.float32)])
    return net


@CALL
def test_a_result_unpacks_to_what_keras_returns(call):
    loss, accuracy = call(model())
    expected = call(model(keras))
    np.testing.assert_allclose([loss, accuracy], expected, rtol=1e-5)


@CALL
def test_a_result_is_a_tuple_with_names(call):
    net = model()
    result = call(net)
    assert isinstance(result, tuple)
    assert list(result.keys()) == net.metrics_names == ["loss", "accuracy"]
    assert len(result) == 2
    assert [*result] == [result[0], result[1]] == [result["loss"], result["accuracy"]] == list(result.values())
    assert result[-1] == result["accuracy"]
    assert result[:1] == (result["loss"],)
    assert dict(result.items()) == dict(result) == result.asdict()
    assert result.get("loss") == result[0]
    assert result.get("f1") is None
    assert result.get("f1", 0) == 0
    assert "loss" in result
    assert "f1" not in result
    assert result["loss"] in result
    assert all(type(value) is float for value in result)
    assert json.loads(json.dumps(result.asdict())) == {"loss": result[0], "accuracy": result[1]}
    with pytest.raises(KeyError, match=r"no 'acurracy', its names are loss, accuracy\. Did you mean 'accuracy'"):
        result["acurracy"]
    with pytest.raises(IndexError):
        result[2]
    with pytest.raises(TypeError, match=r"2 values \(loss, accuracy\), not one: take one, float\(result\['loss'\]\)"):
        float(result)


@CALL
def test_a_lone_loss_is_a_tuple_that_float_takes(call):
    result = call(model(metrics=()))
    (loss,) = result
    assert loss == float(result) == result["loss"]
    assert math.isclose(loss, float(call(model(keras, metrics=()))), rel_tol=1e-5)


@CALL
def test_return_dict_gives_a_plain_dict(call):
    result = call(model(), return_dict=True)
    assert type(result) is dict
    assert list(result) == ["loss", "accuracy"]
    assert call(model(), return_dict=False).asdict() == result


def test_names_are_known_before_the_first_step_and_follow_several_outputs():
    start = pt.Input((3,))
    net = pt.Model(start, [pt.layers.Dense(1, name=name)(start) for name in ("a", "b")])
    net.compile("sgd", ["mse", "mse"], ["mae"])
    assert net.metrics_names == ["loss", "a_loss", "b_loss", "a_mae", "b_mae"]
    assert tuple(net.metrics_names) == net.evaluate(X, {"a": X[:, :1], "b": X[:, 1:2]}).metrics_names
    with pytest.raises(pt.errors.UsageError, match="compile"):
        _ = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1)]).metrics_names


def test_metrics_that_are_arrays_are_lists():
    result = model(metrics=[pt.metrics.ConfusionMatrix()]).evaluate(X, Y)
    assert np.shape(result["confusion_matrix"]) == (3, 3)
    assert json.loads(json.dumps(result.asdict())) == result.asdict()


def test_a_result_can_be_copied_and_pickled():
    result = EvaluationResult({"loss": 0.5, "mae": 0.25})
    for again in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert type(again) is EvaluationResult
        assert again.asdict() == result.asdict()
        assert again == result == (0.5, 0.25)
    assert repr(result) == "EvaluationResult(loss=0.5, mae=0.25)"
    with pytest.raises(TypeError, match="0 values"):
        float(EvaluationResult({}))
