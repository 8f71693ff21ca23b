"""The graph c = sum(x * y + z) in its static form: written down once, then run with arrays.

Adapted: placeholders are inputs, which list all sizes but the first, and a session's run is a call of the graph.
"""

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
out = graph(*values)
for what, one, by_hand in zip(("c", "grad x", "grad y", "grad z"), out, graph_gradients(*values)):
    check(what, one, by_hand)
