"""Cases of the optimiser updates: each formula for one number at a time (against Keras: the tests of optimisers)."""

import math

import numpy as np

from tests.ops.op_case import case, normal, positive

RATE, STEP = np.array(0.03), np.array(4, "int64")
SHAPES = [(), (3,), (2, 3), (0, 2), (1, 1)]
ROOT, OUTSIDE = {"rho": 0.9, "epsilon": 1e-3}, {"epsilon": 0.1, "epsilon_inside_root": False}
ADAM = {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}


def by_element(formula):
    def oracle(w, g, rate, step, *slots, decay=0.0, **attrs):
        made = []
        for numbers in zip(w.flat, g.flat, *(s.flat for s in slots), strict=True):
            first, *rest = map(float, numbers)
            made.append(formula(first * (1 - decay * float(rate)), rest[0], float(rate), int(step), *rest[1:], **attrs))
        columns = np.array(made).reshape(w.size, 1 + len(slots)).T
        return tuple(c.reshape(w.shape) for c in columns)

    return oracle


def sgd(w, g, rate, t, l2=0.0):
    return (w - rate * (g + l2 * w),)


def momentum(w, g, rate, t, v, momentum, nesterov=False, l2=0.0):
    g += l2 * w
    v = momentum * v - rate * g
    return (w + momentum * v - rate * g if nesterov else w + v), v


def moments(g, m, v, beta_1, beta_2):
    return beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * g * g


def adam(w, g, rate, t, m, v, beta_1, beta_2, epsilon):
    m, v = moments(g, m, v, beta_1, beta_2)
    alpha = rate * math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
    return w - alpha * m / (math.sqrt(v) + epsilon), m, v


def amsgrad(w, g, rate, t, m, v, top, beta_1, beta_2, epsilon):
    m, v = moments(g, m, v, beta_1, beta_2)
    top = max(top, v)
    alpha = rate * math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
    return w - alpha * m / (math.sqrt(top) + epsilon), m, v, top


def nadam(w, g, rate, t, m, v, beta_1, beta_2, epsilon):
    m, v = moments(g, m, v, beta_1, beta_2)
    u = [beta_1 * (1 - 0.5 * 0.96**i) for i in range(1, t + 2)]
    now, after = math.prod(u[:t]), math.prod(u)
    m_hat = u[t] * m / (1 - after) + (1 - u[t - 1]) * g / (1 - now)
    return w - rate * m_hat / (math.sqrt(v / (1 - beta_2**t)) + epsilon), m, v


def root(square, epsilon, epsilon_inside_root):
    return math.sqrt(square + epsilon) if epsilon_inside_root else math.sqrt(square) + epsilon


def rmsprop(w, g, rate, t, v, rho, epsilon, epsilon_inside_root=True):
    v = rho * v + (1 - rho) * g * g
    return w - rate * g / root(v, epsilon, epsilon_inside_root), v


def rmsprop_momentum(w, g, rate, t, v, b, rho, momentum, epsilon, epsilon_inside_root=True):
    v = rho * v + (1 - rho) * g * g
    b = momentum * b + rate * g / root(v, epsilon, epsilon_inside_root)
    return w - b, v, b


def centered(w, g, rate, t, v, b, a, rho, momentum, epsilon, epsilon_inside_root=True):
    v, a = rho * v + (1 - rho) * g * g, rho * a + (1 - rho) * g
    b = momentum * b + rate * g / root(v - a * a, epsilon, epsilon_inside_root)
    return w - b, v, b, a


def adagrad(w, g, rate, t, a, epsilon, epsilon_inside_root=True):
    a += g * g
    return w - rate * g / root(a, epsilon, epsilon_inside_root), a


def adadelta(w, g, rate, t, a, d, rho, epsilon):
    a = rho * a + (1 - rho) * g * g
    step = math.sqrt((d + epsilon) / (a + epsilon)) * g
    return w - rate * step, a, rho * d + (1 - rho) * step * step


def adamax(w, g, rate, t, m, u, beta_1, beta_2, epsilon):
    m, u = beta_1 * m + (1 - beta_1) * g, max(beta_2 * u, abs(g))
    return w - rate * m / ((1 - beta_1**t) * (u + epsilon)), m, u


def lion(w, g, rate, t, m, beta_1, beta_2):
    towards = beta_1 * m + (1 - beta_1) * g
    return w - rate * ((towards > 0) - (towards < 0)), beta_2 * m + (1 - beta_2) * g


TABLE = [
    ("sgd_update", sgd, [{}, {"decay": 0.1}, {"l2": 0.2}], 0),
    ("momentum_update", momentum, [{"momentum": 0.9}, {"momentum": 0.5, "nesterov": True, "decay": 0.1, "l2": 0.2}], 1),
    ("adam_update", adam, [ADAM, {**ADAM, "decay": 0.1}], 2),
    ("amsgrad_update", amsgrad, [ADAM], 3),
    ("nadam_update", nadam, [ADAM, {**ADAM, "decay": 0.1}], 2),
    ("rmsprop_update", rmsprop, [{"rho": 0.9, "epsilon": 1e-3}, {"rho": 0.9, **OUTSIDE}], 1),
    ("rmsprop_momentum_update", rmsprop_momentum, [{**ROOT, "momentum": 0.5}, {**ROOT, **OUTSIDE, "momentum": 0.5}], 2),
    ("centered_rmsprop_update", centered, [{**ROOT, "momentum": 0.5}, {**ROOT, **OUTSIDE, "momentum": 0.5}], 3),
    ("adagrad_update", adagrad, [{"epsilon": 1e-3}, OUTSIDE], 1),
    ("adadelta_update", adadelta, [{"rho": 0.9, "epsilon": 1e-3}], 2),
    ("adamax_update", adamax, [ADAM], 2),
    ("lion_update", lion, [{"beta_1": 0.9, "beta_2": 0.99}], 1),
]
for name, formula, options, slots in TABLE:
    for attrs in options:
        for shape in SHAPES:
            # the centred mean square is larger than the square of the mean, as it is in use
            kept = [
                positive(*shape, seed=i) + (0 if i < 2 else -0.3) * (name == "centered_rmsprop_update")
                for i in range(slots)
            ]
            if name == "centered_rmsprop_update":
                kept[0] = kept[0] + 9
            case(
                name,
                normal(*shape),
                normal(*shape, seed=9),
                RATE,
                STEP,
                *kept,
                attrs=attrs,
                oracle=by_element(formula),
                gradient=False,
                kept=(2,),
            )
for t in (1, 2, 1000):
    attrs = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
    slots = positive(3), positive(3, seed=1)
    case(
        "nadam_update",
        normal(3),
        normal(3, seed=1),
        RATE,
        np.array(t, "int64"),
        *slots,
        attrs=attrs,
        oracle=by_element(nadam),
        gradient=False,
        kept=(2,),
    )
