"""PyTorch 0.1: the two-layer net with autograd: Variable, .data, .grad.data.zero_().

The lecture's listing after its import lines are changed. Adapted: `if w1.grad:` of the lecture is an error in today's
PyTorch and here, for a gradient has many elements: `is not None` is added.
"""

from by_hand import check, train  # added

import prototorch as torch
from prototorch.autograd import Variable

N, D_in, H, D_out = 64, 1000, 100, 10
x = Variable(torch.randn(N, D_in), requires_grad=False)
y = Variable(torch.randn(N, D_out), requires_grad=False)
w1 = Variable(torch.randn(D_in, H), requires_grad=True)
w2 = Variable(torch.randn(H, D_out), requires_grad=True)
expected, weights = train(x, y, [w1.data, w2.data], steps=500, learning_rate=1e-6)  # added
losses = []  # added

learning_rate = 1e-6
for t in range(500):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.data.item())  # added

    if w1.grad is not None:
        w1.grad.data.zero_()
    if w2.grad is not None:
        w2.grad.data.zero_()
    loss.backward()

    w1.data -= learning_rate * w1.grad.data
    w2.data -= learning_rate * w2.grad.data

check("the losses of 500 steps", losses, expected)  # added
check("w1 after them", w1.data, weights[0])  # added
check("w2 after them", w2.data, weights[1])  # added
