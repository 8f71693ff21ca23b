"""Crops come before what is done to each pixel by itself, where nothing else reads that."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.ops.core import use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec

NATIVE, PLAIN = cpu("native"), cpu("plain")
PLACES = [np.array(p, np.int32).reshape(3, 1, 1, 1) for p in ((0, 2, 1), (3, 1, 0))]
X = np.random.default_rng(0).integers(0, 256, (3, 2, 5, 7)).astype("uint8")


def planned(said, backend):
    """The plan of a graph of pictures and places, and what it gives."""
    graph = Graph()
    values = [graph.input("x", Spec(X.shape, "uint8"))]
    values += [graph.input(name, Spec(p.shape, "int32")) for name, p in zip(("top", "left"), PLACES, strict=True)]
    with use_interpreter(graph):
        made = said(*values)
    plan = make_plan(graph, made, backend=backend)
    given = {"x": X, "top": PLACES[0], "left": PLACES[1]}
    found = make_executor(plan, backend, Variables())(given)
    return [s for s in plan.steps if s.node.op.name == "crop"], {k: np.array(v) for k, v in found.items()}


def scaled(x, by=1 / 255):
    return ops.cast(x, dtype="float32") * by


def channels(x):
    return ops.relu(scaled(x) - np.array([0.25, 0.5], np.float32).reshape(2, 1, 1))


def rows(x):
    return scaled(x) * np.arange(5, dtype=np.float32).reshape(5, 1)


@pytest.mark.parametrize(("said", "seen"), [(scaled, "uint8"), (channels, "uint8"), (rows, "float32")])
def test_a_crop_comes_before_what_is_done_to_each_pixel(said, seen):
    def whole(x, top, left):
        return {"y": ops.crop(said(x), top, left, height=3, width=4)}

    (step,), found = planned(whole, NATIVE)
    assert step.inputs[0].dtype == seen
    _, wanted = planned(whole, PLAIN)
    # a product and a difference rounded once, where a sweep does both
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=0, atol=1e-7)


def test_what_is_read_elsewhere_stays_before_the_crop():
    def both(x, top, left):
        y = scaled(x)
        return {"whole": y, "part": ops.crop(y, top, left, height=5, width=2)}

    (step,), found = planned(both, NATIVE)
    assert step.inputs[0].dtype == "float32"
    _, wanted = planned(both, PLAIN)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])
