"""PyTorch: the two-layer net with an optimizer, Adam.

The lecture's listing after its import lines are changed. Adapted: size_average=False of PyTorch 0.1 is reduction="sum";
the old word is taken, too, with a warning.
"""

from by_hand import check, linear_weights, train  # added

import prototorch as torch
from prototorch.autograd import Variable

N, D_in, H, D_out = 64, 1000, 100, 10
x = Variable(torch.randn(N, D_in))
y = Variable(torch.randn(N, D_out), requires_grad=False)

model = torch.nn.Sequential(torch.nn.Linear(D_in, H), torch.nn.ReLU(), torch.nn.Linear(H, D_out))
loss_fn = torch.nn.MSELoss(reduction="sum")
start = linear_weights(model[0], model[2])  # added
losses = []  # added

learning_rate = 1e-4
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
for t in range(500):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    losses.append(loss.data.item())  # added

    optimizer.zero_grad()
    loss.backward()

    optimizer.step()

expected, weights = train(x, y, start, steps=500, learning_rate=1e-4, rule="adam")  # added
check("the losses of 500 steps", losses, expected)  # added
for what, one, by_hand in zip(("w1", "b1", "w2", "b2"), linear_weights(model[0], model[2]), weights):  # added
    check(f"{what} after them", one, by_hand)  # added
