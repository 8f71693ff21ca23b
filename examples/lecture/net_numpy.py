"""The two-layer net (64, 1000, 100, 10) in NumPy, with its gradients by hand."""

import numpy as np
from by_hand import check, net_data, train

x, y, w1, w2 = net_data()
expected, _, _ = train(x, y, w1, w2, steps=500, learning_rate=1e-6)

learning_rate = 1e-6
losses = []
for t in range(500):
    h = x.dot(w1)
    h_relu = np.maximum(h, 0)
    y_pred = h_relu.dot(w2)
    loss = np.square(y_pred - y).sum()
    losses.append(loss)

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.T.dot(grad_y_pred)
    grad_h_relu = grad_y_pred.dot(w2.T)
    grad_h = grad_h_relu.copy()
    grad_h[h < 0] = 0
    grad_w1 = x.T.dot(grad_h)

    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

check("the losses of 500 steps", losses, expected)
