"""Python functions as losses and metrics, and losses as metrics: as in Keras, and honest where they cannot be."""

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.errors import ShapeError, UsageError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 3)).astype(np.float32)
Y = RNG.normal(size=(10, 2)).astype(np.float32)
KERNEL = RNG.normal(size=(3, 2)).astype(np.float32)
WEIGHT = RNG.uniform(0.5, 2, 10).astype(np.float32)


def model(**compiled):
    net = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2, name="out")])
    net.compile(pt.optimizers.SGD(0.1), **compiled)
    net.weights["out/kernel"] = KERNEL
    return net


def keras_model(**compiled):
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    net.compile(keras.optimizers.SGD(0.1), **compiled)
    net.layers[0].kernel.assign(KERNEL)
    return net


def per_position(module):
    def my_loss(target, output):
        return module.square(target - output) * 3.0

    return my_loss


def per_sample(module):
    def my_loss(target, output):
        return module.mean(module.abs(target - output), axis=-1)

    return my_loss


def scalar(module):
    def my_loss(target, output):
        return module.mean(module.square(target - output))

    return my_loss


FUNCTIONS = [per_position, per_sample, scalar]


@pytest.mark.parametrize(
    ("make", "weight"),
    [(per_position, None), (per_sample, None), (per_sample, WEIGHT), (scalar, None), (scalar, WEIGHT)],
)
def test_a_function_is_a_loss_and_a_metric_as_in_keras(make, weight):
    """Over batches of 4, 4 and 2: training, its logs, and the evaluation."""
    ours = model(loss=make(ops), metrics=[make(ops)])
    theirs = keras_model(loss=make(keras.ops), metrics=[make(keras.ops)])
    options = {"batch_size": 4, "shuffle": False, "verbose": 0, "epochs": 2, "sample_weight": weight}
    got, expected = ours.fit(X, Y, **options).history, theirs.fit(X, Y, **options).history
    for name in ("loss", "my_loss"):
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(ours.weights["out/kernel"], theirs.layers[0].kernel.value.detach().numpy(), rtol=1e-5)
    results = ours.evaluate(X, Y, batch_size=4, sample_weight=weight)
    known = theirs.evaluate(X, Y, batch_size=4, sample_weight=weight, verbose=0, return_dict=True)
    np.testing.assert_allclose(results["my_loss"], known["my_loss"], rtol=1e-5)
    np.testing.assert_allclose(results["loss"], known["loss"], rtol=1e-5)


@pytest.mark.parametrize("make", FUNCTIONS)
def test_a_smaller_last_batch_counts_no_padding(make):
    """The plan for whole batches is used for the last one only where no sample sees another."""
    net = model(loss=make(ops), metrics=[make(ops)])
    batches = [net.test_on_batch(X[i : i + 4], Y[i : i + 4]) for i in (0, 4, 8)]
    sizes = np.array([4, 4, 2])
    counts = np.ones(3) if make is scalar else sizes
    results = net.evaluate(X, Y, batch_size=4)
    np.testing.assert_allclose(results["loss"], np.average([b["loss"] for b in batches], weights=sizes), rtol=1e-6)
    np.testing.assert_allclose(results["my_loss"], np.average([b["my_loss"] for b in batches], weights=counts), 1e-6)


def test_masks_apply_to_a_function():
    def squared(target, output):
        return ops.square(target - output)

    inputs = pt.Input((4, 2))
    outputs = pt.layers.Dense(1, name="out")(pt.layers.Masking()(inputs))
    x, y = RNG.normal(size=(6, 4, 2)).astype(np.float32), np.zeros((6, 4, 1), np.float32)
    x[:3, 2:] = 0
    losses = []
    for loss in (squared, "mse"):
        net = pt.Model(inputs, outputs)
        net.compile("sgd", loss, metrics=[squared, "mse"])
        losses.append(net.evaluate(x, y))
    assert losses[0]["loss"] == pytest.approx(losses[1]["loss"])
    assert losses[0]["squared"] == pytest.approx(losses[0]["mse"])


def test_targets_of_another_shape_than_the_outputs():
    """Class indices for two outputs, as `sparse_categorical_crossentropy` takes them."""

    def sparse(target, output):
        return ops.sparse_softmax_cross_entropy(output, ops.cast(target, dtype="int32"))

    labels = RNG.integers(0, 2, 10)
    net = model(loss=sparse)
    known = model(loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert net.evaluate(X, labels)["loss"] == pytest.approx(known.evaluate(X, labels)["loss"])
    got, expected = (m.fit(X, labels, batch_size=4, verbose=0).history["loss"] for m in (net, known))
    assert got == pytest.approx(expected)


@pytest.mark.parametrize(
    "metric",
    ["huber", pt.losses.Huber(), pt.losses.Huber, "LogCosh", pt.losses.LogCosh()],
    ids=["name", "object", "class", "class name", "other object"],
)
def test_losses_are_metrics(metric):
    net = model(loss="mse", metrics=[metric])
    assert any(name in net.evaluate(X, Y) for name in ("huber", "log_cosh", "LogCosh"))
    again = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    again.set_compile(net.compile_block)
    assert "metrics" in again.to_text()


def test_a_loss_with_fields_is_a_metric_in_a_text(tmp_path):
    path = tmp_path / "m.proto"
    path.write_text(
        'input { name: "x" shape: [3] }\nDense { units: 2 }\n'
        "compile { loss: mse  metrics: [huber, Huber { delta: 0.5 }, mae] }"
    )
    net = pt.load_model(path)
    results = net.evaluate(X, Y)
    assert list(results.keys()) == ["loss", "huber", "huber_1", "mae"]
    (tmp_path / "again.proto").write_text(net.to_text())
    assert list(pt.load_model(tmp_path / "again.proto").evaluate(X, Y).keys()) == list(results.keys())


def two_outputs(**compiled):
    x = pt.Input((3,))
    net = pt.Model(x, [pt.layers.Dense(2, name="a")(x), pt.layers.Dense(2, name="b")(x)])
    net.compile("sgd", **compiled)
    has_both = compiled["loss"][1] is not None if isinstance(compiled["loss"], list) else True
    return net.evaluate(X, {"a": Y, "b": Y} if has_both else {"a": Y}).keys()


def test_lists_and_dicts_for_several_outputs():
    def error(target, output):
        return ops.abs(target - output)

    names = {"loss", "a_loss", "b_loss", "a_mae", "b_error", "b_huber"}
    assert two_outputs(loss={"a": "mse", "b": error}, metrics={"a": ["mae"], "b": [error, "huber"]}) == names
    assert two_outputs(loss=[error, "mse"], metrics=[["mae"], [error, pt.losses.Huber()]]) == names
    assert two_outputs(loss=["mse", None], metrics=[["mae"], None]) == {"loss", "mae"}
    with pytest.raises(UsageError, match=r"metrics: .* one entry for each output: expected 2 \(a, b\), got 1"):
        two_outputs(loss=["mse", "mse"], metrics=[["mae"]])


def numpy_function(target, output):
    return np.abs(target - output)


def condition(target, output):
    return output if (target > output) else target


def comparison(target, output):
    return ops.where(target == 1, output, target)


def nothing(target, output):
    ops.abs(target - output)


def constant(target, output):
    return ops.ones_like(ops.stop_gradient(output)) * 0 if False else 1.0


def one_argument(target):
    return target


def other_batch(target, output):
    return ops.sum(output, axis=0)


MISTAKES = {
    numpy_function: "'numpy_function' cannot be traced: TypeError: .* must be written in prototorch.ops",
    condition: "'condition' cannot be traced: if, and, or, not.* use ops.where",
    comparison: r"'comparison' cannot be traced: == needs the elements .* use ops.equal\(a, b\)",
    nothing: r"'nothing' must return an array .*, not None \(is a return missing\?\)",
    constant: "'constant' must return an array that prototorch.ops has computed from its arguments, not float 1.0",
    one_argument: "'one_argument' cannot be traced: TypeError: .* 1 positional argument",
    other_batch: r"'other_batch' returns an array of shape \[2\] for a batch of 10: expected the value of each sample",
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_what_cannot_be_traced_names_the_function(function):
    with pytest.raises((UsageError, ShapeError), match=f"the loss function {MISTAKES[function]}"):
        model(loss=function).evaluate(X, Y)
    with pytest.raises((UsageError, ShapeError), match=f"the metric function {MISTAKES[function]}"):
        model(loss="mse", metrics=[function]).evaluate(X, Y)


def test_losses_of_other_libraries_are_refused():
    with pytest.raises(UsageError, match=r"It belongs to another library \(keras"):
        model(loss=keras.losses.Huber())


def test_a_file_holds_the_name_of_a_function(tmp_path):
    def my_loss(target, output):
        return ops.square(target - output)

    net = model(loss=my_loss, metrics=[my_loss])
    expected = net.evaluate(X, Y)
    net.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5", custom_objects={"my_loss": my_loss})
    assert again.evaluate(X, Y) == expected
    alone = pt.load_model(tmp_path / "m.h5")
    np.testing.assert_array_equal(alone.predict(X), net.predict(X))
    with pytest.raises(UsageError, match=r"Python function 'my_loss', .* custom_objects=\{'my_loss': my_loss\}"):
        alone.evaluate(X, Y)
    alone.compile("sgd", "mse")
    assert "loss" in alone.evaluate(X, Y)
    with pytest.raises(UsageError, match="custom_objects maps names to functions and classes"):
        pt.load_model(tmp_path / "m.h5", custom_objects={"my_loss": 3})


def test_functions_do_not_run_in_the_step():
    calls = []

    def counted(target, output):
        calls.append(1)
        return ops.square(target - output)

    model(loss=counted).fit(X, Y, batch_size=5, epochs=20, verbose=0)
    assert len(calls) <= 4
