"""A net that draws its depth at each step: PyTorch's example of a dynamic graph, with shared weights."""

import random

import numpy as np
from by_hand import D_IN, D_OUT, H, check, net_data

import prototorch as torch


class DynamicNet(torch.nn.Module):
    def __init__(self, d_in, h, d_out):
        super().__init__()
        self.input_linear = torch.nn.Linear(d_in, h, bias=False)
        self.middle_linear = torch.nn.Linear(h, h, bias=False)
        self.output_linear = torch.nn.Linear(h, d_out, bias=False)
        self.depth = 0

    def forward(self, x):
        h_relu = self.input_linear(x).clamp(min=0)
        self.depth = random.randint(0, 3)
        for _ in range(self.depth):
            h_relu = self.middle_linear(h_relu).clamp(min=0)
        return self.output_linear(h_relu)


random.seed(0)
torch.manual_seed(0)
x, y, _, _ = (torch.from_numpy(array) for array in net_data())
model = DynamicNet(D_IN, H, D_OUT)
criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)


def by_hand(weights, depth):
    """The loss and the gradients of all three weights, in NumPy."""
    first, middle, last = (w.astype(np.float64).T for w in weights)
    steps = [first, *[middle] * depth]
    inputs, before = [x.numpy()], []
    for w in steps:
        before.append(inputs[-1] @ w)
        inputs.append(np.maximum(before[-1], 0))
    difference = inputs[-1] @ last - y.numpy()
    grad = 2 * difference @ last.T
    grads = [np.zeros_like(first), np.zeros_like(middle), inputs[-1].T @ (2 * difference)]
    for i in reversed(range(len(steps))):
        grad = grad * (before[i] > 0)
        grads[min(i, 1)] += inputs[i].T @ grad
        grad = grad @ steps[i].T
    return (difference**2).sum(), [g.T for g in grads]


losses = []
for t in range(300):
    y_pred = model(x)
    loss = criterion(y_pred, y)
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    if t < 5:
        expected, grads = by_hand([p.detach().numpy() for p in model.parameters()], model.depth)
        check(f"step {t}, depth {model.depth}: loss", loss.item(), expected, 1e-4)
        for (name, p), g in zip(model.named_parameters(), grads, strict=True):
            if p.grad is not None:
                check(f"  gradient of {name}", p.grad, g, 1e-3)
    optimizer.step()
print(f"loss {losses[0]:.1f} -> {np.mean(losses[-20:]):.3f}")
assert np.mean(losses[-20:]) < 0.1 * losses[0]
