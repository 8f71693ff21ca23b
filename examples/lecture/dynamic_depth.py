"""A net that draws its depth at each step: PyTorch's example of a dynamic graph, with shared weights.

Its listing after the import line is changed. The gradients of the first steps are compared with those by hand.
"""

import random

import numpy as np
from by_hand import ByHand, check  # added

import prototorch as torch


class DynamicNet(torch.nn.Module):
    def __init__(self, d_in, h, d_out):
        super().__init__()
        self.input_linear = torch.nn.Linear(d_in, h)
        self.middle_linear = torch.nn.Linear(h, h)
        self.output_linear = torch.nn.Linear(h, d_out)
        self.depth = 0

    def forward(self, x):
        h_relu = self.input_linear(x).clamp(min=0)
        self.depth = random.randint(0, 3)
        for _ in range(self.depth):
            h_relu = self.middle_linear(h_relu).clamp(min=0)
        return self.output_linear(h_relu)


def by_hand(weights, depth, dtype):
    """The loss and the gradients of all weights and biases, in NumPy."""
    w1, b1, w2, b2, w3, b3 = (w.astype(dtype).T for w in weights)
    layers = [(w1, b1), *[(w2, b2)] * depth]
    inputs, before = [x.numpy().astype(dtype)], []
    for w, b in layers:
        before.append(inputs[-1] @ w + b)
        inputs.append(np.maximum(before[-1], 0))
    difference = inputs[-1] @ w3 + b3 - y.numpy()
    grad = 2 * difference
    grads = [np.zeros_like(w) for w in (w1, b1, w2, b2)] + [inputs[-1].T @ grad, grad.sum(0)]
    grad = grad @ w3.T
    for i in reversed(range(len(layers))):
        grad = grad * (before[i] > 0)
        grads[2 * min(i, 1)] += inputs[i].T @ grad
        grads[2 * min(i, 1) + 1] += grad.sum(0)
        grad = grad @ layers[i][0].T
    return [np.square(difference).sum(), *(g.T for g in grads)]


random.seed(0)
torch.manual_seed(0)
N, D_in, H, D_out = 64, 1000, 100, 10
x = torch.randn(N, D_in)
y = torch.randn(N, D_out)
model = DynamicNet(D_in, H, D_out)
criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

losses = []
for t in range(500):
    y_pred = model(x)
    loss = criterion(y_pred, y)
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    if t < 8:  # added
        arrays = [p.detach().numpy().copy() for p in model.parameters()]
        exact, rounded = (by_hand(arrays, model.depth, dtype) for dtype in (np.float64, np.float32))
        check(f"step {t}, depth {model.depth}: loss", loss.item(), ByHand(exact[0], rounded[0]))
        for (name, p), a, b in zip(model.named_parameters(), exact[1:], rounded[1:], strict=True):
            if p.grad is not None:
                check(f"  gradient of {name}", p.grad, ByHand(a, b))
            else:
                assert model.depth == 0
                assert name.startswith("middle")
    optimizer.step()
print(f"loss {losses[0]:.1f} -> {np.mean(losses[-20:]):.3f}")
assert np.mean(losses[-20:]) < 0.1 * losses[0]
