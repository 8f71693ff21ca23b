"""The two-layer net as nn.Sequential, with a loss of nn."""

from by_hand import D_IN, D_OUT, H, check, net_data, train

import prototorch as torch

x, y, w1, w2 = net_data()
w1, w2 = w1 / 30, w2 / 10
expected, _, _ = train(x, y, w1, w2, steps=200, learning_rate=1e-4)
x, y = torch.from_numpy(x), torch.from_numpy(y)

model = torch.nn.Sequential(
    torch.nn.Linear(D_IN, H, bias=False), torch.nn.ReLU(), torch.nn.Linear(H, D_OUT, bias=False)
)
model.load_state_dict({"0.weight": torch.from_numpy(w1.T.copy()), "2.weight": torch.from_numpy(w2.T.copy())})
loss_fn = torch.nn.MSELoss(reduction="sum")  # size_average=False in PyTorch 0.1

learning_rate = 1e-4
losses = []
for t in range(200):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    losses.append(loss.item())

    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= learning_rate * param.grad

check("the losses of 200 steps", losses, expected)
