"""Declared models as children of modules."""

import copy

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers, nn
from prototorch.errors import UsageError, WeightsError


class Net(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


def backbone():
    x = pt.Input((6,))
    y = layers.BatchNormalization(name="norm")(layers.Dense(8, activation="relu", name="hidden")(x))
    return pt.Model(x, layers.Dense(4, name="features")(y), name="backbone")


NAMES = ["hidden.kernel", "hidden.bias", "norm.gamma", "norm.beta", "features.kernel", "features.bias"]
STATISTICS = ["norm.moving_mean", "norm.moving_variance"]


@pytest.fixture
def net():
    pt.manual_seed(3)
    return Net(backbone())


def batch():
    rng = np.random.default_rng(0)
    return pt.tensor(rng.standard_normal((16, 6)).astype("float32")), pt.tensor(rng.integers(0, 3, 16))


def test_weights_are_parameters_and_buffers(net):
    assert [n for n, _ in net.named_parameters() if n.startswith("backbone")] == [f"backbone.{n}" for n in NAMES]
    assert [n for n, _ in net.named_buffers()] == [f"backbone.{n}" for n in STATISTICS]
    assert all(p.requires_grad for p in net.parameters())
    assert set(net.state_dict()) == {f"backbone.{n}" for n in NAMES + STATISTICS} | {"head.weight", "head.bias"}
    assert len(list(net.parameters())) == len(NAMES) + 2


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_optimizer_trains_all_weights(net, optimizer, is_compiled):
    before = {n: np.array(p.detach().numpy()) for n, p in net.state_dict().items()}
    method = getattr(pt.optim, optimizer)(net.parameters(), lr=0.01)

    def step(x, y):
        method.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        method.step()
        return loss.detach()

    run = pt.compile(step) if is_compiled else step
    losses = [run(*batch()).item() for _ in range(30)]
    assert losses[-1] < losses[0] - 0.1
    after = net.state_dict()
    assert [n for n in before if np.array_equal(before[n], after[n].numpy())] == []
    np.testing.assert_array_equal(net.backbone.model.weights["hidden/kernel"], after["backbone.hidden.kernel"].numpy())


def test_steps_are_those_of_the_same_net_of_modules(net):
    peer = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8, eps=1e-3, momentum=0.01), nn.Linear(8, 4))
    weights = net.state_dict()
    with pt.no_grad():
        for module, name in ((peer[0], "hidden"), (peer[3], "features")):
            module.weight.copy_(weights[f"backbone.{name}.kernel"].T)
            module.bias.copy_(weights[f"backbone.{name}.bias"])
    other = Net(peer)
    other.head.load_state_dict(net.head.state_dict())
    for module in (net, other):
        method = pt.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            method.zero_grad()
            nn.functional.cross_entropy(module(batch()[0]), batch()[1]).backward()
            method.step()
    ours, theirs = net.state_dict()["backbone.hidden.kernel"].numpy(), peer[0].weight.detach().numpy().T
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_predict_sees_the_trained_weights_and_the_phase_is_the_modules(net):
    x, _ = batch()
    model = net.backbone.model
    net.eval()
    before = net.backbone(x).detach().numpy()
    np.testing.assert_allclose(model.predict(x.numpy(), verbose=0), before, rtol=1e-5, atol=1e-6)
    mean = np.array(model.weights["norm/moving_mean"])
    net.backbone(x)
    np.testing.assert_array_equal(model.weights["norm/moving_mean"], mean)
    net.train()
    net.backbone(x)
    assert not np.array_equal(model.weights["norm/moving_mean"], mean)
    with pt.no_grad():
        net.backbone.get_parameter("features.bias").add_(1.0)
    net.eval()
    after = model.predict(x.numpy(), verbose=0)
    np.testing.assert_allclose(after, net.backbone(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(after, before)


def test_state_dict_round_trip(net, tmp_path):
    pt.save(net.state_dict(), tmp_path / "net.pt")
    other = Net(backbone())
    assert str(other.load_state_dict(pt.load(tmp_path / "net.pt"))) == "<All keys matched successfully>"
    x, _ = batch()
    np.testing.assert_array_equal(net.eval()(x).detach().numpy(), other.eval()(x).detach().numpy())
    state = dict(net.state_dict())
    state.pop("backbone.hidden.bias")
    with pytest.raises(WeightsError, match=r"backbone\.hidden\.bias' is missing"):
        other.load_state_dict(state)


def test_freezing(net):
    net.backbone.requires_grad_(False)
    kernel = net.backbone.get_parameter("hidden.kernel")
    nn.functional.cross_entropy(net(batch()[0]), batch()[1]).backward()
    assert kernel.grad is None
    assert net.head.weight.grad is not None
    assert net.backbone.get_parameter("hidden.kernel") is kernel
    net.backbone.requires_grad_(True)
    nn.functional.cross_entropy(net(batch()[0]), batch()[1]).backward()
    assert kernel.grad is not None


def test_layers_that_the_model_freezes_have_no_gradient():
    model = backbone()
    model.freeze("hidden", "norm")
    net = Net(model)
    trained = [n for n, p in net.named_parameters() if p.requires_grad]
    assert trained == ["backbone.features.kernel", "backbone.features.bias", "head.weight", "head.bias"]
    assert [n for n, _ in net.named_buffers()] == [f"backbone.{n}" for n in STATISTICS]


def test_to_says_what_it_cannot_do(net):
    net.to("cpu").float()
    with pytest.raises(UsageError, match="weights of a declared model are float32 on the cpu"):
        net.double()


def test_functional_call(net):
    x, _ = batch()
    net.eval()
    zeros = {n: pt.zeros_like(p) for n, p in net.named_parameters()}
    y = pt.func.functional_call(net, zeros, (x,))
    np.testing.assert_array_equal(y.numpy(), np.zeros((16, 3), "float32"))
    assert np.abs(net(x).detach().numpy()).max() > 0


def test_inputs_of_unknown_size():
    x = pt.Input((None, 3))
    model = pt.Model(x, layers.GlobalAveragePooling1D()(layers.Dense(2, name="d")(x)))
    net = nn.Sequential(model)
    state = {"0.d.kernel": pt.ones(3, 2), "0.d.bias": pt.zeros(2)}
    net.load_state_dict(state)
    y = net(pt.ones(1, 4, 3))
    assert [n for n, _ in net.named_parameters()] == ["0.d.kernel", "0.d.bias"]
    assert np.array_equal(net[0].get_parameter("d.kernel").detach().numpy(), np.ones((3, 2)))
    assert y.detach().numpy().max() > 0


def test_lists_of_models_are_reported_and_containers_hold_them():
    with pytest.warns(pt.errors.ModelWarning, match="nn.ModuleList"):
        nn.Module().parts = [backbone()]
    assert len(list(nn.ModuleList([backbone(), backbone()]).parameters())) == 2 * len(NAMES)
    assert isinstance(copy.copy(nn.ModuleDict({"a": backbone()})), nn.ModuleDict)


def test_methods_of_the_model(net):
    net.backbone.compile("sgd", "mse")
    net.backbone.trainable = False
    assert not any(p.requires_grad for p in net.backbone.parameters())
    assert net.backbone.predict(batch()[0].numpy(), verbose=0).shape == (16, 4)


def test_members_by_path(net):
    assert net.get_parameter("backbone.hidden.kernel") is dict(net.named_parameters())["backbone.hidden.kernel"]
    assert net.get_buffer("backbone.norm.moving_mean").shape == (8,)
    with pytest.raises(UsageError, match=r"no parameter 'hidden\.kernl'"):
        net.get_parameter("backbone.hidden.kernl")
