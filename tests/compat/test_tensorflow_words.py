"""Each word of TensorFlow 1's is answered with what to write here, wherever it is asked for; and what the answers name
exists."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import prototorch as pt
import prototorch.compat.tf1 as tf
from prototorch.base.tensorflow_words import TENSORFLOW_WORDS
from prototorch.errors import explain_word


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("placeholder", r"pt\.Input"),
        ("Session", r"pt\.Graph\("),
        ("run", r"pt\.Graph\("),
        ("feed_dict", "in the order of the graph's inputs"),
        ("global_variables_initializer", "from the beginning"),
        ("reduce_sum", r"pt\.sum"),
        ("reduce_mean", r"pt\.mean"),
        ("GradientDescentOptimizer", r"pt\.optimizers\.SGD"),
        ("xavier_initializer", "GlorotUniform"),
        ("random_normal", r"pt\.randn"),
        ("contrib", r"pt\.initializers"),
        ("cond", r"pt\.where"),
        ("while_loop", "unroll"),
        ("keras", r"pt\.Sequential"),
        ("layers.conv2d", r"pt\.layers\.Conv2D"),
        ("optimizers.AdamOptimizer", r"pt\.optimizers\.Adam"),
        ("initializers.xavier_initializer", "GlorotUniform"),
        ("losses.softmax_cross_entropy", "CategoricalCrossentropy"),
        ("nn.relu", r"pt\.relu"),
        ("nn.conv2d", r"pt\.layers\.Conv2D"),
        ("compile.__name__.x", "has no attribute"),
    ],
)
def test_a_word_is_answered(word, answer):
    *path, name = word.split(".")
    place = pt
    for part in path:
        place = getattr(place, part)
    with pytest.raises(AttributeError, match=answer):
        getattr(place, name)


def test_words_are_answered_at_objects():
    x, v = pt.Input((3,)), pt.Variable(1.0)
    graph = pt.Graph([x], x * v)
    for ask, answer in (
        (lambda: x.eval(), "a graph is called"),
        (lambda: x.get_shape(), "shapes are known"),
        (lambda: v.initializer, "nothing to initialize"),
        (lambda: graph.run, "a graph is called"),
        (lambda: graph.as_default(), "no default graph"),
        (lambda: pt.optimizers.SGD(0.1).compute_gradients, "pt.gradients"),
    ):
        with pytest.raises(AttributeError, match=answer):
            ask()
    for call in (lambda: graph(feed_dict={x: 1}), lambda: graph({x: 1})):
        with pytest.raises(pt.errors.UsageError, match="in the order of the graph's inputs"):
            call()
    with pytest.raises(AttributeError, match=r"x' *$|no 'x'"):
        _ = graph.x


def test_optimizers_and_initializers_are_suggested_by_name():
    model = pt.load_model("two_layer")
    with pytest.raises(pt.errors.UsageError, match="Did you mean 'SGD'"):
        model.compile(optimizer="GradientDescentOptimizer", loss="mse")
    with pytest.raises(pt.errors.UsageError, match="Did you mean 'GlorotUniform'"):
        pt.layers.Dense(3, kernel_initializer="xavier_initializer")


def test_a_word_that_the_face_has_not_is_answered():
    for ask, answer in (
        (lambda: tf.cond, r"pt\.where"),
        (lambda: tf.train.RMSPropOptimizer, "begins at 0"),
        (lambda: tf.train.Saver, r"graph\.save"),
        (lambda: tf.layers.conv2d, r"pt\.layers\.Conv2D"),
        (lambda: tf.contrib.layers.batch_norm, "BatchNormalization"),
        (lambda: tf.train.AdamOptimizer().apply_gradients, r"pt\.gradients"),
        (lambda: tf.summary, "TensorBoard"),
    ):
        with pytest.raises(AttributeError, match=answer):
            ask()


def test_what_the_answers_name_exists():
    """Each pt.NAME in them, and no word that the package has itself."""
    for word, answer in TENSORFLOW_WORDS.items():
        for path in re.findall(r"\bpt((?:\.\w+)+)", answer):
            place = pt
            for part in path.strip(".").split("."):
                place = getattr(place, part)
        assert explain_word(word).startswith(": for TensorFlow's")
    assert explain_word("load_model") == ""


def test_the_answer_of_a_top_level_word_is_reached():
    """A word that prototorch itself has would never be answered."""
    own = {word for word in TENSORFLOW_WORDS if "." not in word and word in pt.__all__}
    assert own == set()


def test_a_layer_of_tensorflow_is_answered_before_its_module_is_imported():
    """Later pt.layers.dense is the module of Dense."""
    code = "import prototorch as pt; pt.layers.dense"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "write pt.layers.Dense(units" in done.stderr
