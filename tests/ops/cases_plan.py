"""Cases of the ops that only a plan's passes say."""

import numpy as np

from prototorch.ops.prepack import OperandUse
from prototorch.spec import Spec
from tests.ops.cases_recurrent import MASK, backward, forward, lstm_cell
from tests.ops.op_case import case, normal

for shape, name in [((2, 3, 4), "reorder"), ((1, 2, 3, 2), "reorder"), ((3, 1, 5), "relabel"), ((2, 4, 1), "relabel")]:
    case(name, normal(*shape), attrs={"layout": None}, oracle=lambda x, layout: x)

for shape, order in [((2, 3, 4), (0, 2, 1)), ((2, 3, 4, 2), (0, 3, 1, 2))]:
    case(
        "transpose_view",
        normal(*shape),
        attrs={"order": order},
        oracle=lambda x, order: np.einsum("abcd"[: x.ndim] + "->" + "".join("abcd"[i] for i in order), x),
    )

for shape in [(3,), (4, 2), (2, 3, 2)]:
    case(
        "slice_view", normal(*shape), attrs={"count": 2}, oracle=lambda x, count: np.array([x[i] for i in range(count)])
    )
    case(
        "concat_view",
        normal(*shape),
        attrs={"times": 3},
        oracle=lambda x, times: np.array([row for _ in range(times) for row in x]),
    )

X, Y, A, B = ("in", 0), ("in", 1), ("node", 0, 0), ("node", 1, 0)
PROGRAM = (("multiply", (X, Y), ()), ("tanh", (A,), ()), ("leaky_relu", (B,), (("negative_slope", 0.5),)))


def by_loop(x, y, program, outputs, inplace=()):
    product = np.asarray(x * y)
    bent = np.array([v if v > 0 else 0.5 * v for v in np.tanh(product).flat]).reshape(product.shape)
    return (bent,) if len(outputs) == 1 else (bent, product)


for x, y in [((), ()), ((2, 3), (3,)), ((0, 3), (1, 3)), ((2, 1, 3), (2, 1, 3))]:
    for outputs in ((("node", 2, 0),), (("node", 2, 0), A)):
        attrs = {"program": PROGRAM, "outputs": outputs, "inplace": ((0, 0),)}
        case("fused", normal(*x), normal(*y, seed=1), attrs=attrs, oracle=by_loop)

NUMBERS = (("where", (X, ("const", 2, "int32"), ("const", 3, "int32")), ()),)
case(
    "fused",
    np.array([True, False]),
    attrs={"program": NUMBERS, "outputs": (A,)},
    gradient=False,
    oracle=lambda c, program, outputs: np.array([2 if v else 3 for v in c], "int32"),
)

USE = OperandUse("matmul", (), (Spec((2, 3)), Spec((3, 4))), (Spec((2, 4)),), 1)
case(
    "prepack",
    normal(3, 4),
    attrs={"use": USE, "size": 14},
    gradient=False,
    oracle=lambda w, use, size: np.array([*w.flat, 0.0, 0.0]),
)
case(
    "apply_prepacked",
    normal(2, 3),
    normal(14, seed=1),
    attrs={"use": USE},
    oracle=lambda x, w, use: np.array(
        [[sum(x[i, j] * w[4 * j + k] for j in range(3)) for k in range(4)] for i in range(2)]
    ),
)


def gates_of(x, u, h, c, *mask, masked=False, reverse=False):
    """The gates of a walk with PyTorch's cell, by time."""
    states, made = lstm(x, u, h, c, *mask, masked=masked, reverse=reverse), np.empty_like(x)
    steps = x.shape[1]
    for place in range(steps):
        time = steps - 1 - place if reverse else place
        z = x[:, time] + (states[0][:, place - 1] if place else h) @ u
        n = u.shape[0]
        made[:, time] = 1 / (1 + np.exp(-z))
        made[:, time, 2 * n : 3 * n] = np.tanh(z[:, 2 * n : 3 * n])
    return (*states, made)


lstm, lstm_grad = forward(lstm_cell, 1, 2), backward(lstm_cell, 1, 2)
for masked, reverse in [(False, False), (True, True), (False, True)]:
    n, t, units = (4, 3, 2) if masked else (2, 3, 3)
    x, u, h, c = normal(n, t, 4 * units), normal(units, 4 * units), normal(n, units), normal(n, units, seed=1)
    mask, options = (MASK,) if masked else (), {"masked": masked, "reverse": reverse}
    case("lstm_sequence_with_gates", x, u, h, c, *mask, attrs=options, oracle=gates_of, gradient=False)
    *states, gates = gates_of(x, u, h, c, *mask, **options)
    given = states[0], states[3], normal(n, t, units, seed=2), normal(n, units, seed=3), normal(n, units, seed=4)
    case(
        "lstm_sequence_with_gates_grad",
        gates,
        u,
        h,
        c,
        *mask,
        *given,
        attrs=options,
        gradient=False,
        oracle=lambda gates, *a, x=x, **o: lstm_grad(x, *a, **o),
    )
