"""Ops that index by arrays and that sort, in ONNX Runtime and in a PyTorch module as here."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import UsageError
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.layers.base import Layer
from prototorch.model.model import Model
from tests.interop.onnx.exported import assert_same, predictions, run_onnx

X = (4, 5, 6)  # of each sample


def constant(x, values):
    return x.interpreter.constant(np.array(values, np.int64))


def put(reduce):
    def work(x):
        values = ops.advanced_index(x, constant(x, [2, 0, 2]), axes=(2,)) * 2.0
        return ops.index_put(x, values, constant(x, [1, 1, 3]), axes=(2,), reduce=reduce)

    return work


WORK = {
    "one": lambda x: ops.advanced_index(x, constant(x, [[3, 0], [1, 1]]), axes=(1,)),
    "adjacent": lambda x: ops.advanced_index(x, constant(x, [[3], [0]]), constant(x, [1, 4, 4]), axes=(1, 2)),
    "apart": lambda x: ops.advanced_index(x, constant(x, [3, 0]), constant(x, [1, 5]), axes=(1, 3)),
    **{f"put-{reduce}": put(reduce) for reduce in ("set", "sum", "prod", "amax", "amin")},
    "put-apart": lambda x: ops.index_put(
        x, ops.advanced_index(x, constant(x, [0, 2]), constant(x, [0, 1]), axes=(1, 3)) + 1.0, constant(x, [3, 1]),
        constant(x, [5, 5]), axes=(1, 3)),
    "sort": lambda x: ops.sort(x)[0],
    "argsort": lambda x: ops.cast(ops.sort(x, descending=True)[1], dtype="float32"),
    "searchsorted": lambda x: ops.cast(ops.searchsorted(ops.sort(x)[0], x, side="right"), dtype="float32"),
    "cummax": lambda x: ops.cummax(x)[0],
}  # fmt: skip


@pytest.fixture
def model_of():
    """A function that gives the model of one layer, which is undefined afterwards."""
    with temporary_definitions():

        def make(work):
            class Work(Layer):
                """A layer of this test."""

                def call(self, ctx, x):
                    return work(x)

            node = LayerNode("layer", Work(), ("x",), ("y",))
            return Model(Net("net", (InputNode("x", X, "float32"),), (node,), ("y",)))

        yield make


@pytest.mark.parametrize("name", [n for n in WORK if n != "cummax"])
def test_an_op_gives_in_onnx_runtime_what_it_gives_here(name, model_of, tmp_path):
    model = model_of(WORK[name])
    model.export(tmp_path / "net.onnx", opset=18)
    for batch in (1, 3):
        inputs = {"x": np.random.default_rng(batch).standard_normal((batch, *X)).astype("float32")}
        assert_same(predictions(model, inputs), run_onnx(tmp_path / "net.onnx", inputs))


def test_a_running_maximum_is_refused_with_the_reason(model_of, tmp_path):
    with pytest.raises(UsageError, match="cummax cannot be written to ONNX: ONNX has no running maximum"):
        model_of(WORK["cummax"]).export(tmp_path / "net.onnx")
