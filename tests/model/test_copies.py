"""Copies and pickles of models: the bytes of our own file, and nothing that runs code."""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
import subprocess
import sys

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import ModelFileError, PrototorchError, UsageError

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
Y = np.arange(24) % 3
SPARSE = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def sequential():
    layers = [pt.Input((3,)), pt.layers.Dense(5, activation="relu"), pt.layers.BatchNormalization(), pt.layers.Dense(3)]
    return pt.Sequential(layers, name="row")


def functional():
    x = pt.Input((3,), name="x")
    y = pt.layers.Dense(5, activation="tanh", name="hidden")(x)
    return pt.Model(x, pt.layers.Dense(3, name="out")(pt.layers.Dropout(0.2)(y)), name="graph")


BUILD = {"sequential": sequential, "functional": functional, "text": lambda: pt.load_model("two_layer")}
MAKE = pytest.mark.parametrize("make", [sequential, functional], ids=["sequential", "functional"])
COPY = pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deep", "pickle"]
)


def trained(make):
    model = make()
    model.compile(pt.optimizers.Adam(0.01), SPARSE, ["accuracy"], seed=3)
    model.fit(X, Y, epochs=2, batch_size=8, verbose=0)
    return model


def assert_equal(model, other):
    assert list(model.weights) == list(other.weights)
    for name, array in model.weights.items():
        np.testing.assert_array_equal(other.weights[name], array, err_msg=name)


@COPY
@MAKE
def test_a_copy_goes_on_as_the_model_does_and_apart_from_it(make, duplicate):
    model = trained(make)
    other = duplicate(model)
    assert_equal(model, other)
    assert other.to_text() == model.to_text()
    assert other.trainer.step == model.trainer.step
    before = other.get_weights()
    results = model.train_on_batch(X, Y)
    for name, array in before.items():
        np.testing.assert_array_equal(other.weights[name], array)
    again = other.train_on_batch(X, Y)  # the moments of Adam, the step and the seed are copies
    assert again.asdict() == results.asdict()
    assert_equal(model, other)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


@COPY
@MAKE
def test_a_model_that_is_not_compiled_or_has_no_weights_yet(make, duplicate):
    model = make()
    other = duplicate(model)
    assert_equal(model, other)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


@MAKE
def test_copy_copy_shares_the_weights(make):
    model = trained(make)
    other = copy.copy(model)
    assert type(other) is type(model)
    assert other.to_text() == model.to_text()
    other.train_on_batch(X, Y)
    assert_equal(model, other)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.trainer.step == 1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy], ids=["deep", "shallow"])
def test_the_class_and_attributes_of_a_subclass_stay(duplicate):
    class Own(pt.Sequential):
        pass

    model = Own([pt.Input((3,)), pt.layers.Dense(4, name="a")])
    model.compile("sgd", "mse")
    model.note = "mine"
    other = duplicate(model)
    assert type(other) is Own
    assert other.note == "mine"
    other.add(pt.layers.Dense(2, name="b"))
    assert other.predict(X).shape == (24, 2)
    assert model.predict(X).shape == (24, 4)
    other.compile("sgd", "mse")
    before = model.get_weights()["a/kernel"]
    other.train_on_batch(X, X[:, :2])
    assert (model.weights["a/kernel"] == before).all() == (duplicate is copy.deepcopy)


def test_models_inside_other_objects_are_copied_once():
    model = trained(functional)
    first, second = copy.deepcopy([model, model])
    assert first is second is not model


def test_layers_inside_layers_and_shared_layers_are_copied():
    x = pt.Input((4, 3))
    shared = pt.layers.Dense(2, name="shared")
    inner = pt.layers.TimeDistributed(pt.layers.Dense(3, name="inner"))(x)
    model = pt.Model(x, pt.layers.Add()(shared(inner), shared(x)))
    model.compile("sgd", "mse")
    other = copy.deepcopy(model)
    before = model.get_weights()
    other.train_on_batch(np.ones((2, 4, 3), np.float32), np.zeros((2, 4, 2), np.float32))
    for name, array in before.items():
        np.testing.assert_array_equal(model.weights[name], array)
        assert (other.weights[name] != array).any(), name


def test_a_pickle_holds_bytes_and_one_function():
    data = pickle.dumps(trained(sequential), protocol=4)
    names = [(op.name, value) for op, value, _ in pickletools.genops(io.BytesIO(data))]
    texts = [value for name, value in names if "UNICODE" in name]
    assert texts == ["prototorch.model.copying", "model_from_bytes"]
    kinds = {name for name, _ in names} - {"PROTO", "FRAME", "MEMOIZE", "STOP", "SHORT_BINUNICODE", "BINUNICODE"}
    assert kinds <= {"STACK_GLOBAL", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "TUPLE1", "REDUCE"}


def test_another_process_reads_a_pickle(tmp_path):
    model = trained(functional)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "x.npy", X)
    program = (
        "import pickle, numpy as np\n"
        "model = pickle.load(open('m.pkl', 'rb'))\n"
        "np.save('y.npy', model.predict(np.load('x.npy')))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.predict(X))


def my_loss(target, output):
    return ops.square(target - output)


def test_python_functions_are_copied_and_not_pickled():
    model = sequential()
    model.compile("sgd", my_loss, [my_loss])
    with pytest.raises(UsageError, match=r"'row' cannot be pickled: 'my_loss' is a Python function, .* copy\.deepcopy"):
        pickle.dumps(model)
    other = copy.deepcopy(model)
    target = np.eye(3, dtype=np.float32)[Y]
    assert other.train_on_batch(X, target).asdict() == model.train_on_batch(X, target).asdict()


def test_layers_of_your_own_need_their_class():
    with temporary_definitions():
        own = type("Thrice", (pt.Layer,), {"call": lambda self, ctx, x: x * 3})
        model = pt.Sequential([pt.Input((3,)), own()])
        data = pickle.dumps(model)
        np.testing.assert_array_equal(copy.deepcopy(model).predict(X), X * 3)
        np.testing.assert_array_equal(pickle.loads(data).predict(X), X * 3)
        del own, model
    with pytest.raises(PrototorchError, match=r"Thrice"):
        pickle.loads(data)


def test_a_model_that_is_not_built():
    model = pt.Sequential([pt.layers.Dense(4)])
    model.compile("sgd", "mse")
    for call, what in ((pickle.dumps, "pickled"), (copy.copy, "copied by copy.copy")):
        with pytest.raises(UsageError, match=f"is not built and cannot be {what}"):
            call(model)
    other = copy.deepcopy(model)
    other.fit(X, np.tile(X[:, :1], 4), verbose=0)
    assert not model.built


def test_wrong_bytes():
    with pytest.raises(ModelFileError):
        pt.model_from_bytes(b"no model")
    with pytest.raises(UsageError, match="expected the bytes of a saved model, not str"):
        pt.model_from_bytes("model.h5")
