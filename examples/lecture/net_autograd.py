"""The two-layer net with autograd, in today's words."""

from by_hand import check, net_data, train

import prototorch as torch

x, y, w1, w2 = (torch.tensor(array) for array in net_data())
w1.requires_grad_()
w2.requires_grad_()
expected, _, _ = train(*net_data(), steps=500, learning_rate=1e-6)

learning_rate = 1e-6
losses = []
for t in range(500):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.item())

    loss.backward()
    with torch.no_grad():
        w1 -= learning_rate * w1.grad
        w2 -= learning_rate * w2.grad
        w1.grad.zero_()
        w2.grad.zero_()

check("the losses of 500 steps", losses, expected)
