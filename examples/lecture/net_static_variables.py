"""The static two-layer net whose weights live in the graph, and are assigned by it."""

from by_hand import D_IN, D_OUT, check, net_data, train

import prototorch as pt

x_value, y_value, w1_value, w2_value = net_data()
expected, _, _ = train(x_value, y_value, w1_value, w2_value, steps=200, learning_rate=1e-6)

x, y = pt.Input((D_IN,)), pt.Input((D_OUT,))
w1, w2 = pt.Variable(w1_value), pt.Variable(w2_value)

h = (x @ w1).clamp(min=0)
y_pred = h @ w2
diff = y_pred - y
loss = pt.sum(diff**2)
grad_w1, grad_w2 = pt.gradients(loss, [w1, w2])

learning_rate = 1e-6
new_w1 = w1.assign(w1 - learning_rate * grad_w1)
new_w2 = w2.assign(w2 - learning_rate * grad_w2)

without_updates = pt.Graph([x, y], loss)  # the lecture's trap: nobody asks for the assignments
assert float(without_updates(x_value, y_value)) == float(without_updates(x_value, y_value))

graph = pt.Graph([x, y], loss, updates=[pt.group(new_w1, new_w2)])
losses = [float(graph(x_value, y_value)) for t in range(200)]

check("the losses of 200 runs", losses, expected)
