"""Cases of sampling pictures through affine maps: a plain loop over pixels."""

import math

import numpy as np

from tests.ops.op_case import case, normal


def place(at, size, mode):
    """The pixel that stands for a place on one axis, None for the fill value."""
    if mode == "constant":
        return at if 0 <= at < size else None
    while not 0 <= at < size:
        if mode == "nearest":
            at = 0 if at < 0 else size - 1
        elif mode == "wrap":
            at += size if at < 0 else -size
        else:
            at = -1 - at if at < 0 else 2 * size - 1 - at
    return at


def read(matrix, h, w, interpolation):
    """For each output pixel, the input places with their weights."""
    for i in range(h):
        for j in range(w):
            y, x = (float(row @ [i, j, 1]) for row in matrix)
            if interpolation == "nearest":
                yield i, j, [(round(y), round(x), 1.0)]
                continue
            a, b = math.floor(y), math.floor(x)
            corners = [(a + p, b + q) for p in (0, 1) for q in (0, 1)]
            yield i, j, [(p, q, (1 - abs(y - p)) * (1 - abs(x - q))) for p, q in corners]


def sample(x, matrices, fill_mode="reflect", fill_value=0.0, interpolation="bilinear"):
    out = np.zeros_like(x)
    h, w = x.shape[2:]
    for n in range(x.shape[0]):
        for i, j, corners in read(matrices[n], h, w, interpolation):
            for p, q, weight in corners:
                p, q = place(p, h, fill_mode), place(q, w, fill_mode)
                out[n, :, i, j] += weight * (fill_value if p is None or q is None else x[n, :, p, q])
    return out


def spread(g, matrices, fill_mode="reflect", fill_value=0.0, interpolation="bilinear"):
    out = np.zeros_like(g)
    h, w = g.shape[2:]
    for n in range(g.shape[0]):
        for i, j, corners in read(matrices[n], h, w, interpolation):
            for p, q, weight in corners:
                p, q = place(p, h, fill_mode), place(q, w, fill_mode)
                if p is not None and q is not None:
                    out[n, :, p, q] += weight * g[n, :, i, j]
    return out


for mode in ("constant", "nearest", "reflect", "wrap"):
    for interpolation in ("bilinear", "nearest"):
        for shape in [(2, 2, 4, 5), (1, 1, 1, 1), (0, 1, 2, 2), (2, 1, 1, 3), (1, 3, 5, 2)]:
            matrices = normal(shape[0], 2, 3, seed=4) + np.array([[1.0, 0, 0.3], [0, 1.0, -0.4]])
            attrs = {"fill_mode": mode, "fill_value": 0.5, "interpolation": interpolation}
            for name, oracle in {"affine_sample": sample, "affine_sample_grad": spread}.items():
                case(name, normal(*shape), matrices, attrs=attrs, oracle=oracle, constant=(1,), kept=(1,))
