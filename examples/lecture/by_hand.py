"""The hand-written NumPy versions that every program of this folder is checked against.

The data come from one seed, so that all programs have the same.
"""

from __future__ import annotations

import numpy as np

N, D_IN, H, D_OUT = 64, 1000, 100, 10


def graph_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and z of the graph ``c = sum(x * y + z)``, [3, 4] each."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    return x, y, z


def graph_gradients(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """c and its gradients with respect to x, y and z, by hand."""
    a = x * y
    b = a + z
    c = np.sum(b)
    grad_c = np.float32(1)
    grad_b = grad_c * np.ones_like(b)
    grad_a, grad_z = grad_b.copy(), grad_b.copy()
    return float(c), grad_a * y, grad_a * x, grad_z


def net_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y and the two weights of the two-layer net (64, 1000, 100, 10)."""
    rng = np.random.default_rng(0)
    shapes = (N, D_IN), (N, D_OUT), (D_IN, H), (H, D_OUT)
    x, y, w1, w2 = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return x, y, w1, w2


def train(
    x: np.ndarray,
    y: np.ndarray,
    w1: np.ndarray,
    w2: np.ndarray,
    steps: int,
    learning_rate: float,
    mean: bool = False,
    rule: str = "sgd",
) -> tuple[list[float], np.ndarray, np.ndarray]:
    """The losses before each step, and the weights after all. The loss is the squared error, summed or (mean) averaged;
    rule: "sgd" or "adam" (Kingma and Ba, 2015)."""
    w1, w2 = w1.astype(np.float64), w2.astype(np.float64)
    scale = 1 / y.size if mean else 1.0
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in (w1, w2)]
    losses = []
    for t in range(1, steps + 1):
        h = x @ w1
        h_relu = np.maximum(h, 0)
        y_pred = h_relu @ w2
        losses.append(float(np.square(y_pred - y).sum() * scale))
        grad_y_pred = 2.0 * (y_pred - y) * scale
        grad_w2 = h_relu.T @ grad_y_pred
        grad_h = grad_y_pred @ w2.T
        grad_h[h < 0] = 0
        grad_w1 = x.T @ grad_h
        updates = []
        for (m, v), grad in zip(moments, (grad_w1, grad_w2), strict=True):
            m += 0.1 * (grad - m)
            v += 0.001 * (grad * grad - v)
            adam = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            updates.append(learning_rate * (adam if rule == "adam" else grad))
        w1, w2 = w1 - updates[0], w2 - updates[1]
    return losses, w1, w2


def check(what: str, found: object, expected: object, tolerance: float = 2e-3) -> None:
    """Print that two results agree. Raises AssertionError where they do not.

    tolerance: relative to the largest number: sums of 1000 float32 products, over hundreds of steps.
    """
    a, b = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    error = float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-30))
    assert error <= tolerance, f"{what}: differs by {error:.2g} from the NumPy version"
    print(f"{what}: as by hand (largest difference {error:.1e})")
