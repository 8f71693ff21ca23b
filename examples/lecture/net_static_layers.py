"""The static two-layer net of dense layers with Xavier initialisation, biases and the mean squared error.

Adapted: layers are objects, which are called; a graph's variables have the layers' weights by name.
"""

import numpy as np
from by_hand import check, train

import prototorch as pt

N, D, H = 64, 1000, 100
x, y = pt.Input((D,)), pt.Input((D,))

init = pt.initializers.GlorotUniform()  # Xavier's
h = pt.layers.Dense(units=H, activation="relu", kernel_initializer=init, name="hidden")(x)
y_pred = pt.layers.Dense(units=D, kernel_initializer=init, name="output")(h)

loss = pt.losses.MeanSquaredError()(y, y_pred)

optimizer = pt.optimizers.SGD(1e0)
updates = optimizer.minimize(loss)
graph = pt.Graph([x, y], loss, updates=[updates])

rng = np.random.default_rng(0)
x_val, y_val = (rng.standard_normal((N, D)).astype("f") for _ in range(2))
names = ["hidden/kernel", "hidden/bias", "output/kernel", "output/bias"]
start = [graph.variables[name].value for name in names]
limit = np.sqrt(6 / (D + H))
assert all(0.99 * limit < np.abs(w).max() <= limit for w in start[::2])

expected, weights = train(x_val, y_val, start, steps=50, learning_rate=1e0, loss="mean")
losses = [graph(x_val, y_val) for t in range(50)]

check("the losses of 50 runs", losses, expected)
for name, by_hand in zip(names, weights):
    check(f"{name} after them", graph.variables[name].value, by_hand)
