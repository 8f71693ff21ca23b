"""Class weights in a text, as a list and balanced: beside weights that are given one by one."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError, UsageError
from prototorch.model.load import model_from_text

RNG = np.random.default_rng(0)
Y = np.array([0] * 40 + [1] * 10 + [2] * 5)
X = RNG.normal(size=(len(Y), 4)).astype(np.float32)
BALANCED = {0: 55 / (3 * 40), 1: 55 / (3 * 10), 2: 55 / (3 * 5)}


def trained(weights=None, line="", y=Y, loss="sparse_categorical_crossentropy(from_logits: true)"):
    model = model_from_text(
        f'input("x", [4])\nDense(3, name: "y")\ncompile {{ loss: {loss}  optimizer: SGD(0.1) }}\n'
        f"fit {{ {line} epochs: 2 }}"
    )
    history = model.fit(X, y, class_weight=weights, batch_size=8, verbose=0).history
    return history["loss"], model.weights["y/kernel"]


def equal(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])


def test_balanced_weights_are_those_of_scikit_learn():
    expected = trained(BALANCED)
    equal(trained("balanced"), expected)
    equal(trained(line="class_weight: balanced "), expected)
    one_hot = {"y": np.eye(3)[Y], "loss": "categorical_crossentropy(from_logits: true)"}
    equal(trained("balanced", **one_hot), trained(BALANCED, **one_hot))
    assert (expected[1] != trained()[1]).any()


def test_a_list_is_in_the_order_of_the_classes():
    expected = trained({0: 1.0, 1: 4.0, 2: 0.5})
    equal(trained([1, 4, 0.5]), expected)
    equal(trained(line="class_weight: [1, 4, 0.5] "), expected)
    equal(trained({0: 1.0, 1: 4.0, 2: 0.5}, line="class_weight: balanced "), expected)  # the argument counts


def test_a_text_keeps_its_class_weights(tmp_path):
    model = model_from_text('input("x", [4])\nDense(3)\ncompile { loss: mse }\nfit { class_weight: [1, 2, 3] }')
    model.save(tmp_path / "m.h5")
    assert pt.load_model(tmp_path / "m.h5").fit_block.class_weight == (1.0, 2.0, 3.0)
    assert (
        model_from_text("input('x', [4])\nDense(3)\nfit { class_weight: balanced }").fit_block.class_weight
        == "balanced"
    )


def test_two_classes_of_yes_and_no():
    y = np.array([0] * 45 + [1] * 10)
    model = model_from_text('input("x", [4])\nDense(1, name: "y")\ncompile { loss: bce(from_logits: true) }')
    loss = model.fit(X, y, class_weight="balanced", batch_size=55, verbose=0).history["loss"][0]
    other = model_from_text('input("x", [4])\nDense(1, name: "y")\ncompile { loss: bce(from_logits: true) }')
    assert loss == other.fit(X, y, class_weight={0: 55 / 90, 1: 55 / 20}, batch_size=55, verbose=0).history["loss"][0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("rare", "must be 'balanced', a list or a dict"),
        ([1, 2], "has 2 numbers, and there are 3 classes"),
        ([1, -2, 3], "must be a number for each class index"),
    ],
)
def test_what_is_wrong_is_named(weights, message):
    with pytest.raises(UsageError, match=message):
        trained(weights)


@pytest.mark.parametrize(
    "line", ["class_weight: rare", "class_weight: [1, -1]", 'class_weight: "x"', "class_weight: 3"]
)
def test_what_is_wrong_in_a_text_is_named(line):
    with pytest.raises(TextError, match="class_weight"):
        model_from_text(f"input('x', [4])\nDense(3)\nfit {{ {line} }}")


def test_values_have_no_classes():
    model = model_from_text('input("x", [4])\nDense(1)\ncompile { loss: mse }')
    with pytest.raises(UsageError, match="are no classes"):
        model.fit(X, Y.astype(float), class_weight="balanced", verbose=0)


def test_a_stream_must_say_its_weights():
    model = model_from_text(
        'input("x", [4])\nDense(3)\ncompile { loss: sparse_categorical_crossentropy(from_logits: true) }'
    )
    with pytest.raises(UsageError, match="needs the classes of all samples"):
        model.fit(((X[:8], Y[:8]) for _ in range(3)), class_weight="balanced", verbose=0)
