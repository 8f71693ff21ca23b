"""PyTorch: the graph c = sum(x * y + z) with autograd.

The lecture's listing after its import lines are changed; it is on the GPU where there is one.
"""

from by_hand import check, graph_gradients  # added

import prototorch as torch
from prototorch.autograd import Variable

N, D = 3, 4

for device in (
    "cpu",
    *(["cuda"] if torch.cuda.is_available() else []),
):  # added: the lecture's second listing has .cuda()
    x = Variable(torch.randn(N, D).to(device), requires_grad=True)
    y = Variable(torch.randn(N, D).to(device), requires_grad=True)
    z = Variable(torch.randn(N, D).to(device), requires_grad=True)

    a = x * y
    b = a + z
    c = torch.sum(b)

    c.backward()

    expected = graph_gradients(x.detach().cpu(), y.detach().cpu(), z.detach().cpu())  # added
    numbers = c.item(), x.grad.data.cpu(), y.grad.data.cpu(), z.grad.data.cpu()  # added
    for what, one, by_hand in zip(("c", "grad x", "grad y", "grad z"), numbers, expected):  # added
        check(f"{what} on {device}", one, by_hand)  # added
