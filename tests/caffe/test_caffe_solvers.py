"""Solvers beside real Caffe: the weights after each of five iterations, losses, history (tests/caffe/golden)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from prototorch.caffe.solver import get_solver
from prototorch.caffe.solver_snapshot import read_history
from tests.caffe.golden import GOLDEN, TOLERANCES

SOLVERS = GOLDEN / "solvers"
NAMES = sorted(path.name.removesuffix(".npz") for path in SOLVERS.glob("*.npz"))


class Run:
    """A golden run: its arrays in one precision, and a solver with its first weights."""

    def __init__(self, name: str, dtype: str):
        with np.load(SOLVERS / f"{name}.npz") as file:
            every = {key: file[key] for key in file.files}
        self.meta = json.loads(str(every.pop("meta"))) if "meta" in every else {}
        wide = {key.removeprefix("f64/"): array for key, array in every.items() if key.startswith("f64/")}
        self.arrays = {**every, **wide} if dtype == "float64" else every
        self.dtype = dtype
        self.solver = get_solver(SOLVERS / f"{name}.solver.prototxt", precision=dtype)
        self.set_weights(0)

    def keys(self, iteration: int):
        """Layer, index and array of the weights after an iteration."""
        for key, array in self.arrays.items():
            parts = key.split("/")
            if parts[0] == "w" and int(parts[1]) == iteration:
                yield "/".join(parts[2:-1]), int(parts[-1]), array

    def set_weights(self, iteration: int) -> None:
        """Set the weights to those after an iteration."""
        for layer, index, array in self.keys(iteration):
            self.solver.net.params[layer][index].data[...] = array

    def assert_close(self, actual, expected, what):
        """Compare with a tolerance relative to the largest element."""
        tolerance, scale = TOLERANCES[self.dtype], float(np.max(np.abs(expected), initial=0.0))
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)

    def check(self, iteration: int) -> None:
        """Compare the weights after an iteration, and the loss of its last batch."""
        count = 0
        for layer, index, array in self.keys(iteration):
            count += 1
            actual = np.array(self.solver.net.params[layer][index].data)
            self.assert_close(actual, array, f"{layer}/{index} after {iteration}")
        assert count
        self.assert_close(self.solver.net.blobs["loss"].data, self.arrays[f"loss/{iteration}"], f"loss {iteration}")


@pytest.fixture(autouse=True)
def _closed(monkeypatch):
    made = []
    monkeypatch.chdir(SOLVERS)
    original = Run.__init__

    def record(self, *args):
        original(self, *args)
        made.append(self)

    monkeypatch.setattr(Run, "__init__", record)
    yield
    for run in made:
        run.solver.close()


def test_every_golden_run_is_there():
    assert len(NAMES) == 13


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_one_plan_an_iteration_is_caffe(name, dtype):
    run = Run(name, dtype)
    for iteration in range(1, 6):
        run.solver.param.max_iter = iteration
        run.solver.solve()
        run.check(iteration)
    history = read_history(run.solver.net, run.solver.type)
    expected = [run.arrays[f"history/{i}"] for i in range(len(history))]
    for i, (mine, theirs) in enumerate(zip(history, expected, strict=True)):
        run.assert_close(mine, theirs, f"history {i}")
    assert f"history/{len(history)}" not in run.arrays


@pytest.mark.parametrize("name", NAMES)
def test_layer_by_layer_is_caffe(name):
    run = Run(name, "float32")
    before = {}
    for iteration in range(1, 6):
        for layer, blobs in run.solver.net.params.items():
            before.update({(layer, i): np.array(blob.data) for i, blob in enumerate(blobs)})
        run.solver.step(1)
        run.check(iteration)
        for (layer, i), data in before.items():
            if layer in ("ip1", "ip2", "conv", "ip"):
                blob = run.solver.net.params[layer][i]
                np.testing.assert_allclose(blob.diff, data - blob.data, rtol=1e-3, atol=1e-6)
