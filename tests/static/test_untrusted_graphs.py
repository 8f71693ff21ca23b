"""Files of static graphs change nothing of their reader, and need no more memory than the machine has."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototorch as pt
from prototorch.eager.registry import FUNCTIONS
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError, ResourceError, UsageError
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS

ONES = np.ones((2, 4), np.float32)
X = {"symbol": [1, 0]}


def load(folder: Path, calls: list[dict[str, Any]], **arrays: np.ndarray) -> pt.Graph:
    """The graph of a file with one input, x, and calls numbered from 2, whose last one is the output."""
    content = {
        "inputs": [{"id": 1, "name": "x", "shape": [4], "dtype": "float32"}], "variables": [],
        "calls": [{"id": k, **call} for k, call in enumerate(calls, 2)], "outputs": [[1 + len(calls), 0]],
        "updates": [], "gives_list": False,
    }  # fmt: skip
    meta = {"format": 1, "kind": "static graph", "graph": json.dumps(content)}
    container.write(folder / "graph.h5", arrays, meta)
    return pt.Graph.load(folder / "graph.h5")


def function(name: str, *args: Any, **options: Any) -> dict[str, Any]:
    return {"kind": "function", "name": name, "args": list(args), "options": options}


def test_a_graph_of_many_operations(tmp_path: Path) -> None:
    x = pt.Input((4,))
    y = x
    for _ in range(3000):
        y = y + 1.0
    graph = pt.Graph([x], [y, *pt.gradients(y.sum(), [x])])
    for _ in range(2):
        value, grad = graph(ONES)
        assert (value == 3001).all()
        assert (grad == 1).all()
    pt.Graph([x], y).save(tmp_path / "deep.h5")
    assert (pt.Graph.load(tmp_path / "deep.h5")(ONES) == 3001).all()


IMPURE = ["set_rng_state", "get_rng_state", "seed", "initial_seed", "from_numpy", "from_dlpack", "typename",
          *sorted(name for name in FUNCTIONS if name.endswith("_"))]  # fmt: skip


@pytest.mark.parametrize("name", IMPURE)
def test_functions_that_change_something_are_in_no_graph(tmp_path: Path, name: str) -> None:
    assert name not in SYMBOLIC_FUNCTIONS
    state = pt.get_rng_state().numpy().copy()
    with pytest.raises(ModelFileError, match="there is no function"):
        load(tmp_path, [function(name, X)])
    with pytest.raises(UsageError, match="functions that compute new values"):
        getattr(pt, name)(pt.Input((4,)))
    np.testing.assert_array_equal(pt.get_rng_state().numpy(), state)


@pytest.mark.parametrize("call", [function("rand", 2), function("zeros", 4), function("add", {"array": "a"}, 1.0)],
                         ids=["rand", "zeros", "add"])  # fmt: skip
def test_functions_of_a_file_are_those_of_values_of_the_graph(tmp_path: Path, call: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="is given no value of the graph"):
        load(tmp_path, [call], a=ONES)


def test_an_out_argument_does_not_reach_the_caller(tmp_path: Path) -> None:
    fed = pt.ones(2, 4)
    load(tmp_path, [function("zeros", 2, 4, out=X)])(fed)
    assert (fed.numpy() == 1).all()


def doubled(times: int) -> list[dict[str, Any]]:
    return [function("cat", [{"symbol": [n, 0]}, {"symbol": [n, 0]}]) for n in range(1, times + 1)]


LARGE = {
    "doubled values": doubled(40), "a tile": [function("tile", X, [2**20, 2**20])],
    "a value in a call": [function("sum", {"symbol": [2, 0]})],
    "a weight": [{"kind": "layer", "layer": 0, "text": "Dense { units: 100000000000 }", "weights": {},
                  "inputs": [[1, 0]]}],
}  # fmt: skip
LARGE["a value in a call"].insert(0, function("tile", X, [2**20, 2**20]))


@pytest.mark.parametrize("calls", LARGE.values(), ids=LARGE.keys())
def test_a_graph_larger_than_the_memory_is_refused(tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    graph = load(tmp_path, calls)
    start = time.perf_counter()
    with pytest.raises(ResourceError, match="memory"):
        graph(ONES)
    assert time.perf_counter() - start < 10


def test_the_plan_of_a_graph_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load(tmp_path, [function("tile", X, [2**16, 1]), function("sin", {"symbol": [2, 0]}),
                            function("matmul", {"symbol": [3, 0]}, {"array": "a"})],
                 a=np.ones((4, 4), np.float32))  # fmt: skip
    monkeypatch.setenv("PROTOTORCH_MEMORY", "2100000")
    with pytest.raises(ResourceError, match=r"the plan of .* needs"):
        graph(ONES)
    monkeypatch.setenv("PROTOTORCH_MEMORY", "20000000")
    assert graph(ONES).shape == (2**17, 4)


def test_building_draws_no_random_numbers() -> None:
    x = pt.Input((4,))
    graph = pt.Graph([x], pt.rand_like(x))
    pt.manual_seed(3)
    first = graph(ONES)
    pt.manual_seed(3)
    np.testing.assert_array_equal(graph(ONES), first)
