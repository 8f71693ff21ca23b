"""PyTorch: the two-layer net with a ReLU of its own, an autograd function: in the lecture's form and in today's.

The lecture's listing after its import lines are changed; the second form is added.
"""

from by_hand import check, train  # added

import prototorch as torch
from prototorch.autograd import Variable


class ReLU(torch.autograd.Function):
    """The lecture's form: an object for each call."""

    def forward(self, x):
        self.save_for_backward(x)
        return x.clamp(min=0)

    def backward(self, grad_y):
        (x,) = self.saved_tensors
        grad_input = grad_y.clone()
        grad_input[x < 0] = 0
        return grad_input


class StaticReLU(torch.autograd.Function):
    """Today's form: static methods, and a context."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved_tensors
        grad_input = grad_y.clone()
        grad_input[x < 0] = 0
        return grad_input


N, D_in, H, D_out = 64, 1000, 100, 10
for name, relu in (("ReLU()", lambda x: ReLU()(x)), ("StaticReLU.apply", StaticReLU.apply)):  # added
    x = Variable(torch.randn(N, D_in), requires_grad=False)
    y = Variable(torch.randn(N, D_out), requires_grad=False)
    w1 = Variable(torch.randn(D_in, H), requires_grad=True)
    w2 = Variable(torch.randn(H, D_out), requires_grad=True)
    expected, weights = train(x, y, [w1.data, w2.data], steps=500, learning_rate=1e-6)  # added
    losses = []  # added

    learning_rate = 1e-6
    for t in range(500):
        y_pred = relu(x.mm(w1)).mm(w2)
        loss = (y_pred - y).pow(2).sum()
        losses.append(loss.data.item())  # added

        if w1.grad is not None:
            w1.grad.data.zero_()
        if w2.grad is not None:
            w2.grad.data.zero_()
        loss.backward()

        w1.data -= learning_rate * w1.grad.data
        w2.data -= learning_rate * w2.grad.data

    check(f"the losses of 500 steps with {name}", losses, expected)  # added
    check("w1 after them", w1.data, weights[0])  # added
    check("w2 after them", w2.data, weights[1])  # added
