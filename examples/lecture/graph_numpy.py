"""The graph c = sum(x * y + z) in NumPy, with its gradients by hand: the lecture's listing.

It has no twin, for it is the version by hand: a gradient is compared with a difference quotient.
"""

import numpy as np
from by_hand import check  # added

np.random.seed(0)

N, D = 3, 4

x = np.random.randn(N, D)
y = np.random.randn(N, D)
z = np.random.randn(N, D)

a = x * y
b = a + z
c = np.sum(b)

grad_c = 1.0
grad_b = grad_c * np.ones((N, D))
grad_a = grad_b.copy()
grad_z = grad_b.copy()
grad_x = grad_a * y
grad_y = grad_a * x

for name, value, gradient in (("x", x, grad_x), ("y", y, grad_y), ("z", z, grad_z)):  # added
    quotients = np.empty((N, D))  # added
    for at in np.ndindex(N, D):  # added
        before = value[at]  # added
        value[at] = before + 1.0  # added: c is linear in each number
        quotients[at] = np.sum(x * y + z) - c  # added
        value[at] = before  # added
    check(f"grad {name}", gradient, quotients)  # added
