"""The verifier: each rule of the IR, and a graph that breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prototorch import ops
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.verify import VerificationError, verify
from prototorch.ops.fused import fused
from prototorch.spec import Spec


def small_graph() -> Graph:
    """y = tanh(x + w), and w becomes w * 0.5 in the update phase."""
    graph = Graph()
    x, w = graph.input("x", Spec((3,))), graph.state("w", Spec((3,)))
    y = ops.tanh(x + w)
    with graph.phase("update"):
        new = w * 0.5
    graph.set_results({"y": y}, {"w": new})
    return graph


def test_a_recorded_graph_and_its_clone_are_valid():
    graph = small_graph()
    verify(graph)
    verify(graph.clone())


def read_before_definition(graph: Graph) -> None:
    add, tanh, _ = graph.nodes
    graph.move_before(add, tanh)


def constant_without_array(graph: Graph) -> None:
    graph.nodes[2].inputs[1].stored_array = None


def defined_twice(graph: Graph) -> None:
    add = graph.nodes[0]
    graph.append(Node(add.op, add.inputs, add.attrs, add.outputs, "", "update"))


def wrong_producer(graph: Graph) -> None:
    add, tanh, _ = graph.nodes
    tanh.outputs[0].producer = add


def wrong_spec(graph: Graph) -> None:
    value = graph.nodes[0].outputs[0]
    value.spec = replace(value.spec, shape=(4,))


def unknown_phase(graph: Graph) -> None:
    graph.nodes[0].phase = "sideways"


def late_phase(graph: Graph) -> None:
    graph.nodes[0].phase = "update"


def setup_reads_an_input(graph: Graph) -> None:
    graph.nodes[0].phase = "setup"


def result_of_another_graph(graph: Graph) -> None:
    graph.set_results({"y": Value(Graph(), Spec((3,)))}, graph.updates)


def result_that_is_not_registered(graph: Graph) -> None:
    graph.outputs["z"] = graph.inputs["x"]


def update_of_another_shape(graph: Graph) -> None:
    graph.set_results(graph.outputs, {"w": graph.constant(np.ones(4, np.float32))})
    graph.erase_dead_nodes()


def inputs_changed_behind_the_graph(graph: Graph) -> None:
    tanh = graph.nodes[1]
    tanh.inputs = (graph.inputs["x"],)


def dead_node(graph: Graph) -> None:
    with graph.phase("update"):
        ops.exp(graph.inputs["x"])


def in_place_operand_that_is_not_there(graph: Graph) -> None:
    _fuse_over(graph, 7)


def in_place_over_what_is_read_afterwards(graph: Graph) -> None:
    _fuse_over(graph, 0)
    with graph.phase("update"):
        last = ops.exp(graph.nodes[0].outputs[0])
    graph.set_results({**graph.outputs, "last": last}, graph.updates)


def in_place_over_another_state(graph: Graph) -> None:
    update = graph.nodes[2]
    attrs = {"program": (("multiply", (("in", 0), ("const", 0.5, "float32")), ()),), "outputs": (("node", 0, 0),),
             "inplace": ((0, 0),)}  # fmt: skip
    other = graph.state("other", Spec((3,)))
    graph.replace_node(update, Node(fused, (other,), attrs, update.outputs, "", "update"))


def _fuse_over(graph: Graph, operand: int) -> None:
    """Let the second node be a group that is written over an operand."""
    tanh = graph.nodes[1]
    attrs = {"program": (("tanh", (("in", 0),), ()),), "outputs": (("node", 0, 0),), "inplace": ((0, operand),)}
    graph.replace_node(tanh, Node(fused, tanh.inputs, attrs, tanh.outputs, "", "forward"))


RULES = {
    read_before_definition: r"node 0 \(tanh of -\): input 0 .* is not defined before it",
    constant_without_array: "input 1 is a constant without an array",
    defined_twice: "output 0 is defined twice",
    wrong_producer: "output 0 has another producer",
    wrong_spec: "infer_spec gives",
    unknown_phase: "there is no phase 'sideways'",
    late_phase: "a node of the phase 'forward' comes too late",
    setup_reads_an_input: "a setup node reads an input",
    result_of_another_graph: "the output 'y' is not defined",
    result_that_is_not_registered: "the output 'z' is not registered as a result",
    update_of_another_shape: "the update 'w' does not fit its state",
    inputs_changed_behind_the_graph: "the users of .* are not the nodes that read it",
    dead_node: "is dead: nobody reads its outputs",
    in_place_operand_that_is_not_there: "input 7, which does not exist",
    in_place_over_what_is_read_afterwards: "which is read afterwards",
    in_place_over_another_state: "written over the state 'other' of another value",
}


@pytest.mark.parametrize("break_rule", RULES, ids=lambda f: f.__name__)
def test_a_broken_rule_is_reported(break_rule):
    graph = small_graph()
    break_rule(graph)
    with pytest.raises(VerificationError, match=RULES[break_rule]):
        verify(graph, "a pass")


def test_the_message_names_the_pass():
    graph = small_graph()
    dead_node(graph)
    with pytest.raises(VerificationError, match="not valid after fuse_ops: "):
        verify(graph, "fuse_ops")
