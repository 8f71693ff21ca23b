"""Caffe's LSTM, RNN and LSTMUnit against their definitions in PyTorch, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.caffe import Net
from prototorch.errors import TextError
from tests.caffe.layer_runner import inputs_text, run_layer, translate

torch = pytest.importorskip("torch")
T, N, D, H, S = 4, 3, 5, 2, 6


def text(type_name: str, bottoms: str, tops: str, fields: str = "") -> str:
    names = " ".join(f'bottom: "{b}"' for b in bottoms.split()) + " " + " ".join(f'top: "{t}"' for t in tops.split())
    return f'layer {{ name: "r" type: "{type_name}" {names} recurrent_param {{ num_output: {H} {fields} }} }}'


def arrays(is_lstm: bool, has_static: bool, exposed: bool, binary: bool = True):
    rng = np.random.default_rng([is_lstm, has_static, exposed])
    wide = 4 * H if is_lstm else H
    cont = (rng.random((T, N)) < 0.6).astype(float)
    inputs = {"x": rng.normal(size=(T, N, D)), "cont": cont if binary else rng.random((T, N))}
    if has_static:
        inputs["s"] = rng.normal(size=(N, S))
    if exposed:
        inputs |= {"h0": rng.normal(size=(1, N, H))} | ({"c0": rng.normal(size=(1, N, H))} if is_lstm else {})
    shapes = [(wide, D), (wide,), *([(wide, S)] if has_static else []), (wide, H)]
    shapes += [] if is_lstm else [(H, H), (H,)]
    return inputs, [rng.normal(size=s) for s in shapes]


def reference(is_lstm: bool, inputs: dict, blobs: list, has_static: bool):
    """The tops, as Caffe unrolls them."""
    w, b, *rest = blobs
    part = inputs["x"] @ w.T + b
    if has_static:
        part = part + (inputs["s"] @ rest.pop(0).T)[None]
    u = rest[0]
    h = inputs["h0"][0].detach() if "h0" in inputs else torch.zeros(N, H, dtype=torch.float64)
    c = inputs["c0"][0].detach() if "c0" in inputs else torch.zeros(N, H, dtype=torch.float64)
    steps = []
    for t in range(len(part)):
        cont = inputs["cont"][t][:, None]
        gates = part[t] + (h * cont) @ u.T
        if is_lstm:
            i, f, o, g = gates.split(H, dim=1)
            c = cont * torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        else:
            h = torch.tanh(gates)
        steps.append(h)
    y = torch.stack(steps)
    return (y, h[None], c[None]) if is_lstm else (torch.tanh(y @ rest[1].T + rest[2]), h[None])


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("has_static", [False, True])
@pytest.mark.parametrize("type_name", ["LSTM", "RNN"])
def test_a_recurrent_layer_and_its_gradients_are_caffes(type_name, has_static, exposed):
    is_lstm = type_name == "LSTM"
    inputs, blobs = arrays(is_lstm, has_static, exposed)
    tensors = {n: torch.tensor(a, requires_grad=True) for n, a in inputs.items()}
    weights = [torch.tensor(a, requires_grad=True) for a in blobs]
    y, *states = reference(is_lstm, tensors, weights, has_static)
    seed = np.random.default_rng(1).normal(size=(T, N, H))
    y.backward(torch.tensor(seed))
    tops = "y" if not exposed else "y hT cT" if is_lstm else "y hT"
    seeds = {"y": seed}
    if exposed:  # no gradient passes through the last states
        seeds |= {n: np.ones((1, N, H)) for n in tops.split()[1:]}
    layer = text(type_name, " ".join(inputs), tops, "expose_hidden: true" if exposed else "debug_info: false")
    for dtype, rtol in (("float64", 1e-9), ("float32", 1e-4)):
        params = {("r", i): b for i, b in enumerate(blobs)}
        run = run_layer(layer, inputs, params, seeds, dtype=dtype, level="plain" if dtype == "float64" else "native")
        assert [p.shape for p in run.net.params] == [b.shape for b in blobs]
        np.testing.assert_allclose(run.blobs["y"], y.detach(), rtol=rtol, atol=rtol)
        for name, state in zip(tops.split()[1:], states, strict=False):
            np.testing.assert_allclose(run.blobs[name], state.detach(), rtol=rtol, atol=rtol)
        for name in ("x", "s")[: 1 + has_static]:
            np.testing.assert_allclose(run.input_gradients[name], tensors[name].grad, rtol=rtol, atol=rtol)
        assert not np.any(run.input_gradients.get("h0", 0))
        for i, weight in enumerate(weights):
            np.testing.assert_allclose(run.param_gradients["r", i], weight.grad, rtol=rtol, atol=rtol, err_msg=str(i))


@pytest.mark.parametrize("type_name", ["LSTM", "RNN"])
@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_the_state_goes_on_in_the_next_forward_pass(type_name, phase):
    inputs, blobs = arrays(type_name == "LSTM", False, False, binary=False)
    params = {("r", i): b for i, b in enumerate(blobs)}
    layer = text(type_name, "x cont", "y")
    whole = {n: torch.tensor(np.concatenate([a, a])) for n, a in inputs.items()}
    first = run_layer(layer, inputs, params, {}, phase)
    assert {n.rpartition("/")[2] for n in first.updates} == (
        {"state_h", "state_c"} if type_name == "LSTM" else {"state_h"}
    )
    second = run_layer(layer, inputs, params, {}, phase, states=first.updates)
    expected = reference(type_name == "LSTM", whole, [torch.tensor(b) for b in blobs], False)[0]
    np.testing.assert_allclose(np.concatenate([first.blobs["y"], second.blobs["y"]]), expected, rtol=1e-9)


def test_lstm_unit_is_caffes():
    rng = np.random.default_rng(2)
    inputs = {"c": rng.normal(size=(1, N, H)), "g": rng.normal(size=(1, N, 4 * H)), "cont": np.array([[1.0, 0, 1]])}
    layer = 'layer { name: "u" type: "LSTMUnit" bottom: "c" bottom: "g" bottom: "cont" top: "c1" top: "h1" }'
    seeds = {"c1": rng.normal(size=(1, N, H)), "h1": rng.normal(size=(1, N, H))}
    run = run_layer(layer, inputs, seeds=seeds)
    c, g = (torch.tensor(inputs[n], requires_grad=True) for n in "cg")
    i, f, o, z = g.split(H, dim=2)
    c1 = torch.tensor(inputs["cont"])[..., None] * torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
    h1 = torch.sigmoid(o) * torch.tanh(c1)
    (c1 * torch.tensor(seeds["c1"]) + h1 * torch.tensor(seeds["h1"])).sum().backward()
    for got, expected in (
        (run.blobs["c1"], c1.detach()),
        (run.blobs["h1"], h1.detach()),
        (run.input_gradients["c"], c.grad),
        (run.input_gradients["g"], g.grad),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("shapes", "fields", "expected"), [
    (((4, 3), (4, 3)), "", "at least 3 axes"),
    (((4, 3, 2), (4, 2)), "", r"second bottom.*\[4, 3\].*not \[4, 2\]"),
    (((4, 3, 2), (4, 3), (2, 5)), "", r"static bottom must have the shape \[3, ...\]"),
    (((4, 3, 2), (4, 3)), "expose_hidden: true", "it has 2 bottoms"),
    (((4, 3, 2), (4, 3), (1, 3, 2), (1, 2, 2)), "expose_hidden: true", r"hidden state must have the shape \[1, 3, 2\]"),
])  # fmt: skip
def test_mistakes_are_named(shapes, fields, expected):
    inputs = {f"b{i}": np.zeros(s) for i, s in enumerate(shapes)}
    tops = "y h c" if fields else "y"
    with pytest.raises(TextError, match=f"layer 'r'.*{expected}"):
        translate(inputs_text(inputs) + text("LSTM", " ".join(inputs), tops, fields))


def test_num_output_must_be_positive():
    with pytest.raises(TextError, match="num_output must be positive"):
        translate(inputs_text({"x": np.zeros((2, 2, 2)), "c": np.zeros((2, 2))})
                  + 'layer { name: "r" type: "LSTM" bottom: "x" bottom: "c" top: "y" }')  # fmt: skip


NET = f"""
layer {{ name: "x" type: "Input" top: "x" top: "cont"
        input_param {{ shape {{ dim: {T} dim: {N} dim: {D} }} shape {{ dim: {T} dim: {N} }} }} }}
{text("LSTM", "x cont", "y", "weight_filler { type: 'xavier' }")}
"""


def test_a_net_keeps_its_state_until_its_streams_change(tmp_path):
    import prototorch.caffe as caffe

    (tmp_path / "n.prototxt").write_text(NET)
    net = caffe.Net(str(tmp_path / "n.prototxt"), caffe.TEST)
    x = np.random.default_rng(0).normal(size=(T, N, D))
    cont = np.ones((T, N))
    first = net.forward(x=x, cont=cont)["y"].copy()
    second = net.forward(x=x, cont=cont)["y"].copy()
    assert np.abs(first - second).max() > 1e-4
    cont[0] = 0
    np.testing.assert_allclose(net.forward(x=x, cont=cont)["y"], first, rtol=1e-6)
    for streams in (1, N + 2, N):  # with other streams the state starts at 0
        net.blobs["x"].reshape(T, streams, D)
        net.blobs["cont"].reshape(T, streams)
        n = min(streams, N)
        data = np.zeros((T, streams, D))
        data[:, :n] = x[:, :n]
        found = net.forward(x=data, cont=np.ones((T, streams)))["y"]
        np.testing.assert_allclose(found[:, :n], first[:, :n], rtol=1e-5, atol=1e-7)


def test_more_time_steps_than_a_net_may_have(tmp_path, monkeypatch):
    def open_net(steps):
        text = f"""layer {{ name: "d" type: "Input" top: "d" top: "c"
          input_param {{ shape {{ dim: {steps} dim: 1 dim: 1 }} shape {{ dim: {steps} dim: 1 }} }} }}
        layer {{ name: "l" type: "LSTM" bottom: "d" bottom: "c" top: "o" recurrent_param {{ num_output: 1 }} }}"""
        path = tmp_path / "net.prototxt"
        path.write_text(text)
        return Net(path, "TRAIN")

    with pytest.raises(TextError, match=r"net.prototxt:3:9: layer 'l' \(LSTM\): .* 100,000 time steps; at most 10,000"):
        open_net(100_000)
    monkeypatch.setattr("prototorch.caffe.interop.translate.MAX_NET_SIZE", 60)
    assert open_net(2).forward()["o"].shape == (2, 1, 1)
    with pytest.raises(TextError, match=r"layer 'l' \(LSTM\): the net has more than 60 ops and weights"):
        open_net(20)
