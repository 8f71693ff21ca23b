"""The two-layer net (64, 1000, 100, 10) in NumPy, with its gradients by hand, in float64: the lecture's listing."""

import numpy as np
from by_hand import check, train  # added

np.random.seed(0)  # added

N, D_in, H, D_out = 64, 1000, 100, 10
x = np.random.randn(N, D_in)
y = np.random.randn(N, D_out)
w1 = np.random.randn(D_in, H)
w2 = np.random.randn(H, D_out)
expected, weights = train(x, y, [w1, w2], steps=500, learning_rate=1e-6)  # added
losses = []  # added

learning_rate = 1e-6
for t in range(500):
    h = x.dot(w1)
    h_relu = np.maximum(h, 0)
    y_pred = h_relu.dot(w2)
    loss = np.square(y_pred - y).sum()
    losses.append(loss)  # added

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.T.dot(grad_y_pred)
    grad_h_relu = grad_y_pred.dot(w2.T)
    grad_h = grad_h_relu.copy()
    grad_h[h < 0] = 0
    grad_w1 = x.T.dot(grad_h)

    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

check("the losses of 500 steps", losses, expected)  # added
check("w1 after them", w1, weights[0])  # added
check("w2 after them", w2, weights[1])  # added
