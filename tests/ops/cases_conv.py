"""Cases of convolution, against PyTorch in float64, and of pooling, by a plain loop over the windows."""

import math
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from tests.ops.op_case import case, normal

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def conv(x, w, strides, pads, dilation, groups=1):
    padded = F.pad(x, [p for pair in reversed(pads) for p in pair])
    return CONV[len(strides)](padded, w, stride=strides, dilation=dilation, groups=groups)


def forward(x, w, **attrs):
    return conv(torch.tensor(x), torch.tensor(w), **attrs).numpy()


def input_grad(g, w, size, groups=1, **attrs):
    x = torch.zeros(g.shape[0], w.shape[1] * groups, *size, dtype=torch.float64, requires_grad=True)
    conv(x, torch.tensor(w), groups=groups, **attrs).backward(torch.tensor(g))
    return x.grad.numpy()


def weight_grad(x, g, kernel, groups=1, **attrs):
    w = torch.zeros(g.shape[1], x.shape[1] // groups, *kernel, dtype=torch.float64, requires_grad=True)
    conv(torch.tensor(x), w, groups=groups, **attrs).backward(torch.tensor(g))
    return w.grad.numpy()


# batch, channels, size, filters, kernel, strides, pads, dilation, groups
LAYOUTS = [
    (2, 3, (5,), 4, (3,), (1,), ((1, 1),), (1,), 1),
    (1, 2, (7,), 2, (2,), (3,), ((0, 2),), (2,), 1),
    (2, 3, (5, 6), 4, (3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    (1, 1, (1, 1), 1, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    (2, 4, (7, 5), 6, (3, 3), (2, 3), ((1, 2), (0, 1)), (1, 1), 2),
    (2, 3, (6, 5), 3, (2, 3), (2, 1), ((1, 0), (2, 2)), (2, 2), 3),
    (1, 2, (8, 8), 2, (1, 1), (3, 3), ((0, 0), (0, 0)), (1, 1), 1),
    (0, 2, (4, 4), 3, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    (1, 2, (3, 4, 3), 2, (2, 2, 2), (1, 2, 1), ((0, 1), (1, 0), (0, 0)), (1, 1, 1), 1),
]
for n, c, size, f, kernel, strides, pads, dilation, groups in LAYOUTS:
    attrs = {"strides": strides, "pads": pads, "dilation": dilation, "groups": groups}
    x, w = normal(n, c, *size), normal(f, c // groups, *kernel, seed=1)
    g = normal(*forward(x, w, **attrs).shape, seed=2)
    case("conv", x, w, attrs=attrs, oracle=forward)
    case("conv_input_grad", g, w, attrs={"size": size, **attrs}, oracle=input_grad)
    case("conv_weight_grad", x, g, attrs={"kernel": kernel, **attrs}, oracle=weight_grad)


def windows(size, kernel, strides, pads, ceil):
    """For each place of the output, its window: (number within it, place in the input, whether that is inside)."""
    counts = []
    for n, k, s, (lo, hi) in zip(size, kernel, strides, pads, strict=True):
        many = 1 + (-(-(n + lo + hi - k) // s) if ceil else (n + lo + hi - k) // s)
        counts.append(many - 1 if ceil and (many - 1) * s >= n + lo else many)
    for place in product(*map(range, counts)):
        seen = []
        for number, offset in enumerate(product(*map(range, kernel))):
            at = tuple(p * s - lo + o for p, s, (lo, _), o in zip(place, strides, pads, offset, strict=True))
            seen.append((number, at, all(0 <= a < n for a, n in zip(at, size, strict=True))))
        yield place, seen
    yield None, counts


def pooled(x, kernel, strides, pads, ceil, each):
    """``each(plane, places of a window)`` for every window of every plane."""
    *places, (_, counts) = windows(x.shape[2:], kernel, strides, pads, ceil)
    out = np.empty((*x.shape[:2], *counts), object)
    for n, c in np.ndindex(*x.shape[:2]):
        for place, seen in places:
            out[(n, c, *place)] = each(x[n, c], seen)
    return out


def largest(x, kernel, strides, pads, ceil=False):
    def each(plane, seen):
        best = None
        for number, at, inside in seen:
            if inside and (best is None or plane[at] > best[0] or (np.isnan(plane[at]) and not np.isnan(best[0]))):
                best = plane[at], number
        return best

    made = pooled(x, kernel, strides, pads, ceil, each)
    return (
        np.array([b[0] for b in made.flat], x.dtype).reshape(made.shape),
        np.array([b[1] for b in made.flat], "int32").reshape(made.shape),
    )


def average(x, kernel, strides, pads, ceil=False, include_pad=False):
    def each(plane, seen):
        full = [n + hi for n, (_, hi) in zip(plane.shape, pads, strict=True)]
        counted = [a for _, at, _ in seen for a in [at] if all(p < m for p, m in zip(at, full, strict=True))]
        inside = [at for _, at, ok in seen if ok]
        return sum(plane[at] for at in inside) / (len(counted) if include_pad else len(inside))

    return pooled(x, kernel, strides, pads, ceil, each).astype(float)


def max_back(g, number, size, kernel, strides, pads, ceil=False):
    *places, _ = windows(size, kernel, strides, pads, ceil)
    out = np.zeros((*g.shape[:2], *size))
    for n, c in np.ndindex(*g.shape[:2]):
        for place, seen in places:
            out[(n, c, *seen[number[(n, c, *place)]][1])] += g[(n, c, *place)]
    return out


def pick(x, number, kernel, strides, pads, ceil=False):
    *places, _ = windows(x.shape[2:], kernel, strides, pads, ceil)
    out = np.zeros(number.shape)
    for n, c in np.ndindex(*x.shape[:2]):
        for place, seen in places:
            out[(n, c, *place)] = x[(n, c, *seen[number[(n, c, *place)]][1])]
    return out


def average_back(g, size, **attrs):
    out = np.zeros((*g.shape[:2], *size))
    flat = out.reshape(*g.shape[:2], math.prod(size))
    for i in range(flat.shape[2]):
        probe = np.zeros((1, 1, flat.shape[2]))
        probe[0, 0, i] = 1
        share = average(probe.reshape(1, 1, *size), **attrs)
        flat[:, :, i] = (g * share).sum(axis=tuple(range(2, g.ndim)))
    return out


POOLS = [
    ((2, 3, 5), (2,), (2,), ((0, 0),), False),
    ((1, 2, 5, 7), (3, 2), (2, 2), ((1, 1), (0, 1)), False),
    ((1, 2, 6, 7), (3, 3), (2, 2), ((1, 1), (0, 1)), True),
    ((2, 1, 4, 4), (1, 1), (3, 3), ((0, 0), (0, 0)), True),
    ((0, 2, 4, 4), (2, 2), (1, 1), ((0, 0), (1, 1)), False),
    ((1, 1, 3, 4, 3), (2, 2, 3), (1, 2, 1), ((0, 1), (1, 0), (1, 1)), False),
    ((1, 1, 5, 5), (3, 3), (2, 2), ((0, 0), (0, 0)), True),
]
for shape, kernel, strides, pads, ceil in POOLS:
    attrs = {"kernel": kernel, "strides": strides, "pads": pads, "ceil": ceil}
    x, size = normal(*shape), {"size": shape[2:]}
    y, number = largest(x, **attrs)
    case("max_pool", x, attrs=attrs, oracle=largest)
    case("max_pool_grad", normal(*y.shape, seed=1), number, attrs={**attrs, **size}, oracle=max_back)
    case("gather_pool_indices", x, number, attrs=attrs, oracle=pick)
    for include_pad in (False, True):
        more = {**attrs, "include_pad": include_pad}
        case("avg_pool", x, attrs=more, oracle=average)
        case("avg_pool_grad", normal(*y.shape, seed=1), attrs={**more, **size}, oracle=average_back)
strange = np.array([[[np.nan, 1.0, 2.0, np.nan, np.nan, 0.0, -np.inf, -np.inf]]])
case("max_pool", strange, attrs={"kernel": (2,), "strides": (2,), "pads": ((0, 0),)}, oracle=largest, gradient=False)
