"""TensorFlow 1's words: the lecture's listings in other shapes, sessions, optimizers, layers and losses, by hand."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
import prototorch.compat.tf1 as tf
from prototorch.errors import PrototorchError, ShapeError, UsageError

LECTURE = Path(__file__).resolve().parents[2] / "examples" / "lecture"
LISTINGS = sorted(path.name for path in LECTURE.glob("tf1_*.py"))
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.fixture(autouse=True)
def graph():
    """An empty default graph, before and after."""
    tf.reset_default_graph()
    yield
    tf.reset_default_graph()


def test_there_are_eight_listings_of_tensorflow():
    assert len(LISTINGS) == 8


@pytest.mark.parametrize("sizes", ["5, 7, 3", "2, 1, 4"])
@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_in_other_shapes(name, sizes, tmp_path, monkeypatch):
    """Each ends by comparing itself with NumPy by hand."""
    text = (LECTURE / name).read_text("utf-8")
    other = text.replace("N, D, H = 64, 1000, 100", f"N, D, H = {sizes}").replace("N, D = 3, 4", f"N, D = {sizes[:4]}")
    other = other.replace("assert all(0.99 * limit <", "assert all(0 <")
    assert other != text
    (tmp_path / name).write_text(other, encoding="utf-8")
    monkeypatch.syspath_prepend(str(LECTURE))
    try:
        runpy.run_path(str(tmp_path / name))
    finally:
        sys.modules.pop("by_hand", None)


def test_only_the_import_line_differs_from_the_lecture():
    """What is added for the comparison is marked; the rest has TensorFlow's words alone."""
    for name in LISTINGS:
        lines = [x for x in (LECTURE / name).read_text("utf-8").splitlines() if not x.rstrip().endswith("# added")]
        ours = [x for x in lines if "prototorch" in x]
        assert ours == ["import prototorch.compat.tf1 as tf"]


# ---------------------------------------------------------------------- sessions
def test_fetches_keep_their_structure():
    x = tf.placeholder(tf.float32, (None, 2))
    v = tf.Variable(3.0)
    add = v.assign_add(1.0)
    with tf.Session() as sess:
        assert sess.run(tf.global_variables_initializer()) is None
        a = np.ones((3, 2))
        value = sess.run(tf.reduce_sum(x), {x: a})
        assert (value, type(value)) == (6, np.float32)
        result = sess.run({"a": [x, v], "b": (v, tf.group(add))}, {x: a})
        np.testing.assert_array_equal(result["a"][0], a)
        assert (result["a"][1], result["b"]) == (3, (3, None))
        assert sess.run([add, v]) == [5, 4]  # the new value; all reads see the one from before
        assert sess.run([]) == []


def test_two_outputs_and_a_second_optimizer():
    """A net with two heads, by hand: the loss is the sum of both, the step Adam's with TensorFlow's epsilon."""
    x, y, z = (tf.placeholder(tf.float32, shape=(6, n)) for n in (4, 2, 3))
    w, a, b = (tf.Variable(tf.random_normal(shape)) for shape in ((4, 5), (5, 2), (5, 3)))
    h = tf.nn.tanh(tf.matmul(x, w))
    first, second = tf.matmul(h, a), tf.matmul(h, b)
    loss = tf.losses.mean_squared_error(y, first) + tf.reduce_mean(tf.abs(second - z)) * 0.5
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    feeds = {x: normal(6, 4), y: normal(6, 2), z: normal(6, 3)}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        weights = [v.astype(np.float64) for v in sess.run([w, a, b])]
        moments = [np.zeros_like(v) for v in weights], [np.zeros_like(v) for v in weights]
        for t in range(1, 8):
            value, p, q, _ = sess.run([loss, first, second, step], feed_dict=feeds)
            xv, yv, zv = feeds.values()
            hidden = np.tanh(xv @ weights[0])
            by_hand = hidden @ weights[1], hidden @ weights[2]
            np.testing.assert_allclose(p, by_hand[0], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(q, by_hand[1], rtol=1e-4, atol=1e-5)
            d, e = by_hand[0] - yv, by_hand[1] - zv
            np.testing.assert_allclose(value, (d * d).mean() + 0.5 * np.abs(e).mean(), rtol=1e-5)
            gp, gq = 2 * d / d.size, 0.5 * np.sign(e) / e.size
            gh = (gp @ weights[1].T + gq @ weights[2].T) * (1 - hidden**2)
            for k, g in enumerate((xv.T @ gh, hidden.T @ gp, hidden.T @ gq)):
                moments[0][k] += 0.1 * (g - moments[0][k])
                moments[1][k] += 0.001 * (g * g - moments[1][k])
                rate = 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
                weights[k] -= rate * moments[0][k] / (np.sqrt(moments[1][k]) + 1e-8)
        for found, expected in zip(sess.run([w, a, b]), weights, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [
        (lambda: tf.train.GradientDescentOptimizer(0.1), lambda g, s: 0.1 * g),
        (
            lambda: tf.train.MomentumOptimizer(0.1, 0.9),
            lambda g, s: s.__setitem__(0, 0.9 * s[0] + g) or 0.1 * s[0],
        ),
        (
            lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
            lambda g, s: s.__setitem__(0, 0.9 * s[0] + g) or 0.1 * (g + 0.9 * s[0]),
        ),
        (
            lambda: tf.train.AdagradOptimizer(0.1),
            lambda g, s: s.__setitem__(0, (s[0] or 0.1) + g * g) or 0.1 * g / np.sqrt(s[0]),
        ),
    ],
    ids=["gradient descent", "momentum", "Nesterov", "Adagrad"],
)
def test_the_rule_of_an_optimizer(optimizer, rule):
    """On the loss (v - 3)^2, by TensorFlow's documented formulas; an initializer begins anew, also the state."""
    v = tf.Variable(5.0)
    loss = tf.square(v - 3.0)
    step = optimizer().minimize(loss)
    with tf.Session() as sess:
        for _ in range(2):
            sess.run(tf.global_variables_initializer())
            value, state = 5.0, [0.0]
            for _ in range(4):
                np.testing.assert_allclose(sess.run([loss, step])[0], (value - 3) ** 2, rtol=1e-5)
                value -= rule(2 * (value - 3), state)
            np.testing.assert_allclose(sess.run(v), value, rtol=1e-5)


def test_a_step_changes_the_listed_variables_alone():
    v, w, c = tf.Variable(1.0), tf.Variable(1.0), tf.Variable(1.0, trainable=False)
    loss = v * 2 + w * 3 + c * 4
    some = tf.train.GradientDescentOptimizer(1.0).minimize(loss, var_list=[w])
    every = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(some)
        assert sess.run([v, w, c]) == [1, -2, 1]
        sess.run(every)
        assert sess.run([v, w, c]) == [-1, -5, 1]
    assert tf.trainable_variables() == [v, w]


def test_a_variable_has_a_value_in_the_session_that_has_initialized_it():
    v = tf.Variable(tf.zeros((2, 2)) + 1.5, name="v")
    first, second = tf.Session(), tf.Session()
    with pytest.raises(UsageError, match=r"'v' has no value in this session.*global_variables_initializer"):
        first.run(v)
    first.run(v.initializer)
    np.testing.assert_array_equal(first.run(v.assign(np.full((2, 2), 7.0))), np.full((2, 2), 7))
    with pytest.raises(UsageError, match="no value in this session"):
        second.run(v)
    second.run(tf.variables_initializer([v]))
    np.testing.assert_array_equal(second.run(v), np.full((2, 2), 1.5))
    with pytest.raises(UsageError, match="no value in this session"):  # one at a time has the values
        first.run(v)
    second.close()
    with pytest.raises(UsageError, match="closed"):
        second.run(v)


def test_random_numbers_are_drawn_in_each_run_and_by_the_initializer():
    x, v = tf.random_normal((500, 40), mean=1.0, stddev=2.0), tf.Variable(tf.truncated_normal((500, 40), stddev=0.5))
    u = tf.random_uniform((500, 40), -1, 3)
    with tf.Session() as sess:
        tf.set_random_seed(1)
        sess.run(tf.global_variables_initializer())
        a, b = sess.run(x), sess.run(x)
        assert not np.array_equal(a, b)
        assert abs(a.mean() - 1) < 0.05
        assert abs(a.std() - 2) < 0.05
        first = sess.run(v)
        assert np.abs(first).max() <= 1.0001
        assert abs(first.std() - 0.5 * 0.8796) < 0.01
        values = sess.run(u)
        assert -1 <= values.min() < -0.99
        assert 2.99 < values.max() <= 3
        np.testing.assert_array_equal(first, sess.run(v))
        tf.set_random_seed(1)
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(first, sess.run(v))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda sess, x, v: sess.run(x), r"placeholder 'x' has no value: feed_dict="),
        (lambda sess, x, v: sess.run(x, {x: np.ones((3, 3))}), r"'x' takes float32\[4, any\], got"),
        (lambda sess, x, v: sess.run(x, {x: np.ones(4)}), r"'x' takes float32\[4, any\], got"),
        (lambda sess, x, v: sess.run(v, {v: 1.0}), "keys of feed_dict are placeholders"),
        (lambda sess, x, v: sess.run("x"), "expected symbols"),
        (lambda sess, x, v: sess.run(v, {x: [["a"]]}) and sess.run(x, {x: [["a"]]}), "got text"),
        (lambda sess, x, v: tf.Session(config=object()), "no target, graph or config"),
        (lambda sess, x, v: tf.layers.dense(tf.placeholder(tf.float32), 3), "last size of its inputs must be known"),
        (lambda sess, x, v: tf.losses.mean_squared_error(x, tf.reduce_sum(x, axis=1)), "differ in shape"),
        (lambda sess, x, v: tf.Variable(1.0, collections=["mine"]), "collections.* is not in"),
        (lambda sess, x, v: tf.device("tpu"), "expected '/cpu:0' or '/gpu:N'"),
    ],
)
def test_what_a_session_refuses(run, words):
    x, v = tf.placeholder(tf.float32, (4, None), name="x"), tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(PrototorchError, match=words):
            run(sess, x, v)
        assert sess.run(v) == 1


def test_gradients_of_what_nothing_depends_on_are_none():
    x, y = tf.placeholder(tf.float32), tf.Variable(2.0)
    grads = tf.gradients(tf.reduce_sum(x * x), [x, y])
    assert grads[1] is None
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(grads[0], {x: [[1, 2]]}), [[2, 4]])
        assert sess.run(grads[0], {x: 3.0}) == 6  # a placeholder without a shape takes any
    (alone,) = tf.gradients(tf.reduce_sum(x * x), x)
    assert alone is not None


# ---------------------------------------------------------------------- functions, layers, losses
def test_functions_by_hand():
    x, y = tf.placeholder(tf.float32, (3, 4)), tf.placeholder(tf.float32, (3, 4))
    a, b = normal(3, 4), normal(3, 4)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    softmax = e / e.sum(axis=1, keepdims=True)
    cases = {
        "max": (tf.maximum(x, 0), np.maximum(a, 0)),
        "max of two": (tf.maximum(x, y), np.maximum(a, b)),
        "number first": (tf.maximum(0.5, x), np.maximum(0.5, a)),
        "min": (tf.minimum(x, b), np.minimum(a, b)),
        "sum": (tf.reduce_sum(x, axis=1), a.sum(1)),
        "sum, kept": (tf.reduce_sum(x, 0, keep_dims=True), a.sum(0, keepdims=True)),
        "mean of axes": (tf.reduce_mean(x, axis=[0, 1]), a.mean()),
        "largest": (tf.reduce_max(x, axis=1), a.max(1)),
        "smallest": (tf.reduce_min(x), a.min()),
        "place": (tf.argmax(x, 1), a.argmax(1)),
        "place along the first axis": (tf.argmax(x), a.argmax(0)),
        "product": (tf.matmul(x, y, transpose_b=True), a @ b.T),
        "product with an array": (tf.matmul(x, b, transpose_a=True), a.T @ b),
        "joined": (tf.concat([x, y], axis=1), np.concatenate([a, b], 1)),
        "cast": (tf.cast(x > 0, tf.int32), (a > 0).astype("int32")),
        "reshaped": (tf.reshape(x, (2, 6)), a.reshape(2, 6)),
        "constant": (tf.constant([[1.5]]) + x, a + 1.5),
        "chosen": (tf.where(x > 0, x, y), np.where(a > 0, a, b)),
        "softmax": (tf.nn.softmax(x), softmax),
        "cross-entropy": (
            tf.nn.softmax_cross_entropy_with_logits(labels=np.eye(4, dtype="f")[[0, 2, 3]], logits=x),
            -np.log(softmax[[0, 1, 2], [0, 2, 3]]),
        ),
        "cross-entropy of classes": (
            tf.losses.sparse_softmax_cross_entropy(labels=np.array([0, 2, 3]), logits=x),
            -np.log(softmax[[0, 1, 2], [0, 2, 3]]).mean(),
        ),
        "absolute": (tf.losses.absolute_difference(x, y), np.abs(a - b).mean()),
        "squared": (tf.losses.mean_squared_error(x, y, weights=2.0), 2 * ((a - b) ** 2).mean()),
    }
    with tf.Session() as sess:
        results = sess.run({name: symbol for name, (symbol, _) in cases.items()}, {x: a, y: b})
    for name, (_, expected) in cases.items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_dense_layer_has_variables_by_name():
    x = tf.placeholder(tf.float32, (None, 4))
    y = tf.layers.dense(x, 3, activation=tf.nn.sigmoid, bias_initializer=tf.constant_initializer(0.25))
    z = tf.layers.dense(y, 2, use_bias=False, kernel_initializer=tf.variance_scaling_initializer(2.0), name="head")
    tf.layers.dense(y, 2)
    names = " ".join(v.name for v in tf.global_variables())
    assert names == "dense/kernel dense/bias head/kernel dense_1/kernel dense_1/bias"
    a = normal(5, 4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        out, (w, b, head, *_) = sess.run([z, tf.trainable_variables()], {x: a})
    assert (b == 0.25).all()
    np.testing.assert_allclose(out, 1 / (1 + np.exp(-(a @ w + b))) @ head, rtol=1e-5, atol=1e-6)


def test_sizes_that_are_not_known_fit_any_labels():
    x, y = tf.placeholder(tf.float32, (None, 4)), tf.placeholder(tf.float32, (6, 2))
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(x, 2))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(loss, {x: normal(6, 4), y: normal(6, 2)}) > 0
    with pytest.raises(ShapeError, match="differ in shape"):
        tf.losses.mean_squared_error(y, tf.layers.dense(x, 3))
    with pytest.raises(ShapeError, match="last size"):
        tf.layers.dense(tf.placeholder(tf.float32, (4, None)), 2)


def test_a_graph_of_a_placeholder_without_a_shape_is_not_saved(tmp_path):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, (2, 3))
    with pytest.raises(UsageError, match="placeholder"):
        pt.Graph([x], x * 2).save(tmp_path / "g.h5")
    pt.Graph([y], y * 2).save(tmp_path / "g.h5")
    np.testing.assert_array_equal(pt.Graph.load(tmp_path / "g.h5")(np.ones((2, 3))), np.full((2, 3), 2))
    with pytest.raises(ShapeError):
        pt.Graph([y], y * 2)(np.ones((3, 3)))
