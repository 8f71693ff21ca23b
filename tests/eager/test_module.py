"""Modules and functions: the eager way to build."""

import numpy as np
import pytest

from prototorch import grad, ops, tensor
from prototorch.eager.function import Function
from prototorch.eager.generator import manual_seed
from prototorch.eager.module import Module
from prototorch.errors import ShapeError, UsageError, WeightsError
from prototorch.graph.ir import Graph
from prototorch.layers import BatchNormalization, Dense, Dropout
from prototorch.spec import Spec


class Block(Module):
    def __init__(self, units):
        self.inner = Dense(units, activation="tanh")
        self.norm = BatchNormalization()

    def forward(self, x):
        return x + self.norm(self.inner(x))


class Net(Module):
    def __init__(self):
        self.first = Dense(3)
        self.blocks = [Block(3), Block(3)]
        self.heads = {"a": Dense(1), "b": Dense(2)}
        self.scale = tensor(1.0, requires_grad=True)
        self.drop = Dropout(0.5)

    def forward(self, x, head="a"):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.heads[head](self.drop(x)) * self.scale


def x(*shape):
    return tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


@pytest.fixture
def net():
    manual_seed(1)
    made = Net()
    made(x(4, 2))
    return made


def test_weights_are_named_by_the_way_to_them(net):
    names = [n for n, _ in net.named_weights()]
    assert names[:3] == ["first/kernel", "first/bias", "blocks/0/inner/kernel"]
    assert {"blocks/1/norm/moving_mean", "heads/a/kernel", "scale"} <= set(names)
    assert "heads/b/kernel" not in names  # not called yet
    assert "blocks/1/norm/moving_mean" not in dict(net.named_parameters())


def test_a_layer_in_two_places_counts_once():
    class Tied(Module):
        def __init__(self):
            self.a = self.b = Dense(2)

        def forward(self, x):
            return self.b(self.a(x))

    tied = Tied()
    tied(x(1, 2))
    assert len(tied.parameters()) == 2


def test_the_phase_reaches_everything_inside(net):
    kept = net.state_dict()
    assert not np.array_equal(net(x(4, 2)).numpy(), net(x(4, 2)).numpy())
    assert not np.array_equal(net.state_dict()["blocks/0/norm/moving_mean"], kept["blocks/0/norm/moving_mean"])
    net.eval()
    assert not net.blocks[0].training
    assert np.array_equal(net(x(4, 2)).numpy(), net(x(4, 2)).numpy())
    assert net.train().blocks[1].training


def test_it_trains(net):
    inputs = x(32, 2)
    target = tensor(np.sin(inputs.numpy()[:, :1] * 2))
    net.eval()  # without dropout, so that the loss falls steadily
    losses = []
    for _ in range(60):
        error = net(inputs) - target
        loss = (error * error).mean()
        net.zero_grad()
        loss.backward()
        losses.append(loss.item())
        for weight in net.parameters():
            weight.array[...] -= 0.1 * weight.grad.array
    assert losses[-1] < 0.3 * losses[0]


def test_the_same_seed_gives_the_same_weights_and_draws():
    def run():
        manual_seed(7)
        made = Net()
        return made(x(4, 2)).numpy(), made(x(4, 2)).numpy()

    assert all(np.array_equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_a_state_goes_into_another_module(net):
    other = Net()  # never called: it takes the weights when it is
    other.load_state_dict(net.state_dict())
    assert np.array_equal(other.eval()(x(4, 2)).numpy(), net.eval()(x(4, 2)).numpy())
    assert "blocks/0/norm/moving_mean" not in dict(other.named_parameters())
    called = Net()
    called(x(4, 2))
    called.load_state_dict(net.state_dict())
    assert np.array_equal(called.eval()(x(4, 2)).numpy(), net(x(4, 2)).numpy())


def test_a_state_that_does_not_fit(net):
    state = net.state_dict()
    before = net.state_dict()
    state["first/kernal"] = state.pop("first/kernel") * 0
    state["scale"] = np.ones(3, "float32")
    with pytest.raises(
        WeightsError, match=r"first/kernel is missing.*scale has shape \[3\].*kernal.*Did you mean 'first/kernel'"
    ):
        net.load_state_dict(state)
    assert all(np.array_equal(a, before[n]) for n, a in net.state_dict().items())
    del state["scale"]
    net.load_state_dict(state, strict=False)


def test_a_module_without_forward():
    with pytest.raises(TypeError, match="Empty does not define forward"):
        type("Empty", (Module,), {})()(1)


def test_repr_shows_what_is_inside(net):
    assert "blocks/0/inner: Dense(3, activation=Tanh())" in repr(net)
    assert repr(type("Empty", (Module,), {})()) == "Empty()"


def test_keys_must_not_look_like_ways():
    class Bad(Module):
        def __init__(self):
            self.heads = {"a/b": Dense(1)}

    with pytest.raises(UsageError, match="must not hold a '/'"):
        Bad().parameters()


def test_a_shape_error_names_the_layer():
    layer = Dense(2)
    layer(x(1, 2))
    with pytest.raises(ShapeError, match=r"layer 'Dense' \(Dense\).*kernel.*it reads \[3\]"):
        layer(x(1, 3))


class Cube(Function):
    @staticmethod
    def forward(ctx, a, power=3):
        ctx.save_for_backward(a)
        return a * a * a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * 3 * a * a, None


def test_a_function_with_a_gradient_of_its_own():
    a = tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(a, 3)
    assert y.numpy().tolist() == [1.0, 8.0]
    (first,) = grad(y.sum(), [a], create_graph=True)
    assert first.numpy().tolist() == [3.0, 12.0]
    (second,) = grad(first.sum(), [a])
    assert second.numpy().tolist() == [6.0, 12.0]


def test_a_function_of_several():
    class SumAndDifference(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b, a - b

        @staticmethod
        def backward(ctx, g, h):
            return g + h, g - h

    a, b = tensor([1.0], requires_grad=True), tensor([5.0], requires_grad=True)
    total, _ = SumAndDifference.apply(a, b)
    (total * total).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (12.0, 12.0)


def test_a_function_inside_a_composite_op():
    """Composites find their gradients by collecting entries; a function's entry is one of them."""
    a = tensor([0.5], requires_grad=True)
    ops.mish(Cube.apply(a, 3)).sum().backward()
    assert np.isfinite(a.grad.item())


@pytest.mark.parametrize(
    ("forward", "backward", "message"),
    [
        (lambda ctx, a: 3, None, "must return tensors, not a int"),
        (lambda ctx, a: a * 1, lambda ctx, g: (g, g), "must return 1 gradients, one for each input, not 2"),
        (
            lambda ctx, a: a * 1,
            lambda ctx, g: g.sum(),
            r"the gradient of input 0 must be a tensor \[2\], not a tensor \[\]",
        ),
        (lambda ctx, a: a * 1, lambda ctx, g: 1.0, "not a float"),
    ],
)
def test_mistakes_in_a_function(forward, backward, message):
    made = type("Wrong", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    with pytest.raises(UsageError, match=message):
        made.apply(tensor([1.0, 2.0], requires_grad=True)).sum().backward()


def test_a_function_is_for_tensors():
    with pytest.raises(UsageError, match="for a layer in a plan write an Op"):
        Cube.apply(Graph().input("x", Spec((2,))))
