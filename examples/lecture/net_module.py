"""The two-layer net as a Module of its own, trained with SGD."""

from by_hand import D_IN, D_OUT, H, check, net_data, train

import prototorch as torch


class TwoLayerNet(torch.nn.Module):
    def __init__(self, d_in, h, d_out):
        super().__init__()
        self.linear1 = torch.nn.Linear(d_in, h, bias=False)
        self.linear2 = torch.nn.Linear(h, d_out, bias=False)

    def forward(self, x):
        h_relu = self.linear1(x).clamp(min=0)
        return self.linear2(h_relu)


x, y, w1, w2 = net_data()
w1, w2 = w1 / 30, w2 / 10
expected, _, _ = train(x, y, w1, w2, steps=200, learning_rate=1e-4)
x, y = torch.from_numpy(x), torch.from_numpy(y)

model = TwoLayerNet(D_IN, H, D_OUT)
state = {"linear1.weight": torch.from_numpy(w1.T.copy()), "linear2.weight": torch.from_numpy(w2.T.copy())}
model.load_state_dict(state)
criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
losses = []
for t in range(200):
    y_pred = model(x)
    loss = criterion(y_pred, y)
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

check("the losses of 200 steps", losses, expected)
