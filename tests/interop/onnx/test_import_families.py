"""Families of ops on import: recurrent layers and resampling, compared with ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.interop.onnx.onnx_models import assert_same_outputs, export, make_model, node, save

torch = pytest.importorskip("torch")
nn = torch.nn
RNG = np.random.default_rng(0)


class Head(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.out = rnn, nn.Linear(rnn.hidden_size * (1 + rnn.bidirectional), 3)

    def forward(self, x):
        y, last = self.rnn(x)
        return self.out(y), (last[0] if isinstance(last, tuple) else last)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}], ids=str)
def test_torch_recurrent_layers(tmp_path, kind, options):
    rnn = getattr(nn, kind)(5, 4, batch_first=True, **options)
    path = export(Head(rnn).eval(), [torch.randn(2, 6, 5)], tmp_path / "net.onnx", False)
    model = assert_same_outputs(path, [RNG.standard_normal((3, 6, 5)).astype(np.float32)])
    kinds = [type(n.layer).__name__ for n in model.net.nodes]
    assert kinds.count(
        "Bidirectional" if options.get("bidirectional") else kind.replace("RNN", "SimpleRNN")
    ) == options.get("num_layers", 1)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("after", [0, 1])
def test_recurrent_nodes_with_first_states(tmp_path, kind, gates, direction, after):
    if after and kind != "GRU":
        pytest.skip("GRU alone has two forms of the reset gate")
    ways, units = 1 + (direction == "bidirectional"), 4
    weights = {
        "w": RNG.standard_normal((ways, gates * units, 3)),
        "r": RNG.standard_normal((ways, gates * units, units)),
        "b": RNG.standard_normal((ways, 2 * gates * units)),
    }
    attributes = {"linear_before_reset": after} if kind == "GRU" else {}
    states = ["h"] + ["c"] * (kind == "LSTM")
    one = node(
        kind, ["x", "w", "r", "b", "", *states], ["y", "y_h"], hidden_size=units, direction=direction, **attributes
    )
    inputs = {"x": [5, "N", 3], **{s: [ways, "N", units] for s in states}}
    weights = {n: (a * 0.5).astype(np.float32) for n, a in weights.items()}
    path = save(make_model([one], inputs, ["y", "y_h"], weights), tmp_path / "net.onnx")
    feeds = [RNG.standard_normal((5, 2, 3)), *[RNG.standard_normal((ways, 2, units)) for _ in states]]
    assert_same_outputs(path, [f.astype(np.float32) for f in feeds], batch_axis=1)


RESIZE = list(itertools.product(["nearest", "linear", "cubic"], ["half_pixel", "align_corners", "asymmetric"], [0, 1]))


@pytest.mark.parametrize(("mode", "coordinates", "antialias"), RESIZE)
def test_resize(tmp_path, mode, coordinates, antialias):
    if antialias and mode == "nearest":
        pytest.skip("the nearest element has no kernel that is widened")
    x = RNG.standard_normal((2, 2, 7, 9)).astype(np.float32)
    for number, size in enumerate(([4, 5], [14, 27], [7, 4])):
        one = node(
            "Resize",
            ["x", "", "", "s"],
            ["y"],
            mode=mode,
            antialias=antialias,
            coordinate_transformation_mode=coordinates,
        )
        sizes = {"s": np.array([2, 2, *size])}
        path = save(make_model([one], {"x": [2, 2, 7, 9]}, ["y"], sizes), tmp_path / f"{number}.onnx")
        assert_same_outputs(path, [x])
