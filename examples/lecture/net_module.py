"""PyTorch: the two-layer net as a module of its own, trained with SGD.

The lecture's listing after its import lines are changed. Adapted: size_average=False of PyTorch 0.1 is reduction="sum";
the old word is taken, too, with a warning.
"""

from by_hand import check, linear_weights, train  # added

import prototorch as torch
from prototorch.autograd import Variable


class TwoLayerNet(torch.nn.Module):
    def __init__(self, D_in, H, D_out):
        super().__init__()
        self.linear1 = torch.nn.Linear(D_in, H)
        self.linear2 = torch.nn.Linear(H, D_out)

    def forward(self, x):
        h_relu = self.linear1(x).clamp(min=0)
        return self.linear2(h_relu)


N, D_in, H, D_out = 64, 1000, 100, 10
x = Variable(torch.randn(N, D_in))
y = Variable(torch.randn(N, D_out), requires_grad=False)

model = TwoLayerNet(D_in, H, D_out)

criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
start = linear_weights(model.linear1, model.linear2)  # added
losses = []  # added
for t in range(500):
    y_pred = model(x)
    loss = criterion(y_pred, y)
    losses.append(loss.data.item())  # added

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

expected, weights = train(x, y, start, steps=500, learning_rate=1e-4)  # added
check("the losses of 500 steps", losses, expected)  # added
for what, one, by_hand in zip(("w1", "b1", "w2", "b2"), linear_weights(model.linear1, model.linear2), weights):  # added
    check(f"{what} after them", one, by_hand)  # added
