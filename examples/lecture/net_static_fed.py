"""The static two-layer net whose weights are fed at each run, and updated outside of the graph.

Adapted: inputs list all sizes but the first, and a session's run is a call of the graph.
"""

import numpy as np
from by_hand import check, train

import prototorch as pt

N, D, H = 64, 1000, 100
x, y = pt.Input((D,)), pt.Input((D,))
w1, w2 = pt.Input((H,)), pt.Input((D,))

h = (x @ w1).clamp(min=0)
y_pred = h @ w2
diff = y_pred - y
loss = pt.mean(pt.sum(diff**2, dim=1))
grad_w1, grad_w2 = pt.gradients(loss, [w1, w2])
graph = pt.Graph([x, y, w1, w2], [loss, grad_w1, grad_w2])

rng = np.random.default_rng(0)
x_val, y_val, w1_val, w2_val = (rng.standard_normal(s).astype("f") for s in ((N, D), (N, D), (D, H), (H, D)))
expected, weights = train(x_val, y_val, [w1_val, w2_val], steps=50, learning_rate=1e-5, loss="mean of sums")
learning_rate = 1e-5
losses = []
for t in range(50):
    loss_val, grad_w1_val, grad_w2_val = graph(x_val, y_val, w1_val, w2_val)
    losses.append(loss_val)
    w1_val -= learning_rate * grad_w1_val
    w2_val -= learning_rate * grad_w2_val

check("the losses of 50 runs", losses, expected)
check("w1 after them", w1_val, weights[0])
check("w2 after them", w2_val, weights[1])
