"""Arguments of `fit`, `evaluate` and single steps that have no effect, or mean nothing: errors and warnings."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.cli.main import main
from prototorch.data.checks import DataWarning
from prototorch.errors import ModelWarning, UsageError

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 3
SPARSE = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def model(loss=SPARSE, units=3, **options):
    net = pt.Sequential([pt.Input((3,)), pt.layers.Dense(units, name="out")])
    net.compile("sgd", loss, **options)
    return net


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(w.category, str(w.message)) for w in caught]


# ---------------------------------------------------------------------- precision


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_16_bit_precision_on_the_cpu_is_one_warning(precision):
    net = model(device="cpu")

    def use():
        net.compile("sgd", SPARSE, precision=precision, device="cpu")
        net.fit(X, Y, verbose=0)
        net.evaluate(X, Y)
        net.train_on_batch(X, Y)

    ((category, text),) = warnings_of(use)
    assert category is ModelWarning
    assert text.startswith(f"precision: {precision} has no effect on the CPU, which computes this model in fp32")


@pytest.mark.parametrize("precision", ["auto", "fp32", "tf32", "float32"])
def test_others_are_none(precision):
    assert warnings_of(lambda: model(precision=precision, device="cpu").fit(X, Y, verbose=0)) == []


def test_a_run_writes_the_precision_that_it_computed_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=X, y=Y)
    (tmp_path / "m.proto").write_text(
        'name: "m"\ninput { shape: [3] }\nDense { units: 3 }\n'
        "compile { loss: sparse_categorical_crossentropy { from_logits: true } precision: bf16 device: cpu }\n"
        'fit { data { source: "d.npz" } epochs: 1 }\n'
    )
    with pytest.raises(SystemExit):
        main(["check", "m.proto"])
    assert "precision: bf16 has no effect on the CPU" in "".join(capsys.readouterr())
    with pytest.raises(SystemExit):
        main(["run", "m.proto"])
    environment = json.loads((tmp_path / "runs/m/result.json").read_text())["environment"]
    assert environment["precision"] == "fp32"
    assert environment["device"].startswith("cpu")


# ---------------------------------------------------------------------- weights of classes

FACES = {
    "fit": lambda net, y, weights: net.fit(X, y, class_weight=weights, verbose=0),
    "train_on_batch": lambda net, y, weights: net.train_on_batch(X, y, class_weight=weights),
}
KINDS = {
    "classes": (SPARSE, 3, Y, 3),
    "one_hot": (pt.losses.CategoricalCrossentropy(from_logits=True), 3, np.eye(3)[Y], 3),
    "binary": (pt.losses.BinaryCrossentropy(from_logits=True), 1, (Y > 0) * 1.0, 2),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_a_class_that_cannot_exist_is_refused(kind, face):
    loss, units, y, count = KINDS[kind]
    for label in (count, 7, -1):
        with pytest.raises(
            UsageError, match=rf"names the class {label}, but the output 'out' has {count} classes, 0 to"
        ):
            FACES[face](model(loss, units), y, {0: 1.0, label: 2.0})
    weighted, plain = model(loss, units), model(loss, units)
    FACES[face](weighted, y, {count - 1: 0.0})
    FACES[face](plain, y, {})
    assert (weighted.weights["out/kernel"] != plain.weights["out/kernel"]).any()


@pytest.mark.parametrize("face", FACES)
def test_class_weights_need_one_class_of_a_sample(face):
    net = pt.Sequential([pt.Input((4, 3)), pt.layers.Dense(3)])
    net.compile("sgd", SPARSE)
    x, y = np.ones((6, 4, 3), np.float32), np.zeros((6, 4), int)
    call = net.fit if face == "fit" else net.train_on_batch
    with pytest.raises(UsageError, match=r"a sample has targets of shape \[4\], not one class; sample_weight"):
        call(x, y, class_weight={0: 2.0})


# ---------------------------------------------------------------------- validation, epochs, steps


def test_a_split_of_less_than_a_sample_is_a_warning():
    (warning,) = warnings_of(lambda: model().fit(X, Y, validation_split=0.01, verbose=0))
    assert warning[0] is DataWarning
    assert (
        "validation_split 0.01 of 20 samples is less than one sample, and one validates: give at least 0.05"
        in (warning[1])
    )
    assert warnings_of(lambda: model().fit(X, Y, validation_split=0.05, verbose=0)) == []
    with pytest.raises(pt.errors.DataError, match="leaves one part empty: expected at least one sample in each"):
        model().fit(X[:1], Y[:1], validation_split=0.5, verbose=0)


def test_a_first_epoch_beyond_the_last():
    with pytest.raises(UsageError, match=r"initial_epoch=5 is beyond epochs=2: .* write epochs=7 for 2 more"):
        model().fit(X, Y, epochs=2, initial_epoch=5, verbose=0)
    ((_, text),) = warnings_of(lambda: model().fit(X, Y, epochs=2, initial_epoch=2, verbose=0))
    assert text == "initial_epoch=2 is epochs=2: no epoch is trained"
    assert warnings_of(lambda: model().fit(X, Y, epochs=2, initial_epoch=1, verbose=0)) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"validation_steps": 2}, "validation_steps has no effect, there are no validation data: give validation_data"),
        ({"validation_batch_size": 2}, "validation_batch_size has no effect"),
        ({"validation_freq": 2, "validation_steps": 2}, "validation_steps and validation_freq have no effect"),
        ({"validation_freq": 5, "validation_split": 0.5}, "validation_freq=5 is more than the 1 epochs of this fit"),
        ({"validation_data": (X, Y), "validation_steps": 9}, "validation_steps=9 is more than the 1 batches"),
        ({"validation_freq": 1, "batch_size": 500}, None),
    ],
)
def test_arguments_of_validation_without_effect(arguments, text):
    caught = [message for _, message in warnings_of(lambda: model().fit(X, Y, verbose=0, **arguments))]
    caught = [message for message in caught if "same" not in message]  # the training data validate here
    assert len(caught) == (text is not None)
    assert text is None or text in caught[0]


def test_more_steps_than_batches():
    net = model()
    for call in (lambda: net.evaluate(X, Y, batch_size=10, steps=3), lambda: net.predict(X, batch_size=10, steps=3)):
        assert [text for _, text in warnings_of(call)] == [
            "steps=3 is more than the 2 batches of the data: all of them are used"
        ]
    assert warnings_of(lambda: net.evaluate(X, Y, batch_size=10, steps=2)) == []


@pytest.mark.parametrize("length", [19, 21, 1])
def test_sample_weights_of_another_length(length):
    weight = np.ones(length)
    for call in (model().fit, model().evaluate, model().train_on_batch, model().test_on_batch):
        with pytest.raises(pt.errors.DataError, match=f"same number of rows: .*sample_weight has {length}"):
            call(X, Y, sample_weight=weight)
