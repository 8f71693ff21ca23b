"""The static two-layer net whose weights are fed at each run, and updated outside of the graph."""

from by_hand import D_IN, D_OUT, H, check, net_data, train

import prototorch as pt

x, y = pt.Input((D_IN,)), pt.Input((D_OUT,))
w1, w2 = pt.Input((H,)), pt.Input((D_OUT,))

h = (x @ w1).clamp(min=0)
y_pred = h @ w2
diff = y_pred - y
loss = pt.sum(diff**2)
grad_w1, grad_w2 = pt.gradients(loss, [w1, w2])
graph = pt.Graph([x, y, w1, w2], [loss, grad_w1, grad_w2])

x_value, y_value, w1_value, w2_value = net_data()
expected, _, _ = train(x_value, y_value, w1_value, w2_value, steps=200, learning_rate=1e-6)
learning_rate = 1e-6
losses = []
for t in range(200):
    loss_value, grad_1, grad_2 = graph(x_value, y_value, w1_value, w2_value)
    losses.append(float(loss_value))
    w1_value -= learning_rate * grad_1
    w2_value -= learning_rate * grad_2

check("the losses of 200 runs", losses, expected)
