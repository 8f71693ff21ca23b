"""Cases of the activations, against PyTorch in float64."""

import torch
import torch.nn.functional as F

from tests.ops.op_case import SHAPES, away, case, normal, positive

EVEN = 4.0  # a scale that reaches the bends at 3 and 6

FORWARD = {
    "relu": (F.relu, {}, (0.0,)),
    "relu6": (F.relu6, {}, (0.0, 6.0)),
    "elu": (F.elu, {"alpha": 0.7}, (0.0,)),
    "selu": (F.selu, {}, (0.0,)),
    "gelu": (F.gelu, {}, ()),
    "sigmoid": (torch.sigmoid, {}, ()),
    "silu": (F.silu, {}, ()),
    "mish": (F.mish, {}, ()),
    "softplus": (F.softplus, {}, ()),
    "log_sigmoid": (F.logsigmoid, {}, ()),
    "softsign": (F.softsign, {}, (0.0,)),
    "hard_sigmoid": (F.hardsigmoid, {}, (-3.0, 3.0)),
    "hard_swish": (F.hardswish, {}, (-3.0, 3.0)),
}


def peer(function):
    return lambda x, **attrs: function(torch.tensor(x), **attrs).numpy()


def slope_peer(function):
    """g times the slope at x, by PyTorch's tape."""

    def oracle(g, x, **attrs):
        x = torch.tensor(x, requires_grad=True)
        function(x, **attrs).backward(torch.tensor(g))
        return x.grad.numpy()

    return oracle


for name, (function, attrs, kinks) in FORWARD.items():
    for shape in SHAPES:
        case(name, away(*shape, kinks=kinks, scale=EVEN), attrs=attrs, oracle=peer(function), tolerance=1e-11)
for slope in (0.2, 0.0, 1.5, -0.5):
    attrs = {"negative_slope": slope}
    case("leaky_relu", away(3, 4), attrs=attrs, oracle=peer(F.leaky_relu))
    case("leaky_relu_grad", normal(3, 4), away(3, 4), attrs=attrs, oracle=slope_peer(F.leaky_relu), zero=(1,))


def tanh_gelu(x, approximate):
    return F.gelu(x, approximate="tanh" if approximate else "none")


for approximate in (True, False):
    attrs = {"approximate": approximate}
    case("gelu", normal(3, 4) * 2, attrs=attrs, oracle=peer(tanh_gelu))
    case("gelu_grad", normal(3, 4), normal(3, 4, seed=1) * 2, attrs=attrs, oracle=slope_peer(tanh_gelu))
    case("gelu_grad", normal(), normal(), attrs=attrs, oracle=slope_peer(tanh_gelu))
case("elu", away(4), attrs={"alpha": 1.0}, oracle=peer(F.elu))
for shape in SHAPES:
    g = normal(*shape, seed=3)
    case("elu_grad", g, away(*shape), attrs={"alpha": 0.7}, oracle=slope_peer(F.elu))
    case("silu_grad", g, normal(*shape) * 3, oracle=slope_peer(F.silu), tolerance=1e-11)
    case("mish_grad", g, normal(*shape) * 3, oracle=slope_peer(F.mish), tolerance=1e-11)
    case("softsign_grad", g, away(*shape), oracle=slope_peer(F.softsign))
    case("hard_swish_grad", g, away(*shape, kinks=(-3, 3), scale=EVEN), oracle=slope_peer(F.hardswish))
    # from the output
    case("relu_grad", g, away(*shape), oracle=lambda g, y: g * (y > 0), zero=(1,))
    case(
        "relu6_grad", g, away(*shape, kinks=(0, 6), scale=EVEN), oracle=lambda g, y: g * ((y > 0) & (y < 6)), zero=(1,)
    )
    case("hard_sigmoid_grad", g, away(*shape, kinks=(0, 1)), oracle=lambda g, y: g * ((y > 0) & (y < 1)) / 6, zero=(1,))
    case("sigmoid_grad", g, positive(*shape), oracle=lambda g, y: g * (y - y * y))

for shape, alpha in [((2, 3), (3,)), ((2, 3, 4), (3, 1)), ((0, 3), (1, 3)), ((4,), ()), ((2, 1, 2), (2, 1, 2))]:
    case("prelu", away(*shape), normal(*alpha), oracle=lambda x, a: (x > 0) * x + (x <= 0) * x * a)
