"""Static graphs in files: they go on where they were, without the code that made them; wrong files are refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError, PrototorchError, UsageError

RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((8, 4)).astype("float32"), RNG.standard_normal((8, 2)).astype("float32")


def make() -> pt.Graph:
    x, y = pt.Input((4,), name="x"), pt.Input((2,), name="y")
    w = pt.Variable(RNG.standard_normal((6, 2)).astype("float32"), name="w")
    hidden = pt.layers.Dense(6, activation="tanh")(x)
    out = hidden @ w + np.float32([1, 2])
    loss = ((out[:, ::1] - y) ** 2).mean()
    counter = pt.Variable(0, name="counter", trainable=False)
    step = pt.optimizers.Adam(0.01).minimize(loss)
    grads = pt.gradients(loss, [w, x])
    return pt.Graph([x, y], [loss, counter, *grads, pt.cat([out, out], dim=1)], [step, pt.group(counter.assign_add(1))])


def test_a_graph_goes_on_from_its_file(tmp_path):
    graph = make()
    for _ in range(3):
        graph(X, Y)
    graph.save(tmp_path / "g.h5")
    other = pt.Graph.load(tmp_path / "g.h5")
    for _ in range(3):
        for a, b in zip(graph(X, Y), other(X, Y), strict=True):
            np.testing.assert_array_equal(a, b)
    assert [v.name for v in other.variables] == [v.name for v in graph.variables]


def test_another_process_runs_it(tmp_path):
    graph = make()
    graph(X, Y)
    graph.save(tmp_path / "g.h5")
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    code = (
        "import numpy as np, prototorch as pt; d = np.load('data.npz'); "
        "print(float(pt.Graph.load('g.h5')(d['x'], d['y'])[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(float(graph(X, Y)[0]))


def test_what_a_file_cannot_hold(tmp_path):
    class Own(pt.Layer):
        def call(self, ctx, x):
            return x

    x = pt.Input((2,))
    with pytest.raises(UsageError, match="defined in Python"):
        pt.Graph(x, Own()(x)).save(tmp_path / "g.h5")
    pt.Graph(x, x + 1).save(tmp_path / "g.h5")
    with pytest.raises(ModelFileError, match="not a saved model"):
        pt.load_model(tmp_path / "g.h5")


def test_damaged_graphs_are_refused(tmp_path):
    graph = make()
    graph(X, Y)
    graph.save(tmp_path / "g.h5")
    contents = container.read(tmp_path / "g.h5")
    whole = json.loads(contents.meta["graph"])
    rng = random.Random(0)
    refused = 0
    for _ in range(150):
        content = json.loads(json.dumps(whole))
        node = content
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = rng.choice(keys)
            if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.15:
                break
            node = node[key]
        if rng.random() < 0.3:
            del node[key]
        else:
            node[key] = rng.choice([None, -1, 10**30, "x", [], {}, [[]], {"symbol": [0, 0]}, "Dense { units: 0 }", 1.5])
        container.write(tmp_path / "bad.h5", contents.arrays, {**contents.meta, "graph": json.dumps(content)})
        try:
            pt.Graph.load(tmp_path / "bad.h5")(X, Y)
        except PrototorchError:
            refused += 1
    assert refused > 75
