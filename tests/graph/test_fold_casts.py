"""Passes about numbers of 16 bits, on a backend that takes everything."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph
from prototorch.graph.passes.context import PassContext
from prototorch.graph.passes.fold_casts import fold_gradient_casts, group_weight_casts
from prototorch.graph.verify import verify
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec


class Takes(Backend):
    """A backend with a kernel for everything, or for nothing."""

    def __init__(self, everything=True):
        super().__init__("takes", np, ())
        self.everything = everything

    def has_kernel(self, op, ins, outs, attrs):
        return self.everything


def a_graph(shape=(2, 3)):
    """Two weights read as float16, the gradient of one made wider again and reshaped, and its update."""
    graph = Graph()
    w, b = graph.state("w", Spec(shape)), graph.state("b", Spec((3,)))
    rate, step = graph.input("rate", Spec(())), graph.input("step", Spec((), "int64"))
    with use_interpreter(graph):
        low = ops.cast(w, dtype="float16") + ops.cast(b, dtype="float16")
        g = ops.reshape(ops.cast(low * 2.0, dtype="float32"), shape=shape)
        (new,) = (ops.sgd_update(w, g, rate, step),)
    return graph, new if not isinstance(new, tuple) else new[0]


def test_an_update_reads_the_narrow_gradient():
    graph, new = a_graph()
    graph.set_results({}, {"w": new})
    assert fold_gradient_casts(graph, PassContext(Takes()))
    graph.erase_dead_nodes()
    verify(graph)
    nodes = graph.nodes
    update = nodes[-1]
    assert update.op.name == "sgd_update"
    assert update.inputs[1].spec == Spec((2, 3), "float16")
    assert [n.op.name for n in nodes].count("cast") == 2, "the cast to float32 is gone"


def test_where_there_is_no_kernel_all_stays():
    graph, _ = a_graph()
    before = [(n.op.name, n.inputs) for n in graph.nodes]
    assert not fold_gradient_casts(graph, PassContext(Takes(False)))
    assert not group_weight_casts(graph, PassContext(Takes(False)))
    assert [(n.op.name, n.inputs) for n in graph] == before


def test_copies_of_weights_are_made_together():
    graph, _ = a_graph()
    before = graph.num_nodes
    assert group_weight_casts(graph, PassContext(Takes()))
    first = graph.nodes[0]
    assert first.op.name == "fused"
    assert [v.name for v in first.inputs] == ["w", "b"]
    assert [v.spec.dtype for v in first.outputs] == ["float16", "float16"]
    assert all(v.producer is first and v.index == i for i, v in enumerate(first.outputs))
    assert graph.num_nodes == before - 1


def test_states_in_another_shape_are_copied_together_too():
    graph = Graph()
    w, b = graph.state("w", Spec((2, 3))), graph.state("b", Spec((3,)))
    with use_interpreter(graph):
        ops.cast(w, dtype="float16")
        ops.cast(ops.reshape(b, shape=(3, 1)), dtype="float16")
        ops.cast(ops.reshape(b * 2.0, shape=(3, 1)), dtype="float16")
    assert group_weight_casts(graph, PassContext(Takes()))
    assert [n.op.name for n in graph] == ["reshape", "fused", "multiply", "reshape", "cast"]
    assert [v.shape for v in graph.nodes[1].outputs] == [(2, 3), (3, 1)]


@pytest.mark.parametrize("everything", [True, False])
def test_one_copy_stays_as_it_is(everything):
    graph = Graph()
    with use_interpreter(graph):
        ops.cast(graph.state("w", Spec((4,))), dtype="float16")
    assert not group_weight_casts(graph, PassContext(Takes(everything)))
    assert graph.num_nodes == 1
