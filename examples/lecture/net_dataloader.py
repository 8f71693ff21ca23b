"""The two-layer net with a DataLoader of minibatches of 8."""

import numpy as np
from by_hand import D_IN, D_OUT, H, check, net_data, train

import prototorch as torch
from prototorch.utils.data import DataLoader, TensorDataset

x, y, w1, w2 = net_data()
w1, w2 = w1 / 30, w2 / 10
expected = []
a, b = w1, w2
for epoch in range(3):
    for start in range(0, len(x), 8):
        loss, a, b = train(x[start : start + 8], y[start : start + 8], a, b, steps=1, learning_rate=1e-4)
        expected += loss

model = torch.nn.Sequential(
    torch.nn.Linear(D_IN, H, bias=False), torch.nn.ReLU(), torch.nn.Linear(H, D_OUT, bias=False)
)
model.load_state_dict({"0.weight": torch.from_numpy(w1.T.copy()), "2.weight": torch.from_numpy(w2.T.copy())})
loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
losses = []
for epoch in range(3):
    for x_batch, y_batch in loader:
        y_pred = model(x_batch)
        loss = torch.nn.functional.mse_loss(y_pred, y_batch, reduction="sum")
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

assert len(losses) == 3 * 8
check("the losses of 24 minibatches", np.array(losses), expected)
