"""TensorFlow: layers with Xavier's initialization and biases.

The lecture's listing after its import line is changed; lines that are added for the comparison say so.
"""

import numpy as np
from by_hand import check, train  # added

import prototorch.compat.tf1 as tf

np.random.seed(0)  # added

N, D, H = 64, 1000, 100
x = tf.placeholder(tf.float32, shape=(N, D))
y = tf.placeholder(tf.float32, shape=(N, D))

init = tf.contrib.layers.xavier_initializer()
h = tf.layers.dense(inputs=x, units=H, activation=tf.nn.relu, kernel_initializer=init)
y_pred = tf.layers.dense(inputs=h, units=D, kernel_initializer=init)

loss = tf.losses.mean_squared_error(y_pred, y)

optimizer = tf.train.GradientDescentOptimizer(1e0)
updates = optimizer.minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    start = sess.run(tf.trainable_variables())  # added
    values = {
        x: np.random.randn(N, D),
        y: np.random.randn(N, D),
    }
    losses = []  # added
    for t in range(50):
        loss_val, _ = sess.run([loss, updates], feed_dict=values)
        losses.append(loss_val)  # added
    end = sess.run(tf.trainable_variables())  # added

names = [v.name for v in tf.trainable_variables()]  # added
expected, weights = train(values[x], values[y], start, steps=50, learning_rate=1e0, loss="mean")  # added
check("the losses of 50 runs", losses, expected)  # added
for what, one, by_hand in zip(names, end, weights):  # added
    check(f"{what} after them", one, by_hand)  # added
limit = np.sqrt(6 / (D + H))  # added
assert all(0.99 * limit < np.abs(w).max() <= limit for w in start[::2])  # added
