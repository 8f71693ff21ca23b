"""TensorFlow: weights that live in the graph; the trap that nobody runs their assignments.

The lecture's listing after its import line is changed; lines that are added for the comparison say so.
"""

import numpy as np
from by_hand import check, train  # added

import prototorch.compat.tf1 as tf

np.random.seed(0)  # added

N, D, H = 64, 1000, 100
x = tf.placeholder(tf.float32, shape=(N, D))
y = tf.placeholder(tf.float32, shape=(N, D))
w1 = tf.Variable(tf.random_normal((D, H)))
w2 = tf.Variable(tf.random_normal((H, D)))

h = tf.maximum(tf.matmul(x, w1), 0)
y_pred = tf.matmul(h, w2)
diff = y_pred - y
loss = tf.reduce_mean(tf.reduce_sum(diff**2, axis=1))
grad_w1, grad_w2 = tf.gradients(loss, [w1, w2])

learning_rate = 1e-5
new_w1 = w1.assign(w1 - learning_rate * grad_w1)
new_w2 = w2.assign(w2 - learning_rate * grad_w2)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    start = sess.run([w1, w2])  # added
    values = {
        x: np.random.randn(N, D),
        y: np.random.randn(N, D),
    }
    losses = []  # added
    for t in range(50):
        (loss_val,) = sess.run([loss], feed_dict=values)
        losses.append(loss_val)  # added
    end = sess.run([w1, w2])  # added

expected, _ = train(values[x], values[y], start, steps=1, learning_rate=1e-5, loss="mean of sums")  # added
for t in (0, 49):  # added
    check(f"the loss of run {t}, that of the first weights", losses[t : t + 1], expected)  # added
check("w1 after 50 runs, that from before", end[0], start[0])  # added
check("w2 after 50 runs, that from before", end[1], start[1])  # added
