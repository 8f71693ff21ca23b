"""Layers of the declared models as children of modules."""

import copy
import pickle

import numpy as np
import pytest

from prototorch import nn, no_grad, tensor
from prototorch.eager.generator import manual_seed
from prototorch.errors import ModelWarning, ShapeError, UsageError, WeightsError
from prototorch.layers import ActivityRegularization, BatchNormalization, Dense, Dropout
from prototorch.nn import Module


class Block(Module):
    def __init__(self, units):
        self.inner = Dense(units, activation="tanh")
        self.norm = BatchNormalization()

    def forward(self, x):
        return x + self.norm(self.inner(x))


class Net(Module):
    def __init__(self):
        self.first = Dense(3)
        self.blocks = nn.ModuleList([Block(3), Block(3)])
        self.heads = nn.ModuleDict({"a": Dense(1), "b": Dense(2)})
        self.scale = nn.Parameter(tensor(1.0))
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


def test_weights_are_named_by_their_path(net):
    names = list(net.state_dict())
    assert names[:4] == ["scale", "first.kernel", "first.bias", "blocks.0.inner.kernel"]
    assert {"blocks.1.norm.moving_mean", "heads.a.kernel"} <= set(names)
    assert "heads.b.kernel" not in names  # not called yet
    assert "blocks.1.norm.moving_mean" in dict(net.named_buffers())
    assert "blocks.1.norm.moving_mean" not in dict(net.named_parameters())


def test_a_layer_in_two_places_counts_once():
    class Tied(Module):
        def __init__(self):
            self.a = self.b = Dense(2)

        def forward(self, x):
            return self.b(self.a(x))

    tied = Tied()
    tied(x(1, 2))
    assert len(list(tied.parameters())) == 2


def test_the_phase_reaches_everything_inside(net):
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    assert not np.array_equal(net(x(4, 2)).numpy(), net(x(4, 2)).numpy())
    assert not np.array_equal(net.state_dict()["blocks.0.norm.moving_mean"], kept["blocks.0.norm.moving_mean"])
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
    assert repr(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    assert np.array_equal(other.eval()(x(4, 2)).numpy(), net.eval()(x(4, 2)).numpy())
    assert "blocks.0.norm.moving_mean" not in dict(other.named_parameters())
    called = Net()
    called(x(4, 2))
    called.load_state_dict(net.state_dict())
    assert np.array_equal(called.eval()(x(4, 2)).numpy(), net(x(4, 2)).numpy())


def test_a_state_that_does_not_fit_changes_nothing(net):
    state = net.state_dict()
    before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
    state["first.kernal"] = state.pop("first.kernel") * 0
    state["blocks.0.norm.gamma"] = np.zeros(3, "float32")
    state["scale"] = np.ones(3, "float32")
    with pytest.raises(
        WeightsError,
        match=r"'first.kernel' is missing; 'first.kernal' is no name of it. Did you mean "
        r"'first.kernel'.*; scale has the shape \[3\], expected \[\]",
    ):
        net.load_state_dict(state)
    assert all(np.array_equal(a.numpy(), before[n]) for n, a in net.state_dict().items())
    del state["scale"]
    found = net.load_state_dict(state, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["scale", "first.kernel"], ["first.kernal"])
    assert not net.state_dict()["blocks.0.norm.gamma"].numpy().any()


def test_copies_have_weights_of_their_own(net):
    net.eval()
    expected = net(x(4, 2)).numpy().copy()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert np.array_equal(other(x(4, 2)).numpy(), expected)
        with no_grad():
            other.first.kernel.array[...] = 0
        assert not np.array_equal(other(x(4, 2)).numpy(), expected)
        assert np.array_equal(net(x(4, 2)).numpy(), expected)


def test_a_module_without_forward():
    with pytest.raises(UsageError, match="Empty does not define forward"):
        type("Empty", (Module,), {})()(1)


def test_repr_shows_what_is_inside(net):
    assert "  (blocks): ModuleList(\n    (0-1): 2 x Block(\n      (inner): Dense(3, activation=Tanh())" in repr(net)
    assert repr(type("Empty", (Module,), {})()) == "Empty()"


def test_layers_in_a_list_are_no_children_and_a_warning_says_so():
    class Bad(Module):
        def __init__(self):
            self.heads = [Dense(1)]

    with pytest.warns(ModelWarning, match=r"Bad.heads is a list of modules.*make it nn.ModuleList"):
        assert list(Bad().children()) == []


def test_extra_losses_of_layers():
    net = nn.Sequential(Dense(2), ActivityRegularization(l2=0.5))
    y = net(x(4, 3))
    assert np.isclose(net.losses()[0].item(), 0.5 * (y.numpy() ** 2).sum() / 4)


def test_a_shape_error_names_the_layer():
    layer = Dense(2)
    layer(x(1, 2))
    with pytest.raises(ShapeError, match=r"layer 'Dense' \(Dense\).*kernel.*it reads \[3\]"):
        layer(x(1, 3))
