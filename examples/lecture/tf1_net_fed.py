"""TensorFlow: the two-layer net, whose weights are fed at each run and updated outside of the graph.

The lecture's listing after its import line is changed; lines that are added for the comparison say so.
"""

import numpy as np
from by_hand import check, train  # added

import prototorch.compat.tf1 as tf

np.random.seed(0)  # added

N, D, H = 64, 1000, 100
x = tf.placeholder(tf.float32, shape=(N, D))
y = tf.placeholder(tf.float32, shape=(N, D))
w1 = tf.placeholder(tf.float32, shape=(D, H))
w2 = tf.placeholder(tf.float32, shape=(H, D))

h = tf.maximum(tf.matmul(x, w1), 0)
y_pred = tf.matmul(h, w2)
diff = y_pred - y
loss = tf.reduce_mean(tf.reduce_sum(diff**2, axis=1))
grad_w1, grad_w2 = tf.gradients(loss, [w1, w2])

with tf.Session() as sess:
    values = {
        x: np.random.randn(N, D),
        w1: np.random.randn(D, H),
        w2: np.random.randn(H, D),
        y: np.random.randn(N, D),
    }
    start = values[w1].copy(), values[w2].copy()  # added
    losses = []  # added
    learning_rate = 1e-5
    for t in range(50):
        out = sess.run([loss, grad_w1, grad_w2], feed_dict=values)
        loss_val, grad_w1_val, grad_w2_val = out
        losses.append(loss_val)  # added
        values[w1] -= learning_rate * grad_w1_val
        values[w2] -= learning_rate * grad_w2_val

end = values[w1], values[w2]  # added
expected, weights = train(values[x], values[y], start, steps=50, learning_rate=1e-5, loss="mean of sums")  # added
check("the losses of 50 runs", losses, expected)  # added
for what, one, by_hand in zip(("w1", "w2"), end, weights):  # added
    check(f"{what} after them", one, by_hand)  # added
