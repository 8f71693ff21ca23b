"""The static two-layer net trained by an optimizer's step in the graph."""

from by_hand import D_IN, D_OUT, check, net_data, train

import prototorch as pt

x_value, y_value, w1_value, w2_value = net_data()
w1_value, w2_value = w1_value / 30, w2_value / 10
expected, _, _ = train(x_value, y_value, w1_value, w2_value, steps=200, learning_rate=1e-2, mean=True)

x, y = pt.Input((D_IN,)), pt.Input((D_OUT,))
w1, w2 = pt.Variable(w1_value), pt.Variable(w2_value)
y_pred = (x @ w1).clamp(min=0) @ w2
loss = ((y_pred - y) ** 2).mean()

optimizer = pt.optimizers.SGD(1e-2)
graph = pt.Graph([x, y], loss, updates=[optimizer.minimize(loss)])
losses = [float(graph(x_value, y_value)) for t in range(200)]

check("the losses of 200 runs", losses, expected)
