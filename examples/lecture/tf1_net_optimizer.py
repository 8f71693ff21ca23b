"""TensorFlow: an optimizer's step.

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

optimizer = tf.train.GradientDescentOptimizer(1e-5)
updates = optimizer.minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    start = sess.run([w1, w2])  # added
    values = {
        x: np.random.randn(N, D),
        y: np.random.randn(N, D),
    }
    losses = []  # added
    for t in range(50):
        loss_val, _ = sess.run([loss, updates], feed_dict=values)
        losses.append(loss_val)  # added
    end = sess.run([w1, w2])  # added

expected, weights = train(values[x], values[y], start, steps=50, learning_rate=1e-5, loss="mean of sums")  # added
check("the losses of 50 runs", losses, expected)  # added
for what, one, by_hand in zip(("w1", "w2"), end, weights):  # added
    check(f"{what} after them", one, by_hand)  # added
