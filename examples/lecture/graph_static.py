"""The graph c = sum(x * y + z) in its static form: written down once, then run with arrays."""

from by_hand import check, graph_data, graph_gradients

import prototorch as pt

x = pt.Input((4,))
y = pt.Input((4,))
z = pt.Input((4,))

a = x * y
b = a + z
c = b.sum()

grad_x, grad_y, grad_z = pt.gradients(c, [x, y, z])
graph = pt.Graph([x, y, z], [c, grad_x, grad_y, grad_z])

values = graph_data()
for what, found, expected in zip(("c", "grad x", "grad y", "grad z"), graph(*values), graph_gradients(*values)):
    check(what, found, expected, 1e-6)
