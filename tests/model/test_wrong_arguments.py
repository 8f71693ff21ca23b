"""What is given to a model's methods wrongly, and what is said about it; and layers that are frozen after compile."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, FileError, ModelWarning, PrototorchError, UsageError, WeightsError

X = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
Y = np.arange(10) % 3
SPARSE = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def model() -> pt.Model:
    made = pt.Sequential([pt.Input((4,)), pt.layers.Dense(5, "relu", name="a"), pt.layers.Dense(3, name="b")])
    made.compile("sgd", SPARSE, ["accuracy"])
    return made


class Coroutine(pt.Callback):
    async def on_epoch_end(self, epoch, logs):
        raise AssertionError


WRONG = [
    (
        lambda m: m.fit(X, Y, class_weight="rare"),
        "class_weight must be 'balanced', a list or a dict of numbers, not 'rare'",
    ),
    (lambda m: m.fit(X, Y, callbacks="stop"), "callbacks must be a list of callbacks, not 'stop'"),
    (lambda m: m.fit(X, Y, callbacks=3), "callbacks must be a list of callbacks, not 3"),
    (lambda m: m.fit(X, Y, callbacks=[pt.callbacks.EarlyStopping]), "EarlyStopping() makes one"),
    (lambda m: m.predict(X, callbacks=[3]), "callbacks: 3 is no prototorch.Callback"),
    (lambda m: m.fit(X, Y, initial_epoch=-1), "initial_epoch must be an integer of at least 0, not -1."),
    (lambda m: m.fit(X, Y, initial_epoch=0.5), "initial_epoch must be an integer of at least 0, not 0.5."),
    (
        lambda m: m.fit(X, Y, validation_data=(X, Y), validation_batch_size=0),
        "validation_batch_size must be an integer",
    ),
    (lambda m: m.predict(X, batch_size=0), "batch_size must be an integer of at least 1, not 0."),
    (lambda m: m.predict(X, batch_size=True), "batch_size must be an integer of at least 1, not True."),
    (lambda m: m.predict(X, steps=0), "steps must be an integer of at least 1, not 0."),
    (lambda m: m.evaluate(X, Y, batch_size=0), "batch_size must be an integer of at least 1, not 0."),
    (lambda m: m.evaluate(X, Y, steps=-1), "steps must be an integer of at least 1, not -1."),
    (lambda m: m.fit(X, Y, verbose="loud"), "verbose must be 'auto', 0 (nothing), 1 (a bar) or 2 (a line an epoch)"),
    (lambda m: m.fit(X, Y, verbose=7), "not 7"),
    (lambda m: m.summary(batch=0), "batch must be an integer of at least 1, not 0."),
    (lambda m: setattr(m, "learning_rate", -1), "learning_rate must be a number of at least 0, not -1"),
    (lambda m: setattr(m, "learning_rate", math.nan), "learning_rate must be a number of at least 0, not nan"),
    (lambda m: setattr(m, "learning_rate", "0.1"), "learning_rate must be a number of at least 0, not '0.1'"),
    (lambda m: setattr(m, "learning_rate", [0.1]), "learning_rate must be a number of at least 0, not [0.1]"),
    (lambda m: m.compile(pt.optimizers.Adam(math.inf), SPARSE), "Adam: learning_rate must be finite"),
    (lambda m: m.set_trainable(False, "c"), "the model has no layer 'c'"),
    (lambda m: m(X, X), "takes 1 input"),
    (lambda m: m.save(1), "expected the path of a file, e.g. 'model.h5', not 1"),
    (lambda m: m.save("a\0b"), "expected the path of a file"),
    (lambda m: m.load_weights(None), "expected weights: a path, an address, the name of a set, or a Weights block"),
    (lambda m: m(X + 1j), "the input 'input' takes numbers of dtype float32, got complex numbers"),
    (lambda m: m.compile("sgd", SPARSE, loss_weights="a"), "loss_weights must be a list with a number for each loss"),
    (lambda m: m.compile("sgd", SPARSE, loss_weights=["a"]), "loss_weights[0] must be a finite number, not 'a'"),
    (lambda m: m.compile("sgd", SPARSE, loss_weights={"b": math.nan}), "loss_weights['b'] must be a finite number"),
    (lambda m: m.fit(lambda: 1), "the function gives 1, expected an iterable of batches (x, y)"),
    (lambda m: m.fit(lambda a: [a]), "the function of batches is called without arguments: missing a required"),
    (lambda m: m.predict(lambda: None), "the function gives None, expected an iterable of batches (x, y)"),
    (lambda m: m.fit(X, Y, callbacks=Coroutine()), "Coroutine.on_epoch_end is a coroutine or a generator"),
    (
        lambda m: m.fit(X, Y, callbacks=pt.callbacks.LambdaCallback(on_epoch_end=Coroutine().on_epoch_end)),
        "LambdaCallback.on_epoch_end is a coroutine or a generator",
    ),
    (lambda m: pt.Input(2.5), "input.shape must be a list of dimensions"),
    (lambda m: pt.Input((2.5,)), "input.shape must be a list of dimensions"),
    (lambda m: pt.Input("3"), "input.shape must be a list of dimensions"),
    (lambda m: pt.Input((-3,)), "input.shape must be a list of dimensions"),
    (lambda m: pt.Input((3,), dtype="float8"), "input.dtype must be 'float32'"),
]

A, B = pt.Input((3,)), pt.Input((3,))
LAYERS = pt.layers
WITHOUT_MODEL = [
    (lambda: list(A), "a loop: <Input of shape [3]> is a symbolic tensor"),
    (lambda: 3 in A, "in: <Input of shape [3]> is a symbolic tensor"),
    (lambda: bool(A), "bool(): <Input of shape [3]> is a symbolic tensor, stands for a value of the net"),
    (lambda: len(A), "len(): <Input of shape [3]>"),
    (lambda: float(A), "take graph(data) of a pt.Graph, model.predict(data)"),
    (lambda: np.sum(A), "a NumPy function: <Input of shape [3]>"),
    (lambda: np.exp(A), "a NumPy function: <Input of shape [3]>"),
    (lambda: np.asarray(A), "a NumPy array: <Input of shape [3]>"),
    (lambda: pt.ops.relu(A), "has no elements: use the functions of prototorch"),
    (
        lambda: LAYERS.Dense(2)(A, B),
        "Dense(2): it reads 1 input, not 2: <Input of shape [3]>",
    ),
    (lambda: LAYERS.Dense(2)([A, B]), "it reads 1 input, not 2"),
    (lambda: LAYERS.Add()([A]), "Add(): it reads at least 2 inputs, not 1"),
    (lambda: LAYERS.Subtract()([A, B, A]), "Subtract(): it reads 2 inputs, not 3"),
    (lambda: LAYERS.Add()([]), "Add is called with symbols (pt.Input(shape), outputs of layers) or tensors"),
    (lambda: LAYERS.Add()([]), "not an empty list"),
    (lambda: LAYERS.Dense(2)(), "not nothing"),
    (
        lambda: pt.Sequential(LAYERS.Dense(3)),
        "expected a list, [pt.Input(shape), layer, ...], not Dense(3)",
    ),
    (lambda: pt.Sequential(A), "expected a list, [pt.Input(shape), layer, ...], not <Input of shape [3]>"),
    (lambda: pt.Model(A, LAYERS.Dense(1)(A), name=3), "the model's name must be a string, not 3"),
    (lambda: pt.Model(A, LAYERS.Dense(1)), "the model's outputs must be symbolic tensors"),
    (lambda: pt.Model(3, A), "the model's inputs must be symbolic tensors (pt.Input(shape), or layer(x)), not 3"),
    (lambda: pt.Model(A, []), "the model has no outputs"),
    (lambda: pt.load_model(None), "expected the path of a file, e.g. 'lenet', not None"),
    (lambda: pt.load_model("lenet", safe_mode=False), "safe_mode=False is not possible: a file never runs code"),
    (lambda: pt.load_model("lenet", compile=3), "compile must be True or False, not 3; a text's parameter"),
    (lambda: pt.load_model("lenet", custom_objects=3), "custom_objects must be a dict {name: function}, not 3"),
    (lambda: LAYERS.Dense(2)(X), "(pt.tensor(array)), not ndarray"),
]


@pytest.mark.parametrize(("do", "said"), WITHOUT_MODEL, ids=[said[:40] for _, said in WITHOUT_MODEL])
def test_a_wrong_argument_of_a_layer_is_named(do, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        do()


@pytest.mark.parametrize(("do", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_a_wrong_argument_is_named(do, said):
    made = model()
    with pytest.raises(UsageError, match=re.escape(said)):
        do(made)
    assert len(made.fit(X, Y, verbose=0).history["loss"]) == 1


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (X[0], "it seems to be a single sample, which is given as an array of one: x[np.newaxis]"),
        ([(X[:5], Y[:5])] * 2, "pass batches (x, y) as a generator"),
        (X + 1j, "holds complex numbers, expected real ones; its first value (row 0) is "),
        (np.full((2, 4), "0.5"), "holds text, not numbers; its first value (row 0) is '0.5'"),
    ],
)
def test_data_in_another_form_than_meant(x, said):
    with pytest.raises(DataError, match=re.escape(said)):
        model().predict(x)


def two_outputs() -> pt.Model:
    x = pt.Input((4,))
    made = pt.Model(x, [pt.layers.Dense(1, name="p")(x), pt.layers.Dense(3, name="q")(x)])
    made.compile("sgd", {"p": "mse", "q": SPARSE})
    return made


def test_a_target_that_is_left_out_is_told_and_not_taken_from_another_output():
    with pytest.raises(DataError, match="arrays are given for 'p'; the model's outputs are 'p', 'q'"):
        two_outputs().fit(X, {"p": X[:, :1]}, verbose=0)
    one = two_outputs()
    one.compile("sgd", {"p": "mse"})
    assert one.fit(X, {"p": X[:, :1]}, verbose=0).history["loss"]


def test_several_losses_at_one_output_have_names_of_their_own():
    made = model()
    made.compile("sgd", ["mse", "mae"], ["mae"])
    found = made.evaluate(X, np.eye(3)[Y])
    assert set(found.keys()) == {"loss", "b_loss", "b_loss_2", "mae"}
    assert found["loss"] == pytest.approx(found["b_loss"] + found["b_loss_2"], rel=1e-6)
    assert found["b_loss_2"] == pytest.approx(found["mae"], rel=1e-6)


def test_a_loss_of_negative_weight_is_a_warning():
    made = model()
    with pytest.warns(pt.errors.ModelWarning, match="the loss b_loss has the weight -3: training maximises a loss"):
        made.compile("sgd", SPARSE, loss_weights={"b": -3})


@pytest.mark.parametrize("weights", [0.5, [0.5], (0.5,), np.array([0.5]), {"b": 0.5}, {"b": np.float32(0.5)}])
def test_loss_weights_are_given_in_each_form_of_keras_or_as_an_array(weights):
    made = model()
    made.compile("sgd", SPARSE, loss_weights=weights)
    assert made.compile_block.loss[0].weight == 0.5


def test_one_callback_needs_no_list():
    seen = []
    call = pt.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    model().fit(X, Y, verbose=0, epochs=2, callbacks=call)
    assert seen == [0, 1]


def test_a_weight_that_is_set_by_name_is_written():
    made = model()
    before = made.weights["b/bias"]
    made.weights["b/bias"] = [1, 2, 3]
    assert before.tolist() == made.weights["b/bias"].tolist() == [1, 2, 3]
    with pytest.raises(WeightsError, match=r"b/bias: expected shape \[3\], got \[2\]"):
        made.weights["b/bias"] = [1, 2]
    with pytest.raises(UsageError, match=r"there is no weight 'b/bios'\. Did you mean 'b/bias'\?"):
        made.weights["b/bios"] = [1, 2, 3]


def test_weights_that_do_not_fit_came_from_no_file():
    made = model()
    with pytest.raises(WeightsError) as caught:
        made.set_weights({"a/kernel": np.zeros((4, 5))})
    assert str(caught.value).startswith("the weights given do not fit the model:\n1 weights loaded\n3 missing among")
    with pytest.raises(WeightsError, match=r"b/bias: \[4\] among those given, \[3\] in the model") as caught:
        made.set_weights({**made.get_weights(), "b/bias": np.zeros(4)})
    assert "skip_mismatch" not in str(caught.value)


def test_a_saved_file_that_is_empty_is_no_text(tmp_path):
    (tmp_path / "model.h5").write_bytes(b"")
    with pytest.raises(FileError, match=r"model\.h5: is empty"):
        pt.load_model(tmp_path / "model.h5")


def test_what_cannot_be_set_says_what_can():
    made = model()
    with pytest.raises(AttributeError, match=r"Dense is immutable; model\.set_trainable"):
        made.layers[0].trainable = False
    with pytest.raises(AttributeError, match=r"SGD is immutable; set model\.learning_rate"):
        made.optimizer.learning_rate = 0.1
    assert repr(pt.Input((1, 8, 8))) == "<Input of shape [1, 8, 8]>"
    assert repr(pt.layers.Flatten()(pt.Input((2, 2)))) == "<output of Flatten()>"


def changed(made: pt.Model, before: dict[str, np.ndarray]) -> set[str]:
    return {name for name, array in made.weights.items() if not np.array_equal(array, before[name])}


def test_layers_are_frozen_and_trained_again_after_compile():
    made = model()
    assert made.trainable
    made.fit(X, Y, verbose=0)
    before = made.get_weights()
    made.set_trainable(False, "a")
    assert changed(made, before) == set()
    assert not made.get_layer("a").trainable
    assert made.trainable
    made.fit(X, Y, verbose=0)
    made.train_on_batch(X, Y)
    assert changed(made, before) == {"b/kernel", "b/bias"}
    made.trainable = False
    before = made.get_weights()
    with pytest.warns(ModelWarning, match="no weight is trained"):
        made.fit(X, Y, verbose=0)
    assert changed(made, before) == set()
    made.trainable = True
    made.fit(X, Y, verbose=0)
    assert changed(made, before) == set(before)


def test_a_frozen_layer_is_said_in_the_text_and_in_the_file(tmp_path):
    made = model()
    made.set_trainable(False, "a")
    made.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    assert [layer.trainable for layer in again.layers] == [False, True]
    before = again.get_weights()
    again.fit(X, Y, verbose=0)
    assert changed(again, before) == {"b/kernel", "b/bias"}


def test_layers_that_share_weights_are_frozen_together():
    a, b, tower = pt.Input((4,), name="l"), pt.Input((4,), name="r"), pt.layers.Dense(3)
    made = pt.Model([a, b], pt.layers.Subtract()([tower(a), tower(b)]))
    made.set_trainable(False, made.layers[1].name)
    assert [layer.trainable for layer in made.layers] == [False, False, True]


def test_layers_are_not_frozen_in_the_middle_of_a_fit():
    made = model()
    freeze = pt.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: made.set_trainable(False))
    with pytest.raises(PrototorchError, match="set_trainable: the model is in the middle of a fit"):
        made.fit(X, Y, verbose=0, callbacks=[freeze])


def test_a_model_is_loaded_without_its_compile_block(tmp_path):
    made = model()
    made.compile("adam", SPARSE)
    made.fit(X, Y, verbose=0)
    made.save(tmp_path / "m.h5")
    bare = pt.load_model(tmp_path / "m.h5", compile=False, safe_mode=True)
    assert bare.compile_block is None
    np.testing.assert_array_equal(bare.predict(X), made.predict(X))
    with pytest.raises(UsageError, match="compile"):
        bare.fit(X, Y)
    bare.save(tmp_path / "bare.h5")
    assert (tmp_path / "bare.h5").stat().st_size < (tmp_path / "m.h5").stat().st_size
    assert pt.load_model("lenet", compile=False).compile_block is None
