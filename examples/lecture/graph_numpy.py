"""The graph c = sum(x * y + z) in NumPy, with its gradients by hand."""

import numpy as np
from by_hand import check, graph_data

x, y, z = graph_data()

a = x * y
b = a + z
c = np.sum(b)

grad_c = 1.0
grad_b = grad_c * np.ones((3, 4))
grad_a = grad_b.copy()
grad_z = grad_b.copy()
grad_x = grad_a * y
grad_y = grad_a * x

step = 1e-3  # a check by differences
moved = x.copy()
moved[0, 0] += step
check("d c / d x[0, 0]", (np.sum(moved * y + z) - c) / step, grad_x[0, 0])
