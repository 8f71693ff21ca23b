"""The static two-layer net of dense layers with Xavier initialisation."""

import numpy as np
from by_hand import D_IN, D_OUT, H, check, net_data, train

import prototorch as pt

x_value, y_value, _, _ = net_data()
pt.manual_seed(0)

x, y = pt.Input((D_IN,)), pt.Input((D_OUT,))
init = pt.initializers.GlorotUniform()  # Xavier's
hidden = pt.layers.Dense(H, activation="relu", use_bias=False, kernel_initializer=init, name="hidden")
output = pt.layers.Dense(D_OUT, use_bias=False, kernel_initializer=init, name="output")
y_pred = output(hidden(x))
loss = ((y_pred - y) ** 2).mean()
graph = pt.Graph([x, y], loss, updates=[pt.optimizers.SGD(1e-1).minimize(loss)])

w1, w2 = (graph.variables[name].value for name in ("hidden/kernel", "output/kernel"))
limit = np.sqrt(6 / (D_IN + H))
assert w1.shape == (D_IN, H)
assert 0.99 * limit < np.abs(w1).max() <= limit

expected, _, _ = train(x_value, y_value, w1, w2, steps=100, learning_rate=1e-1, mean=True)
losses = [float(graph(x_value, y_value)) for t in range(100)]

check("the losses of 100 runs", losses, expected)
