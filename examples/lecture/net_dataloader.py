"""PyTorch: the module TwoLayerNet with a DataLoader of minibatches of 8, ten epochs.

The lecture's listing after its import lines are changed. Adapted: size_average=False of PyTorch 0.1 is reduction="sum";
the old word is taken, too, with a warning.
"""

from by_hand import check, linear_weights, train  # added

import prototorch as torch
from prototorch.autograd import Variable
from prototorch.utils.data import DataLoader, TensorDataset


class TwoLayerNet(torch.nn.Module):
    def __init__(self, D_in, H, D_out):
        super().__init__()
        self.linear1 = torch.nn.Linear(D_in, H)
        self.linear2 = torch.nn.Linear(H, D_out)

    def forward(self, x):
        h_relu = self.linear1(x).clamp(min=0)
        return self.linear2(h_relu)


N, D_in, H, D_out = 64, 1000, 100, 10
x = torch.randn(N, D_in)
y = torch.randn(N, D_out)

loader = DataLoader(TensorDataset(x, y), batch_size=8)

model = TwoLayerNet(D_in, H, D_out)

criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
start = linear_weights(model.linear1, model.linear2)  # added
losses = []  # added
for epoch in range(10):
    for x_batch, y_batch in loader:
        x_var, y_var = Variable(x_batch), Variable(y_batch)
        y_pred = model(x_var)
        loss = criterion(y_pred, y_var)
        losses.append(loss.data.item())  # added

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

expected, weights = train(x, y, start, steps=80, learning_rate=1e-4, batch_size=8)  # added
check("the losses of 80 minibatches in ten epochs", losses, expected)  # added
for what, one, by_hand in zip(("w1", "b1", "w2", "b2"), linear_weights(model.linear1, model.linear2), weights):  # added
    check(f"{what} after them", one, by_hand)  # added
