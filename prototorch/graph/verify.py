"""The verifier: the rules that every graph keeps after every pass.

1. A node reads only values of its graph that are defined before it: inputs, states, constants, outputs of nodes above.
2. Users and producers are consistent: a value knows the nodes that read it, and the node and output that define it.
3. The spec of each output is what the op's `infer_spec` gives for the inputs, apart from layouts.
4. Phases are in order: setup, then forward and backward, then update; no setup node reads an input.
5. Nothing is dead: each node has an output that a node or a result reads.
6. What may be written in place is of one spec with the input it is written over, which nobody reads afterwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from prototorch.errors import PrototorchError
from prototorch.graph.ir import PHASE_ORDER, SETUP, Graph, Node, Value
from prototorch.spec import Spec

__all__ = ["VerificationError", "verify"]


class VerificationError(PrototorchError):
    """A graph breaks a rule of the IR: a mistake in a pass."""


def verify(graph: Graph, after: str = "") -> None:
    """Raise VerificationError with every broken rule; ``after`` names the pass that ran last."""
    mistakes = _Verifier(graph).mistakes()
    if mistakes:
        where = f" after {after}" if after else ""
        raise VerificationError(f"the graph is not valid{where}: " + "; ".join(mistakes[:10]))


class _Verifier:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.nodes = graph.nodes
        self.number = {node: i for i, node in enumerate(self.nodes)}
        self.violations: list[str] = []

    def mistakes(self) -> list[str]:
        """A line for each broken rule."""
        defined: set[Value] = {*self.graph.inputs.values(), *self.graph.states.values()}
        uses: dict[Value, Counter[Node]] = {}
        phase = 0
        for node in self.nodes:
            for k, v in enumerate(node.inputs):
                uses.setdefault(v, Counter())[node] += 1
                if v.kind == "constant":
                    if v.stored_array is None:
                        self._report(node, f"input {k} is a constant without an array")
                elif v not in defined:
                    self._report(node, f"input {k} ({v!r}) is not defined before it")
            for k, v in enumerate(node.outputs):
                if v in defined:
                    self._report(node, f"output {k} is defined twice")
                if v.kind != "node" or v.producer is not node or v.index != k:
                    self._report(node, f"output {k} has another producer")
                defined.add(v)
            self._check_specs(node)
            phase = self._check_phase(node, phase)
        self._check_results(defined)
        self._check_users(uses)
        for node in self.nodes:
            self._check_in_place(node)
        return self.violations

    def _report(self, node: Node, text: str) -> None:
        self.violations.append(f"node {self.number[node]} ({node.op.name} of {node.scope or '-'}): {text}")

    def _check_specs(self, node: Node) -> None:
        plain = [replace(s, layout=None) if s.layout else s for s in node.input_specs]
        inferred = node.op.infer_spec(*plain, **node.attrs)
        specs = inferred if isinstance(inferred, tuple) else (inferred,)
        if [_without_layout(s) for s in specs] != [_without_layout(s) for s in node.output_specs]:
            self._report(
                node, f"the outputs are {_format_specs(node.output_specs)}, infer_spec gives {_format_specs(specs)}"
            )

    def _check_phase(self, node: Node, phase: int) -> int:
        order = PHASE_ORDER.get(node.phase)
        if order is None:
            self._report(node, f"there is no phase {node.phase!r}")
            return phase
        if order < phase:
            self._report(node, f"a node of the phase {node.phase!r} comes too late")
        if node.phase == SETUP and any(v.kind == "input" for v in node.inputs):
            self._report(node, "a setup node reads an input")
        return max(order, phase)

    def _check_results(self, defined: set[Value]) -> None:
        for kind, results in (("output", self.graph.outputs), ("update", self.graph.updates)):
            for name, value in results.items():
                if value.kind != "constant" and value not in defined:
                    self.violations.append(f"the {kind} {name!r} is not defined")
                if not self.graph.is_result(value):
                    self.violations.append(f"the {kind} {name!r} is not registered as a result")
        for name, value in self.graph.updates.items():
            state = self.graph.states.get(name)
            if state is None or (state.shape, state.dtype) != (value.shape, value.dtype):
                self.violations.append(f"the update {name!r} does not fit its state")

    def _check_users(self, uses: dict[Value, Counter[Node]]) -> None:
        values = dict.fromkeys(v for node in self.nodes for v in (*node.inputs, *node.outputs))
        values.update(dict.fromkeys((*self.graph.inputs.values(), *self.graph.states.values())))
        for value in values:
            if value.users != uses.get(value, {}):
                self.violations.append(f"the users of {value!r} are not the nodes that read it")
        for node in self.nodes:
            if not any(v.users or self.graph.is_result(v) for v in node.outputs):
                self._report(node, "is dead: nobody reads its outputs")

    def _check_in_place(self, node: Node) -> None:
        for out, source in node.op.inplace_map(node.attrs).items():
            if out >= len(node.outputs) or source >= len(node.inputs):
                self._report(node, f"output {out} may be written over input {source}, which does not exist")
                return
        for out, source in node.attrs.get("inplace", ()):
            y, x = node.outputs[out], node.inputs[source]
            if y.spec != x.spec:
                self._report(node, f"output {out} is written over input {source} of another spec")
            elif x.kind == "state":
                if self.graph.updates.get(x.name) is not y:
                    self._report(node, f"output {out} is written over the state {x.name!r} of another value")
            elif any(self.number[user] > self.number[node] for user in x.users if user in self.number):
                self._report(node, f"output {out} is written over input {source}, which is read afterwards")


def _without_layout(spec: Spec) -> tuple[tuple[int, ...], str]:
    return spec.shape, spec.dtype


def _format_specs(specs: tuple[Spec, ...]) -> str:
    return ", ".join(map(str, specs))
