"""Modules against PyTorch's: names, state dictionaries, hooks, phases, texts."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import UsageError, WeightsError


def scale_module(lib, base):
    class Scale(base):
        def __init__(self, n):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.tensor([float(i + 1) for i in range(n)]))
            self.register_parameter("bias", None)
            self.register_buffer("count", lib.tensor(0.0))
            self.register_buffer("hidden", lib.tensor([1.0]), persistent=False)

        def forward(self, x, factor=1.0):
            return x * self.weight * factor

        def extra_repr(self):
            return f"n={len(self.weight)}"

    return Scale


def build(lib):
    scale = scale_module(lib, lib.nn.Module)

    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = scale(3)
            self.blocks = lib.nn.ModuleList([scale(3), scale(3), scale(2)])
            self.named = lib.nn.ModuleDict({"x": scale(3), "y": lib.nn.Sequential(scale(3), scale(3))})
            self.seq = lib.nn.Sequential(OrderedDict([("first", scale(3)), ("second", scale(3))]))
            self.values = lib.nn.ParameterList([lib.tensor([1.0, 2.0]), lib.tensor([3.0])])
            self.table = lib.nn.ParameterDict({"k": lib.tensor([[1.0]])})
            self.shared = self.a
            self.nothing = None

        def forward(self, x):
            return self.seq(self.named["y"](self.blocks[1](self.a(x))))

    return Net()


@pytest.fixture
def pair():
    return build(pt), build(torch)


def test_names_are_those_of_pytorch(pair):
    ours, theirs = pair
    for method in ("named_parameters", "named_buffers", "named_children", "named_modules"):
        assert [n for n, _ in getattr(ours, method)()] == [n for n, _ in getattr(theirs, method)()], method
    assert [n for n, _ in ours.named_parameters(prefix="p", recurse=False)] == []
    assert [n for n, _ in ours.a.named_parameters("p")] == ["p.weight"]
    names = lambda net: [n for n, _ in net.named_parameters(remove_duplicate=False)]  # noqa: E731
    assert names(ours) == names(theirs)
    assert len(list(ours.parameters())) == len(list(theirs.parameters()))


def test_the_state_is_that_of_pytorch_both_ways(pair):
    ours, theirs = pair
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert list(state._metadata) == list(theirs.state_dict()._metadata)
    with torch.no_grad():
        for p in theirs.parameters():
            p += 0.5
    assert repr(ours.load_state_dict(theirs.state_dict())) == repr(theirs.load_state_dict(theirs.state_dict()))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.allclose(ours(pt.tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy())
    theirs.load_state_dict({k: torch.tensor(v.numpy() * 2) for k, v in ours.state_dict().items()})
    assert np.allclose(theirs.a.weight.detach().numpy(), 2 * ours.a.weight.numpy())


def test_the_state_shares_its_memory_and_can_be_assigned(pair):
    ours, _ = pair
    state = ours.state_dict(prefix="net.")
    assert next(iter(state)) == "net.values.0" or all(k.startswith("net.") for k in state)
    assert state["net.a.weight"].numpy() is not None
    assert np.shares_memory(state["net.a.weight"].numpy(), ours.a.weight.numpy())
    assert ours.state_dict(keep_vars=True)["a.weight"] is ours.a.weight
    values = {
        k: v.clone().double() if hasattr(v, "double") else pt.tensor(v.numpy(), dtype=pt.float64)
        for k, v in ours.state_dict().items()
    }
    ours.load_state_dict(values, assign=True)
    assert ours.a.weight.dtype == pt.float64
    assert isinstance(ours.a.weight, nn.Parameter)
    assert ours.a.weight.requires_grad


def test_bfloat16_tensors_of_pytorch_load(pair):
    ours, theirs = pair
    ours.load_state_dict({k: v.to(torch.bfloat16) for k, v in theirs.state_dict().items()})
    assert ours.a.weight.numpy().tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("a.weight"), "'a.weight' is missing"),
        (lambda s: s.update(other=pt.tensor(1.0)), "'other' is no name of it"),
        (lambda s: s.update({"a.weight": pt.tensor([1.0])}), r"a.weight has the shape \[1\], expected \[3\]"),
        (lambda s: s.update({"a.weight": "x"}), "a.weight is no tensor but a str"),
    ],
)
def test_a_state_that_does_not_fit(pair, change, message):
    state = pair[0].state_dict()
    change(state)
    with pytest.raises(WeightsError, match=message):
        pair[0].load_state_dict(state)


def test_texts_are_those_of_pytorch(pair):
    ours, theirs = pair
    assert repr(ours) == repr(theirs).replace("torch.FloatTensor", "torch.float32").replace("torch.", "prototorch.")


def test_copies_and_pickles_are_modules_of_their_own():
    net = nn.Sequential(nn.ParameterList([pt.tensor([1.0])]))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(other[0][0], nn.Parameter)
        assert other[0][0].requires_grad
        assert not np.shares_memory(other[0][0].numpy(), net[0][0].numpy())
        assert list(other.state_dict()) == list(net.state_dict())


def test_hooks_are_called_as_by_pytorch(pair):
    def run(lib, net):
        calls = []
        handles = [
            net.a.register_forward_pre_hook(lambda m, args: calls.append(("pre", len(args)))),
            net.a.register_forward_pre_hook(
                lambda m, args, kwargs: ((args[0] * 2,), {"factor": 3.0}), with_kwargs=True, prepend=True
            ),
            net.a.register_forward_hook(lambda m, args, out: out + 1),
            net.a.register_forward_hook(lambda m, a, kw, out: calls.append(sorted(kw)), with_kwargs=True),
            net.seq.first.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)),
            net.seq.first.register_full_backward_hook(
                lambda m, gi, go: calls.append((gi[0].tolist(), go[0].tolist())) or (gi[0] * 3,)
            ),
        ]
        x = lib.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
        net(x).sum().backward()
        calls += [net.a(x).tolist(), x.grad.tolist()]
        for handle in handles:
            handle.remove()
        calls.append(net.a(x).tolist())
        return calls

    assert run(pt, pair[0]) == run(torch, pair[1])


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_a_backward_hook_without_a_gradient_of_the_input(pair):
    def run(lib, net):
        calls = []
        net.a.register_full_backward_hook(lambda m, gi, go: calls.append((gi, go[0].tolist())))
        net(lib.tensor([[1.0, -2.0, 3.0]])).sum().backward()
        return calls

    assert run(pt, pair[0]) == run(torch, pair[1])


def test_a_forward_hook_that_is_always_called(pair):
    calls = []
    pair[0].a.register_forward_hook(lambda m, a, out: calls.append(out), always_call=True)
    with pytest.raises(TypeError):
        pair[0].a()
    assert calls == [None]


def test_phases_types_and_gradients(pair):
    ours, _ = pair
    assert ours.training
    assert not any(m.training for m in ours.eval().modules())
    assert all(m.training for m in ours.train().modules())
    with pytest.raises(UsageError, match="True or False"):
        ours.train("yes")
    ours.double()
    assert {p.dtype for p in ours.parameters()} == {pt.float64}
    assert {b.dtype for b in ours.buffers()} == {pt.float64}
    assert ours.to(pt.float16).a.weight.dtype == pt.float16
    assert ours.to("cpu", pt.float32).a.weight.dtype == pt.float32
    with pytest.raises(UsageError, match="floating-point"):
        ours.to(pt.int64)
    weight = ours.a.weight
    ours(pt.tensor([[1.0, 2.0, 3.0]])).sum().backward()
    assert weight.grad is not None
    ours.zero_grad(set_to_none=False)
    assert not weight.grad.numpy().any()
    ours.zero_grad()
    assert weight.grad is None
    ours.requires_grad_(False)
    assert not any(p.requires_grad for p in ours.parameters())


def test_containers_behave_as_lists_and_dicts():
    def run(lib):
        scale = scale_module(lib, lib.nn.Module)
        made = lib.nn.ModuleList([scale(1)])
        made.append(scale(2))
        made.extend([scale(3), scale(4)])
        made.insert(1, scale(5))
        del made[0]
        made[0] = scale(6)
        seq = lib.nn.Sequential(*made)
        del seq[1]
        names = lib.nn.ModuleDict([("a", scale(1)), ("b", scale(2))])
        names.update({"c": scale(3)})
        popped = names.pop("a")
        values = lib.nn.ParameterList([lib.tensor([1.0])])
        values.append(lib.tensor([2.0]))
        values += [lib.tensor([3.0])]
        return [
            repr(m).replace("prototorch.", "torch.")
            for m in (made, made[1:], made[-1], seq, seq[:2], names, popped, values, values[1:])
        ] + [len(made), list(names), len(seq), "b" in names]

    assert run(pt) == run(torch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.register_parameter("a.b", None), "must not be empty or contain a '.'"),
        (lambda m: m.register_parameter("forward", None), "has an attribute 'forward' already"),
        (lambda m: m.register_parameter("p", pt.tensor(1.0)), "expected an nn.Parameter or None, got Tensor"),
        (lambda m: m.register_buffer("b", 3), "expected a tensor or None, got int"),
        (lambda m: m.register_buffer("training", None), "has an attribute 'training' already"),
        (lambda m: m.add_module("m", 3), "expected a module or None, got int"),
        (lambda m: setattr(m.a, "weight", pt.tensor(1.0)), "'weight' is a parameter of Scale"),
        (lambda m: setattr(m, "a", 3), "'a' is a child of Net"),
        (lambda m: setattr(m.a, "count", 3), "'count' is a buffer of Scale"),
        (lambda m: m.get_submodule("blocks.7"), "ModuleList has no child '7'"),
        (lambda m: m.get_parameter("a.wieght"), "Did you mean 'weight'"),
        (lambda m: nn.Parameter(3), "expected a tensor, got int"),
        (lambda m: nn.Parameter(pt.tensor([1])), "dtype int64 has no gradient"),
        (lambda m: nn.Sequential([m.a]), "takes the modules themselves"),
        (lambda m: m.load_state_dict([1]), "expected a dictionary of tensors, got list"),
        (lambda m: m.register_forward_hook(3), "a hook must be callable"),
        (lambda m: nn.Module(3), "takes none: int"),
    ],
)  # fmt: skip
def test_mistakes_say_what_was_given(pair, call, message):
    with pytest.raises(UsageError, match=message):
        call(pair[0])


def test_paths_lead_to_members(pair):
    ours, _ = pair
    assert ours.get_submodule("named.y.1") is ours.named["y"][1]
    assert ours.get_parameter("seq.second.weight") is ours.seq.second.weight
    assert ours.get_buffer("a.count") is ours.a.count
    ours.set_submodule("named.y.1", nn.Sequential())
    assert len(ours.named["y"][1]) == 0
    with pytest.raises(AttributeError, match="no attribute 'name'"):
        _ = ours.name


def test_own_loading_and_extra_state():
    class Versioned(nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(pt.tensor([1.0]))
            self.extra = 1

        def get_extra_state(self):
            return self.extra

        def set_extra_state(self, state):
            self.extra = state

        def _load_from_state_dict(self, state, prefix, metadata, *rest):
            if metadata.get("version") is None and prefix + "v" in state:
                state[prefix + "w"] = state.pop(prefix + "v")
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    net = nn.Sequential(Versioned())
    assert net.state_dict()._metadata["0"] == {"version": 2}
    net.load_state_dict({"0.v": np.array([4.0], "float32"), "0._extra_state": 9})
    assert (net[0].w.item(), net[0].extra) == (4.0, 9)


def test_a_parameter_is_a_leaf_that_an_op_does_not_make():
    weight = nn.Parameter(pt.tensor([1.0, 2.0]))
    assert type(weight * 2) is pt.Tensor
    assert type(weight.detach()) is pt.Tensor
    assert repr(weight) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert not nn.Parameter(pt.tensor([1]), requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)


def test_names_of_a_state_are_strings():
    with pytest.raises(UsageError, match="names of a state are strings, got 1"):
        pt.nn.Linear(3, 2).load_state_dict({1: 2})


def test_python_s_round():
    assert round(pt.tensor([1.2345, 2.5]), 2).tolist() == pytest.approx([1.23, 2.5])
