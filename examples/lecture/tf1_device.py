"""TensorFlow: the same graph with its device, which is "/gpu:0" in the lecture: here a GPU where there is one.

The lecture's listing after its import line is changed; lines that are added for the comparison say so.
"""

import numpy as np
from by_hand import check, graph_gradients  # added

import prototorch as pt  # added
import prototorch.compat.tf1 as tf

np.random.seed(0)

N, D = 3, 4

name = "/gpu:0" if pt.cuda.is_available() else "/cpu:0"  # added
with tf.device(name):  # the lecture has "/cpu:0", then "/gpu:0"
    x = tf.placeholder(tf.float32)
    y = tf.placeholder(tf.float32)
    z = tf.placeholder(tf.float32)

    a = x * y
    b = a + z
    c = tf.reduce_sum(b)

grad_x, grad_y, grad_z = tf.gradients(c, [x, y, z])

with tf.Session() as sess:
    values = {
        x: np.random.randn(N, D),
        y: np.random.randn(N, D),
        z: np.random.randn(N, D),
    }
    out = sess.run([c, grad_x, grad_y, grad_z], feed_dict=values)
    c_val, grad_x_val, grad_y_val, grad_z_val = out

expected = graph_gradients(*values.values())  # added
for what, one, by_hand in zip(("c", "grad x", "grad y", "grad z"), out, expected):  # added
    check(what, one, by_hand)  # added
