"""Cases of the recurrent sequences: step by step in PyTorch's float64, whose tape gives the gradients too."""

import numpy as np
import torch

from tests.ops.op_case import case, normal

ACT = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "linear": lambda v: v,
    "softsign": lambda v: v / (1 + v.abs()),
    "hard_sigmoid": lambda v: (v + 3).clamp(0, 6) / 6,
}


def rnn_cell(x, weights, states, activation="tanh"):
    return [ACT[activation](x + states[0] @ weights[0])]


def lstm_cell(x, weights, states, activation="tanh", recurrent_activation="sigmoid"):
    h, c = states
    i, f, g, o = (x + h @ weights[0]).chunk(4, 1)
    gate, squash = ACT[recurrent_activation], ACT[activation]
    c = gate(f) * c + gate(i) * squash(g)
    return [gate(o) * squash(c), c]


def gru_cell(x, weights, states, activation="tanh", recurrent_activation="sigmoid", reset_after=True):
    (h,), (u, bias) = states, weights
    gate, squash = ACT[recurrent_activation], ACT[activation]
    (xz, xr, xh), (uz, ur, uh), (bz, br, bh) = x.chunk(3, 1), u.chunk(3, 1), bias.chunk(3)
    z, r = gate(xz + h @ uz + bz), gate(xr + h @ ur + br)
    new = squash(xh + (r * (h @ uh + bh) if reset_after else (r * h) @ uh + bh))
    return [z * h + (1 - z) * new]


def walk(cell, weights, states, masked, reverse, x, *rest, **attrs):
    """Whole first state, last states, whole further states."""
    own, first, mask = rest[:weights], list(rest[weights : weights + states]), rest[-1] if masked else None
    made = []
    for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        new = cell(x[:, t], own, first, **attrs)
        if mask is not None:
            new = [torch.where(mask[:, t : t + 1], a, b) for a, b in zip(new, first, strict=True)]
        first = new
        made.append(new)
    whole, *others = (torch.stack(each, 1) for each in zip(*made, strict=True))
    return (whole, *first, *others)


def forward(cell, weights, states):
    def oracle(*arrays, masked=False, reverse=False, **attrs):
        made = walk(cell, weights, states, masked, reverse, *map(torch.tensor, arrays), **attrs)
        return tuple(t.numpy() for t in made)

    return oracle


def backward(cell, weights, states):
    def oracle(*arrays, masked=False, reverse=False, **attrs):
        count = 1 + weights + states
        tensors = [torch.tensor(a, requires_grad=i < count) for i, a in enumerate(arrays[: count + masked])]
        made = walk(cell, weights, states, masked, reverse, *tensors, **attrs)
        given = map(torch.tensor, arrays[count + masked + states :])
        torch.autograd.backward(made[: 1 + states], list(given))
        return tuple(np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in tensors[:count])

    return oracle


MASK = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
KINDS = {
    "simple_rnn_sequence": (rnn_cell, 1, 1, 1, [{}, {"activation": "linear"}]),
    "lstm_sequence": (lstm_cell, 4, 1, 2, [{}, {"activation": "softsign", "recurrent_activation": "hard_sigmoid"}]),
    "gru_sequence": (gru_cell, 3, 2, 1, [{}, {"reset_after": False}]),
}
for name, (cell, gates, weights, states, variants) in KINDS.items():
    for options in variants:
        for (n, t, units), masked, reverse in [
            ((2, 3, 2), False, False),
            ((1, 1, 1), False, False),
            ((4, 3, 2), True, False),
            ((4, 3, 3), True, True),
            ((0, 2, 2), False, True),
            ((2, 5, 1), False, True),
        ]:
            attrs = {**options, "masked": masked, "reverse": reverse}
            inputs = [normal(n, t, gates * units), normal(units, gates * units, seed=1)]
            inputs += [normal(gates * units, seed=2)] if weights == 2 else []
            inputs += [normal(n, units, seed=3 + i) for i in range(states)] + ([MASK] if masked else [])
            made = forward(cell, weights, states)(*inputs, **attrs)
            case(name, *inputs, attrs=attrs, oracle=forward(cell, weights, states))
            after = [made[0], *made[1 + states :]]
            given = [normal(*y.shape, seed=7 + i) for i, y in enumerate(made[: 1 + states])]
            # its derivative is tested as the sequence's second one: alone, the states given to it must fit its inputs
            case(
                f"{name}_grad",
                *inputs,
                *after,
                *given,
                attrs=attrs,
                oracle=backward(cell, weights, states),
                gradient=False,
                tolerance=1e-11,
                tolerance32=2e-4,
            )
