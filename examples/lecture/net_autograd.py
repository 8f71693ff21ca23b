"""PyTorch: the two-layer net with autograd, in today's words.

The lecture's listing after its import line is changed.
"""

from by_hand import check, train  # added

import prototorch as torch

N, D_in, H, D_out = 64, 1000, 100, 10
x = torch.randn(N, D_in)
y = torch.randn(N, D_out)
w1 = torch.randn(D_in, H, requires_grad=True)
w2 = torch.randn(H, D_out, requires_grad=True)
expected, weights = train(x, y, [w1.detach(), w2.detach()], steps=500, learning_rate=1e-6)  # added
losses = []  # added

learning_rate = 1e-6
for t in range(500):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.item())  # added

    loss.backward()

    with torch.no_grad():
        w1 -= learning_rate * w1.grad
        w2 -= learning_rate * w2.grad
        w1.grad.zero_()
        w2.grad.zero_()

check("the losses of 500 steps", losses, expected)  # added
check("w1 after them", w1.detach(), weights[0])  # added
check("w2 after them", w2.detach(), weights[1])  # added
