"""Cases of softmax, its losses, normalisation and attention, against PyTorch in float64."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from tests.ops.op_case import bools, case, integers, normal, positive

AXES = [((3,), -1), ((2, 5), 0), ((2, 3, 4), 1), ((0, 3), -1), ((2, 1), 1)]


def peer(function):
    return lambda *arrays, **attrs: numpy_of(function(*map(torch.tensor, arrays), **attrs))


def numpy_of(made):
    return tuple(t.detach().numpy() for t in made) if isinstance(made, tuple) else made.detach().numpy()


def tape(function, count):
    """Gradients of the first ``count`` inputs; the gradient of the output comes first."""

    def oracle(g, *arrays, **attrs):
        tensors = [torch.tensor(a, requires_grad=i < count) for i, a in enumerate(arrays)]
        function(*tensors, **attrs).backward(torch.tensor(g))
        made = tuple(t.grad.numpy() for t in tensors[:count])
        return made if count > 1 else made[0]

    return oracle


def softmax(x, axis=-1):
    return torch.softmax(x, axis)


for shape, axis in AXES:
    x = normal(*shape) * 3
    case("softmax", x, attrs={"axis": axis}, oracle=peer(softmax))
    case("log_softmax", x, attrs={"axis": axis}, oracle=peer(lambda x, axis: torch.log_softmax(x, axis)))
    case(
        "softmax_grad",
        normal(*shape, seed=1),
        softmax(torch.tensor(x), axis).numpy(),
        attrs={"axis": axis},
        oracle=lambda g, y, axis: g * y - y * (g * y).sum(axis=axis, keepdims=True),
    )
case("softmax", np.array([[1e4, 0.0], [-1e4, -1e4]]), oracle=peer(softmax))
case("log_softmax", np.array([[1e4, 0.0], [-1e4, -1e4]]), oracle=peer(lambda x: torch.log_softmax(x, -1)))


def cross_entropy(x, labels):
    return F.nll_loss(
        torch.log_softmax(x, -1).reshape(-1, x.shape[-1]), labels.reshape(-1).long(), reduction="none"
    ).reshape(labels.shape)


for shape in [(3,), (2, 5), (2, 3, 4), (0, 3), (4, 1)]:
    x, labels = normal(*shape) * 3, integers(*shape[:-1], below=shape[-1], dtype="int32")
    case("sparse_softmax_cross_entropy", x, labels, oracle=peer(cross_entropy))
    case(
        "sparse_softmax_cross_entropy_grad",
        normal(*shape[:-1], seed=1),
        x,
        labels,
        oracle=lambda g, x, labels: tape(lambda x, labels: cross_entropy(x, labels), 1)(g, x, labels),
    )

EPS = 1e-3


def batch_norm(x, gamma, beta, eps, axis=1):
    over = tuple(i for i in range(x.ndim) if i != axis)
    y = F.batch_norm(x.movedim(axis, 1), None, None, gamma, beta, True, eps=eps).movedim(1, axis)
    return y, x.mean(over), x.var(over, unbiased=False)


ACTIVATIONS = {"relu_grad": F.relu, "relu6_grad": F.relu6}
for shape, axis in [((4, 3), 1), ((2, 3, 5), 1), ((2, 3, 2, 3), 1), ((3, 2, 4), 2), ((1, 2, 2, 1), 1)]:
    x, gamma, beta = normal(*shape) * 2 + 1, positive(shape[axis]), normal(shape[axis])
    over = tuple(i for i in range(len(shape)) if i != axis)
    attrs = {"eps": EPS, "axis": axis}
    case("batch_norm", x, gamma, beta, attrs=attrs, oracle=peer(batch_norm), tolerance=1e-10, tolerance32=1e-4)
    case(
        "batch_norm_grad",
        normal(*shape, seed=1),
        x,
        gamma,
        x.mean(axis=over),
        x.var(axis=over),
        attrs=attrs,
        oracle=lambda g, x, gamma, mean, var, **a: tape(lambda *t, **b: batch_norm(*t, **b)[0], 3)(
            g, x, gamma, np.zeros_like(gamma), **a
        ),
        tolerance=1e-9,
        tolerance32=5e-4,
    )
    case(
        "batch_norm_relu_grad",
        normal(*shape, seed=1),
        x,
        gamma,
        beta,
        x.mean(axis=over),
        x.var(axis=over),
        attrs={**attrs, "activation_grad": "relu6_grad" if axis == 2 else "relu_grad"},
        gradient=False,
        oracle=lambda g, x, gamma, beta, mean, var, activation_grad, **a: tape(
            lambda *t, **b: ACTIVATIONS[activation_grad](batch_norm(*t, **b)[0]), 3
        )(g, x, gamma, beta, **a),
        tolerance=1e-9,
        tolerance32=5e-4,
    )
    case(
        "batch_norm_inference",
        x,
        gamma,
        beta,
        normal(shape[axis], seed=3),
        positive(shape[axis], seed=3),
        attrs=attrs,
        oracle=peer(
            lambda x, gamma, beta, mean, var, eps, axis: F.batch_norm(
                x.movedim(axis, 1), mean, var, gamma, beta, False, eps=eps
            ).movedim(1, axis)
        ),
    )


def layer_norm(x, gamma, beta, axis, eps):
    axis = sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    last = list(range(x.ndim - len(axis), x.ndim))
    moved = x.movedim(axis, last)
    return F.layer_norm(moved, gamma.shape, gamma, beta, eps).movedim(last, axis)


for shape, axis in [((2, 3), -1), ((2, 3, 4), (1, 2)), ((2, 3, 4), 1), ((0, 3), (1,)), ((2, 3, 2, 2), (1, 3))]:
    over = sorted(a % len(shape) for a in ((axis,) if isinstance(axis, int) else axis))
    own = [shape[a] for a in over]
    attrs = {"axis": axis, "eps": EPS}
    x, gamma, beta = normal(*shape) * 2 + 1, positive(*own), normal(*own)
    case("layer_norm", x, gamma, beta, attrs=attrs, oracle=peer(layer_norm), tolerance=1e-10, tolerance32=1e-4)
    case(
        "layer_norm_grad",
        normal(*shape, seed=1),
        x,
        gamma,
        attrs=attrs,
        oracle=lambda g, x, gamma, **a: tape(layer_norm, 3)(g, x, gamma, np.zeros_like(gamma), **a),
        tolerance=1e-9,
        tolerance32=5e-4,
    )


def group_norm(x, gamma, beta, groups, eps):
    return F.group_norm(x, groups, gamma, beta, eps)


for shape, groups in [((2, 4, 3), 2), ((3, 6), 3), ((2, 3, 2, 2), 3), ((2, 4, 2, 1, 3), 1)]:
    attrs = {"groups": groups, "eps": EPS}
    x, gamma, beta = normal(*shape) * 2 + 1, positive(shape[1]), normal(shape[1])
    case("group_norm", x, gamma, beta, attrs=attrs, oracle=peer(group_norm), tolerance=1e-10, tolerance32=1e-4)
    case(
        "group_norm_grad",
        normal(*shape, seed=1),
        x,
        gamma,
        attrs=attrs,
        oracle=lambda g, x, gamma, **a: tape(group_norm, 3)(g, x, gamma, np.zeros_like(gamma), **a),
        tolerance=1e-9,
        tolerance32=5e-4,
    )


def scale_shift(x, scale, bias=None, axis=1):
    shape = (*scale.shape, *(1,) * (x.ndim - axis - scale.ndim))
    y = x * scale.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


for shape, axis, count in [((3, 2), 1, 1), ((2, 3, 4), 1, 1), ((2, 3, 2), 0, 2), ((2, 3, 2), 1, 0), ((4,), 0, 1)]:
    own, attrs = shape[axis : axis + count], {"axis": axis}
    x, scale, bias = normal(*shape), normal(*own, seed=1), normal(*own, seed=2)
    case("scale_shift", x, scale, bias, attrs=attrs, oracle=peer(scale_shift))
    case("scale_shift", x, scale, attrs=attrs, oracle=peer(scale_shift))
    case(
        "scale_shift_grad",
        normal(*shape, seed=3),
        x,
        scale,
        attrs=attrs,
        oracle=lambda g, x, s, **a: tape(scale_shift, 3)(g, x, s, np.zeros_like(s), **a),
    )


def windowed(x, size):
    out = np.zeros_like(x)
    for c in range(x.shape[1]):
        for k in range(max(c - size // 2, 0), min(c + size // 2 + 1, x.shape[1])):
            out[:, c] += x[:, k]
    return out


def lrn(x, size, alpha, beta, k):
    return F.local_response_norm(x, size, alpha, beta, k)


for shape, size in [((2, 5), 3), ((1, 2, 3), 5), ((2, 4, 2, 2), 1), ((0, 3, 2), 3), ((2, 7, 1, 2), 5)]:
    attrs = {"size": size, "alpha": 0.8, "beta": 0.75, "k": 1.5}
    x = normal(*shape)
    base = 1.5 + 0.8 / size * windowed(x * x, size)
    case("channel_window_sum", x, attrs={"size": size}, oracle=windowed)
    deep = torch.tensor(x).reshape(*shape, *(1,) * (3 - len(shape)))  # PyTorch wants three dimensions
    case(
        "lrn",
        x,
        attrs=attrs,
        oracle=lambda x, deep=deep, base=base, **a: (
            lrn(torch.tensor(x).reshape(deep.shape), **a).reshape(x.shape).numpy(),
            base,
        ),
    )
    case(
        "lrn_recompute",
        x,
        attrs=attrs,
        gradient=False,
        oracle=lambda x, deep=deep, **a: lrn(torch.tensor(x).reshape(deep.shape), **a).reshape(x.shape).numpy(),
    )
    for through_relu in (False, True):
        case(
            "lrn_recompute_grad",
            normal(*shape, seed=1),
            x,
            attrs={**attrs, "through_relu": through_relu},
            gradient=False,
            oracle=lambda g, x, deep=deep, through_relu=False, **a: (
                ((x > 0) | (not through_relu))
                * tape(lrn, 1)(g.reshape(deep.shape), x.reshape(deep.shape), **a).reshape(x.shape)
            ),
        )
    case(
        "lrn_grad",
        normal(*shape, seed=1),
        x,
        base,
        attrs=attrs,
        oracle=lambda g, x, base, deep=deep, **a: tape(lrn, 1)(
            g.reshape(deep.shape), x.reshape(deep.shape), **a
        ).reshape(x.shape),
    )


def weights(q, k, *mask, causal=False, scale=None):
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    t, s = scores.shape[-2:]
    if causal:
        scores = scores.masked_fill(~torch.ones(t, s, dtype=torch.bool).tril(s - t), -torch.inf)
    for m in mask:
        scores = scores.masked_fill(~m, -torch.inf)
    return torch.softmax(scores, -1)


for (n, h, t, s, d), options, mask in [
    ((2, 2, 3, 4, 5), {}, None),
    ((1, 1, 1, 1, 1), {"scale": 0.3}, None),
    ((1, 2, 3, 3, 2), {"causal": True}, None),
    ((2, 1, 2, 4, 3), {"causal": True}, (2, 1, 1, 4)),
    ((0, 2, 3, 2, 2), {}, None),
    ((2, 3, 4, 2, 2), {}, (2, 1, 4, 2)),
]:
    masks = () if mask is None else (bools(*mask) | (np.arange(mask[-1]) == 0),)  # one key at least is seen
    case(
        "attention_weights", normal(n, h, t, d), normal(n, h, s, d, seed=1), *masks, attrs=options, oracle=peer(weights)
    )


def heads(q, k, v, *mask, kept=1.0, random_key=False, rate=0.0, site=0, **options):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = mask[:-1] if random_key else mask
    return (weights(q, k, *mask, **options) * kept @ v).transpose(1, 2)


def with_stats(expected):
    """An oracle of the heads with the logarithms of the sums of the scores' exponentials."""

    def both(q, k, v, *mask, causal=False, scale=None, rate=0.0, site=0):
        q_heads, k_heads = q.transpose(1, 2), k.transpose(1, 2)
        scores = q_heads @ k_heads.mT * (scale if scale is not None else q.shape[-1] ** -0.5)
        masks = mask[:-1] if rate else mask
        if causal:
            masks = (*masks, torch.ones(scores.shape[2:], dtype=torch.bool).tril(scores.shape[3] - scores.shape[2]))
        for m in masks:
            scores = scores.masked_fill(~m, -math.inf)
        attrs = {"causal": causal, "scale": scale} | ({"rate": rate, "site": site} if rate else {})
        return expected(q, k, v, *mask, **attrs), torch.logsumexp(scores, 3)

    return both


def kept_weights(shape, key, rate, site):
    """The factors of dropout, from NumPy's own generator."""
    generator = np.random.Philox(key=np.array([key[0], site]), counter=np.array([0, 0, key[1], 0]))
    bits = generator.random_raw(-(-math.prod(shape) // 4)).view(np.uint16)[: math.prod(shape)].reshape(shape)
    return torch.tensor((bits >= round(rate * 65536)) / (1 - rate))


for (n, h, t, s, d, e), options, mask in [
    ((2, 2, 3, 4, 5, 3), {}, None),
    ((1, 1, 1, 1, 1, 1), {"scale": 0.3}, None),
    ((1, 2, 3, 3, 2, 4), {"causal": True}, None),
    ((2, 1, 2, 4, 3, 3), {"causal": True}, (2, 1, 1, 4)),
    ((2, 3, 4, 2, 2, 1), {}, (2, 1, 4, 2)),
]:
    masks = () if mask is None else (bools(*mask) | (np.arange(mask[-1]) == 0),)
    given = normal(n, t, h, d), normal(n, s, h, d, seed=1), normal(n, s, h, e, seed=2), *masks
    case("attention_heads", *given, attrs=options, oracle=peer(heads))
    case("attention_heads_grad", normal(n, t, h, e, seed=3), *given, attrs=options, oracle=tape(heads, 3))
    key, random = np.array([3, 5], np.uint64), {"rate": 0.3, "site": 7}
    dropped = partial(heads, kept=kept_weights((n, h, t, s), key, **random), random_key=True)
    case("attention_heads", *given, key, attrs=options | random, oracle=peer(dropped))
    for inputs, more, expected in ((given, {}, heads), ((*given, key), random, dropped)):
        attrs = options | more
        case("attention_heads_with_stats", *inputs, attrs=attrs, gradient=False, oracle=peer(with_stats(expected)))
        outputs = peer(with_stats(expected))(*inputs, **attrs)
        case(
            "attention_heads_with_stats_grad",
            normal(n, t, h, e, seed=3),
            *inputs,
            *outputs,
            attrs=attrs,
            gradient=False,
            oracle=lambda *a, known=expected, **o: tape(known, 3)(*a[:-2], **o),
        )
    case(
        "attention_heads_grad", normal(n, t, h, e, seed=3), *given, key, attrs=options | random, oracle=tape(dropped, 3)
    )
