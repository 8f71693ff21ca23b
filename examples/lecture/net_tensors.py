"""PyTorch: the two-layer net by hand on tensors, before autograd.

The lecture's listing after its import line is changed.
"""

from by_hand import check, train  # added

import prototorch as torch

dtype = torch.FloatTensor  # torch.cuda.FloatTensor on a GPU

N, D_in, H, D_out = 64, 1000, 100, 10
x = torch.randn(N, D_in).type(dtype)
y = torch.randn(N, D_out).type(dtype)
w1 = torch.randn(D_in, H).type(dtype)
w2 = torch.randn(H, D_out).type(dtype)
expected, weights = train(x, y, [w1, w2], steps=500, learning_rate=1e-6)  # added
losses = []  # added

learning_rate = 1e-6
for t in range(500):
    h = x.mm(w1)
    h_relu = h.clamp(min=0)
    y_pred = h_relu.mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.item())  # added

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.t().mm(grad_y_pred)
    grad_h_relu = grad_y_pred.mm(w2.t())
    grad_h = grad_h_relu.clone()
    grad_h[h < 0] = 0
    grad_w1 = x.t().mm(grad_h)

    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

check("the losses of 500 steps", losses, expected)  # added
check("w1 after them", w1, weights[0])  # added
check("w2 after them", w2, weights[1])  # added
