"""The two-layer net with autograd, in the words of PyTorch 0.1: Variable, .data, .grad.data.zero_()."""

from by_hand import check, net_data, train

import prototorch as torch
from prototorch.autograd import Variable

dtype = torch.FloatTensor

tensors = [torch.from_numpy(array).type(dtype) for array in net_data()]
x = Variable(tensors[0], requires_grad=False)
y = Variable(tensors[1], requires_grad=False)
w1 = Variable(tensors[2].clone(), requires_grad=True)
w2 = Variable(tensors[3].clone(), requires_grad=True)
expected, _, _ = train(*net_data(), steps=500, learning_rate=1e-6)

learning_rate = 1e-6
losses = []
for t in range(500):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    losses.append(loss.data.item())

    if w1.grad is not None:
        w1.grad.data.zero_()
        w2.grad.data.zero_()
    loss.backward()

    w1.data -= learning_rate * w1.grad.data
    w2.data -= learning_rate * w2.grad.data

check("the losses of 500 steps", losses, expected)
