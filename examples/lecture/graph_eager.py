"""The graph c = sum(x * y + z) in its eager form, on the CPU and, where there is one, on the GPU."""

from by_hand import check, graph_data, graph_gradients

import prototorch as torch

for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
    x, y, z = (torch.tensor(array, device=device, requires_grad=True) for array in graph_data())

    a = x * y
    b = a + z
    c = torch.sum(b)
    c.backward()

    found = c.item(), x.grad.cpu(), y.grad.cpu(), z.grad.cpu()
    for what, one, expected in zip(("c", "grad x", "grad y", "grad z"), found, graph_gradients(*graph_data())):
        check(f"{what} on {device}", one, expected, 1e-6)
