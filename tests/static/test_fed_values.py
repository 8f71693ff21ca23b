"""Values that are fed: none is changed by the cast to the declared type without a word."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers
from prototorch.errors import DataError, ShapeError, UsageError

WRONG = [
    ("int32", [[1.7, 2]], r"integers from -2147483648 to 2147483647; the value at \[0, 0\] is 1\.7"),
    ("int32", [[1, 2**62]], r"the value at \[0, 1\] is 4611686018427387904, which would become 0"),
    ("int32", [[float("nan"), 1]], "is nan"),
    ("int32", np.array([[1.5, 2]]), r"is 1\.5"),
    ("int32", np.array([[2**40, 2]]), "is 1099511627776"),
    ("int32", [["a", "b"]], "got text"),
    ("int32", [[1 + 2j, 0]], "got complex numbers"),
    ("int32", [[1, 2], [3]], "rows of one length"),
    ("int32", None, "is None"),
    ("uint8", [[256, 0]], "from 0 to 255"),
    ("uint8", [[-1, 0]], "is -1"),
    ("int8", [[128, 0]], "from -128 to 127"),
    ("int64", [[2.0**63, 0]], "is 9"),
    ("bool", [[2, 0]], "is 2"),
    ("bool", [[0.5, 0]], r"is 0\.5"),
    ("float32", [[1e300, 1]], "would become inf"),
    ("float32", [[2**2000, 1]], "has 2001 bits"),
    ("float32", [["1", "2"]], "got text"),
    ("float32", [[None, 1]], "is None"),
    ("float16", [[70000, 1]], "would become inf"),
]
RIGHT = [
    ("int32", [[1.0, 2.0]]),
    ("int32", [[True, False]]),
    ("int32", np.array([[1, 2]], object)),
    ("int64", [[2**62, -(2**63)]]),
    ("uint8", [[0, 255]]),
    ("bool", [[1, 0.0]]),
    ("float32", [[1, 2**62]]),
    ("float32", [[float("nan"), float("inf")]]),
    ("float32", [[0.1, 1e-300]]),
]


@pytest.mark.parametrize(("dtype", "value", "message"), WRONG)
def test_inputs_of_graphs_models_and_variables_refuse(dtype, value, message):
    x = pt.Input((2,), dtype=dtype)
    graph = pt.Graph(x, x.reshape(-1))
    with pytest.raises(UsageError, match=f"input 0.*({message})"):
        graph(value)
    with pytest.raises(UsageError, match=f"input.*({message})"):
        pt.Model(x, layers.Flatten()(x))(value)
    variable = pt.Variable(np.zeros((1, 2), dtype), name="v")
    with pytest.raises(UsageError, match=f"'v'.*({message})"):
        variable.value = value
    assert not variable.value.any()
    with pytest.raises(UsageError, match=message):
        pt.Variable(value, dtype=dtype)


@pytest.mark.parametrize(("dtype", "value"), RIGHT)
def test_values_that_fit_are_taken(dtype, value):
    x = pt.Input((2,), dtype=dtype)
    expected = np.array(value).astype(dtype)
    result = pt.Graph(x, x.reshape(-1))(value)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected.reshape(-1))
    variable = pt.Variable(np.zeros((1, 2), dtype))
    variable.value = value
    np.testing.assert_array_equal(variable.value, expected)


def test_tensors_that_are_fed():
    x = pt.Input((2,), dtype="int32")
    graph = pt.Graph(x, x + 0)
    np.testing.assert_array_equal(graph(pt.tensor([[1, 2]])), [[1, 2]])
    with pytest.raises(UsageError, match=r"is 1\.5"):
        graph(pt.tensor([[1.5, 2.0]]))
    with pytest.raises(ShapeError, match="takes int32"):
        graph([[1, 2, 3]])


@pytest.mark.parametrize("value", [[[1.7, 2]], [[10, 2]], [[-1, 2]], [[float("nan"), 2]]])
@pytest.mark.parametrize("face", ["layer", "call", "predict", "predict_on_batch", "fit", "train_on_batch"])
def test_indices_of_a_table(face, value):
    ids = np.array(value)
    x = pt.Input((2,))
    model = pt.Model(x, layers.Embedding(10, 4)(x))
    model.compile("sgd", "mse")
    target = np.zeros((1, 2, 4), "float32")
    run = {
        "layer": lambda: layers.Embedding(10, 4)(pt.tensor(ids)),
        "call": lambda: model(ids),
        "predict": lambda: model.predict(ids, verbose=0),
        "predict_on_batch": lambda: model.predict_on_batch(ids),
        "fit": lambda: model.fit(ids, target, verbose=0),
        "train_on_batch": lambda: model.train_on_batch(ids, target),
    }[face]
    with pytest.raises(DataError, match=r"integers from 0 to 9|not finite|NaN|nan"):
        run()
