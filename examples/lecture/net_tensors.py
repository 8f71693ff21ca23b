"""The two-layer net by hand on tensors: PyTorch before autograd."""

from by_hand import check, net_data, train

import prototorch as torch

dtype = torch.FloatTensor  # torch.cuda.FloatTensor on a GPU

x, y, w1, w2 = (torch.from_numpy(array).type(dtype) for array in net_data())
expected, _, _ = train(*net_data(), steps=500, learning_rate=1e-6)

learning_rate = 1e-6
losses = []
for t in range(500):
    h = x.mm(w1)
    h_relu = h.clamp(min=0)
    y_pred = h_relu.mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.item())

    grad_y_pred = 2.0 * (y_pred - y)
    grad_w2 = h_relu.t().mm(grad_y_pred)
    grad_h_relu = grad_y_pred.mm(w2.t())
    grad_h = grad_h_relu.clone()
    grad_h[h < 0] = 0
    grad_w1 = x.t().mm(grad_h)

    w1 -= learning_rate * grad_w1
    w2 -= learning_rate * grad_w2

check("the losses of 500 steps", losses, expected)
