"""The hand-written NumPy versions that the programs of this folder are checked against, number by number.

Each version is computed twice: in float64, which is the truth, and in float32, whose distance from it says what
rounding alone does to each number of such a program. A program may be as far away as `SLACK` times that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SLACK = 10  # other orders of summation than NumPy's round otherwise
EPSILON = float(np.finfo(np.float32).eps)


@dataclass
class ByHand:
    """Numbers by hand. exact: in float64. rounded: the same in float32. is_series: one number a step, whose rounding
    errors grow from step to step, relative to the number; else an array, whose elements have one rounding error."""

    exact: np.ndarray
    rounded: np.ndarray
    is_series: bool = False

    def tolerance(self) -> np.ndarray:
        """The largest difference from each number that rounding explains."""
        error, size = np.abs(self.rounded - self.exact), np.abs(self.exact)
        if self.is_series:
            relative = np.maximum.accumulate(error / np.maximum(size, 1e-300))
            return (SLACK * relative + SLACK * EPSILON) * size
        return SLACK * error.max(initial=0) + SLACK * EPSILON * np.maximum(size, size.mean())


def check(what: str, found: Any, expected: Any, twin: str = "by hand") -> None:
    """Print that numbers agree with those by hand, each of them. Raises AssertionError where one does not.

    expected: a `ByHand`, or an array that float32 could hold to its last digits. twin: where the numbers are from.
    """
    if not isinstance(expected, ByHand):
        exact = np.asarray(expected, dtype=np.float64)
        expected = ByHand(exact, exact.astype(np.float32).astype(np.float64))
    a, b = np.asarray(found, dtype=np.float64), np.asarray(expected.exact)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    error, tolerance = np.abs(a - b), expected.tolerance()
    differs = ~(error <= tolerance)  # a NaN differs
    if differs.any():
        at = tuple(int(i) for i in np.argwhere(differs)[0])
        raise AssertionError(
            f"{what}: {differs.sum()} of {differs.size} numbers are not as {twin}; the first at {at} is "
            f"{a[at]:.6g}, {twin} {b[at]:.6g}, and rounding explains {np.broadcast_to(tolerance, b.shape)[at]:.1e}"
        )
    share = float((error / tolerance).max(initial=0))
    last = f", the last {a[-1]:.6g}, {twin} {b[-1]:.6g}" if expected.is_series else ""
    print(f"{what}: as {twin} ({a.size} numbers, at most {share:.0%} of what rounding explains{last})")


def graph_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and z of the graph ``c = sum(x * y + z)``, [3, 4] each."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    return x, y, z


def graph_gradients(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """c and its gradients with respect to x, y and z, by hand."""
    x, y, z = (np.asarray(v, np.float64) for v in (x, y, z))
    a = x * y
    b = a + z
    c = np.sum(b)
    grad_c = 1.0
    grad_b = grad_c * np.ones_like(b)
    grad_a, grad_z = grad_b.copy(), grad_b.copy()
    return float(c), grad_a * y, grad_a * x, grad_z


def train(
    x: Any,
    y: Any,
    weights: Any,
    steps: int,
    learning_rate: float,
    loss: str = "sum",
    rule: str = "sgd",
    batch_size: int | None = None,
) -> tuple[ByHand, list[ByHand]]:
    """The losses before each step of the two-layer net, and its weights after the last.

    weights: w1 and w2, [inputs, outputs] each, or w1, b1, w2, b2. loss: of the squared errors the "sum", the "mean", or
    the "mean of sums" over the samples. rule: "sgd" or "adam" (Kingma and Ba, 2015). batch_size: of the minibatches, in
    order; None: all samples.
    """
    results = []
    for dtype in (np.float64, np.float32):
        arrays = [np.asarray(v).astype(dtype) for v in (x, y, *weights)]
        losses, trained = _train(arrays[0], arrays[1], arrays[2:], steps, dtype(learning_rate), loss, rule, batch_size)
        results.append((np.array(losses, np.float64), [w.astype(np.float64) for w in trained]))
    (exact, exact_weights), (rounded, rounded_weights) = results
    both = zip(exact_weights, rounded_weights, strict=True)
    return ByHand(exact, rounded, is_series=True), [ByHand(a, b) for a, b in both]


def _train(x, y, weights, steps, learning_rate, loss, rule, batch_size):
    number = type(learning_rate)
    moments = [[np.zeros_like(w), np.zeros_like(w)] for w in weights]
    losses = []
    for t in range(steps):
        batch = slice(None) if batch_size is None else slice((start := t * batch_size % len(x)), start + batch_size)
        value, gradients = loss_and_gradients(x[batch], y[batch], weights, loss)
        losses.append(value)
        for i, (gradient, (m, v)) in enumerate(zip(gradients, moments, strict=True)):
            update = gradient
            if rule == "adam":
                m += number(0.1) * (gradient - m)
                v += number(0.001) * (gradient * gradient - v)
                m_hat, v_hat = m / (1 - number(0.9) ** (t + 1)), v / (1 - number(0.999) ** (t + 1))
                update = m_hat / (np.sqrt(v_hat) + number(1e-8))
            weights[i] = weights[i] - learning_rate * update
    return losses, weights


def loss_and_gradients(x, y, weights, loss="sum"):
    """The loss of the two-layer net, and its gradients with respect to the weights, by hand."""
    has_bias = len(weights) == 4
    w1, b1, w2, b2 = weights if has_bias else (weights[0], 0, weights[1], 0)
    h = x @ w1 + b1
    h_relu = np.maximum(h, 0)
    y_pred = h_relu @ w2 + b2
    scale = x.dtype.type({"sum": 1, "mean": 1 / y.size, "mean of sums": 1 / len(y)}[loss])
    value = np.square(y_pred - y).sum() * scale
    grad_y_pred = 2 * scale * (y_pred - y)
    grad_w2 = h_relu.T @ grad_y_pred
    grad_h_relu = grad_y_pred @ w2.T
    grad_h = grad_h_relu.copy()
    grad_h[h < 0] = 0
    grad_w1 = x.T @ grad_h
    gradients = [grad_w1, grad_h.sum(axis=0), grad_w2, grad_y_pred.sum(axis=0)]
    return float(value), gradients if has_bias else [grad_w1, grad_w2]


def linear_weights(*layers: Any) -> list[np.ndarray]:
    """The weights and biases of `nn.Linear` modules, as the NumPy version has them: [inputs, outputs]."""
    return [np.array(a) for layer in layers for a in (layer.weight.detach().numpy().T, layer.bias.detach().numpy())]
