"""TensorFlow 1's listings on a GPU's stand-in: variables, a layer and an optimizer in ``tf.device("/gpu:1")``."""

from __future__ import annotations

import numpy as np

import prototorch.compat.tf1 as tf
from tests.cuda.fake.fake_cuda import use_fake_cuda


def test_a_net_in_the_scope_of_a_device():
    with use_fake_cuda():
        run_net()


def run_net():
    tf.reset_default_graph()
    with tf.device("/gpu:1"):
        x, y = tf.placeholder(tf.float32, (6, 4)), tf.placeholder(tf.float32, (6, 3))
        w = tf.Variable(tf.random_normal((4, 3)))
        loss = tf.losses.mean_squared_error(y, tf.matmul(x, w))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    rng = np.random.default_rng(0)
    feeds = {x: rng.standard_normal((6, 4)), y: rng.standard_normal((6, 3))}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        weight = sess.run(w).astype(np.float64)
        for _ in range(5):
            difference = feeds[x] @ weight - feeds[y]
            value, _ = sess.run([loss, step], feeds)
            np.testing.assert_allclose(value, (difference**2).mean(), rtol=1e-5)
            weight -= 0.1 * feeds[x].T @ (2 * difference / difference.size)
        np.testing.assert_allclose(sess.run(w), weight, rtol=1e-4, atol=1e-5)
    assert w.device == "cuda:1"
    tf.reset_default_graph()
