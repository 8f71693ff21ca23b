"""The two-layer net with a ReLU of its own: forward and backward as a Function, in today's form and in that of 0.1."""

from by_hand import check, net_data, train

import prototorch as torch


class ReLU(torch.autograd.Function):
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


class OldReLU(torch.autograd.Function):
    """The lecture's form: an object for each call."""

    def forward(self, x):
        self.save_for_backward(x)
        return x.clamp(min=0)

    def backward(self, grad_y):
        (x,) = self.saved_tensors
        grad_input = grad_y.clone()
        grad_input[x < 0] = 0
        return grad_input


expected, _, _ = train(*net_data(), steps=100, learning_rate=1e-6)
for name, relu in (("ReLU.apply", ReLU.apply), ("OldReLU()", lambda x: OldReLU()(x))):
    x, y, w1, w2 = (torch.tensor(array) for array in net_data())
    w1.requires_grad_()
    w2.requires_grad_()
    losses = []
    for t in range(100):
        y_pred = relu(x.mm(w1)).mm(w2)
        loss = (y_pred - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for w in (w1, w2):
                w -= 1e-6 * w.grad
                w.grad.zero_()
    check(f"the losses of 100 steps with {name}", losses, expected)
