"""The static two-layer net trained by an optimizer's step in the graph.

Adapted: the step is listed as an update of a graph.
"""

import numpy as np
from by_hand import check, train

import prototorch as pt

N, D, H = 64, 1000, 100
x, y = pt.Input((D,)), pt.Input((D,))
w1 = pt.Variable(pt.initializers.RandomNormal(0.0, 1.0), shape=(D, H))
w2 = pt.Variable(pt.initializers.RandomNormal(0.0, 1.0), shape=(H, D))

h = (x @ w1).clamp(min=0)
y_pred = h @ w2
diff = y_pred - y
loss = pt.mean(pt.sum(diff**2, dim=1))

optimizer = pt.optimizers.SGD(1e-5)
updates = optimizer.minimize(loss)
graph = pt.Graph([x, y], loss, updates=[updates])

rng = np.random.default_rng(0)
x_val, y_val = (rng.standard_normal((N, D)).astype("f") for _ in range(2))
expected, weights = train(x_val, y_val, [w1.value, w2.value], steps=50, learning_rate=1e-5, loss="mean of sums")
losses = [graph(x_val, y_val) for t in range(50)]

check("the losses of 50 runs", losses, expected)
check("w1 after them", w1.value, weights[0])
check("w2 after them", w2.value, weights[1])
