"""Rematerialization: what only the backward pass still needs, and what is cheap, is computed again instead of saved.

``compile { memory: low }``. A value of the forward pass that nobody reads for long is given up: its node is applied
once more just before the first reader of the backward pass, to the same inputs, so that the results have the same bits
(a random op's key is an input: dropout draws the same mask). Values are given up greedily where the plan needs the most
memory, those that save the most bytes for their cost first; after each choice the memory is planned anew, and a choice
that does not lower its peak is taken back. Convolutions, matrix products and the like come last, whole stretches of a
net between the values that are saved, as long as all of them together cost less than a small share of the step (Chen,
Xu, Zhang and Guestrin, 2016, "Training deep nets with sublinear memory cost").

This runs after fusion: a group is computed again by the kernel that computed it before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from prototorch.engine.backends.core import Backend
from prototorch.graph.allocation import MemoryPeak, memory_peak, plan_memory
from prototorch.graph.cost import estimate_cost
from prototorch.graph.ir import SETUP, Graph, Node, Value
from prototorch.graph.memory_planner import align_up
from prototorch.graph.passes.context import PassContext
from prototorch.ops.fused import FusedInstruction, OperandRef, fused

__all__ = ["rematerialize"]

MAX_RECOMPUTE_SHARE = 0.1  # of a step's cost: what products that are computed again may cost together
_FLOPS_PER_BYTE = 5.0  # operations in the time of moving a byte, on common processors
_PRODUCT_INTENSITY = 32  # operations for each element of the outputs: what does more is a product, whatever its name
_MIN_SHARE = 1 / 2000  # of the peak: smaller values are not worth a step
_STEP_SHARES = (1 / 24, 1 / 60)  # of the peak: what a choice should save at once; the better of these searches counts
_MAX_FAILURES = 6  # choices in a row that gain nothing before the next kind of choice is tried

MeasurePeak = Callable[[Sequence[Node]], MemoryPeak]


def rematerialize(graph: Graph, context: PassContext) -> bool:
    """Insert nodes that compute values again (`Node.is_rematerialized`), if that saves memory."""
    context.bytes_before_rematerialization = plan_memory(graph).arena_bytes
    nodes = graph.nodes
    if not any(node.phase == "backward" for node in nodes):
        return False
    recompute = {v: _without_product(v, node, context.backend) or node for node in nodes for v in node.outputs}
    measure = partial(memory_peak, graph=graph)
    searches = [_Search(graph, nodes, recompute, measure, share) for share in _STEP_SHARES]
    best = min(searches, key=lambda search: search.run().nbytes)
    if best.order is nodes:
        return False
    graph.rebuild(best.order)
    return True


@dataclass(slots=True)
class _Candidate:
    """Values to be given up together, the bytes that this saves, and what it costs."""

    values: frozenset[Value]
    saved: int
    cost: float


class _Search:
    def __init__(
        self, graph: Graph, nodes: list[Node], recompute: dict[Value, Node], measure: MeasurePeak, step_share: float
    ):
        self.graph, self.nodes, self.measure, self.step_share = graph, nodes, measure, step_share
        self.recompute = recompute  # the node that computes a value again
        self.view_storage: dict[Value, Value] = {}
        for node in nodes:
            if node.op.is_view:
                self.view_storage[node.outputs[0]] = self.storage(node.inputs[0])
        results = graph.results
        self.fixed = {*results, *(self.storage(v) for v in results)}
        every = dict.fromkeys((*nodes, *recompute.values()))
        self.cost = {node: _compute_cost(node) for node in every}
        self.products = {node for node in every if _is_product(node)}
        self.budget = MAX_RECOMPUTE_SHARE * sum(self.cost[node] for node in nodes)
        self.given_up: frozenset[Value] = frozenset()
        self.order = nodes
        self.peak = measure(nodes)
        self.copies: dict[Value, Value] = {}

    def storage(self, value: Value) -> Value:
        """The value whose memory a view shows; any other value itself."""
        return self.view_storage.get(value, value)

    def run(self) -> MemoryPeak:
        """The memory when nothing more helps. Chosen are first what is cheap, then products; first so that no
        value that is given up is needed earlier because of another, then so as well."""
        for products in (False, True):
            for chains in (False, True):
                self._descend(products, chains)
        return self.peak

    def _descend(self, products: bool, chains: bool) -> None:
        failed: set[frozenset[Value]] = set()
        while len(failed) < _MAX_FAILURES:
            candidates = [c for c in self._candidates(products, chains) if c.values not in failed]
            selection = _take_candidates(candidates, self.peak.nbytes * self.step_share)
            if not selection:
                return
            while not self._accept(selection):
                if len(selection) == 1:
                    failed.add(selection[0].values)
                    break
                selection = selection[: len(selection) // 2]

    def _accept(self, candidates: Sequence[_Candidate]) -> bool:
        """Give these values up, if that is affordable and lowers the peak."""
        given_up = self.given_up.union(*(c.values for c in candidates))
        if not self._is_affordable(given_up):
            return False
        order, copies = self._rewritten(given_up)
        peak = self.measure(order)
        if peak[:2] >= self.peak[:2]:
            return False
        self.given_up, self.order, self.copies, self.peak = given_up, order, copies, peak
        return True

    def _is_affordable(self, given_up: frozenset[Value]) -> bool:
        """Whether the products among what is given up are within their share of the step."""
        again = {self.recompute[v] for v in given_up} & self.products
        return sum(self.cost[node] for node in again) <= self.budget

    def _rewritten(self, given_up: frozenset[Value]) -> tuple[list[Node], dict[Value, Value]]:
        """The nodes with these values computed again, and the values that then replace them."""
        copies: dict[Value, Value] = {}
        order: list[Node] = []

        def recompute_value(value: Value, phase: str) -> Value:
            if self.storage(value) not in given_up or value in copies:
                return copies.get(value, value)
            node = self.recompute[value]
            inputs = tuple(recompute_value(v, phase) for v in node.inputs)
            if value in copies:  # by a group that defines one of the inputs as well
                return copies[value]
            outputs = tuple(Value(self.graph, v.spec, "node", v.name) for v in node.outputs)
            for i, (v, new) in enumerate(zip(node.outputs, outputs, strict=True)):
                new.index = i
                if self.storage(v) in given_up:
                    copies[v] = new
            order.append(Node(node.op, inputs, node.attrs, outputs, node.scope, phase, node.scopes, True))
            return copies[value]

        for node in self.nodes:
            if node.phase in ("backward", "update"):
                inputs = tuple(recompute_value(v, node.phase) for v in node.inputs)
                if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                    node = Node(node.op, inputs, node.attrs, node.outputs, node.scope, node.phase, node.scopes)
            order.append(node)
        return order, copies

    # ------------------------------------------------------------------ what could be given up

    def _candidates(self, products: bool, chains: bool) -> list[_Candidate]:
        """What would save memory where the most is needed, the best first."""
        peak = next(i for i, node in enumerate(self.order) if node is self.peak.node)
        storage = dict(self.view_storage)
        last_forward: dict[Value, int] = {}  # value -> its last reader in the forward pass
        first_after: dict[Value, int] = {}  # value -> its first reader afterwards
        last_use: dict[Value, int] = {}
        first_def: dict[Value, int] = {}
        for i, node in enumerate(self.order):
            if node.op.is_view:
                storage[node.outputs[0]] = storage.get(node.inputs[0], node.inputs[0])
                continue
            for v in node.outputs:
                first_def[v] = i
                last_forward.setdefault(v, i)
            for v in node.inputs:
                root = storage.get(v, v)
                last_use[root] = i
                if node.phase == "forward":
                    last_forward[root] = i
                else:
                    first_after.setdefault(root, i)
        self._first_def, self._last_use, self._peak_index = first_def, last_use, peak
        smallest = self.peak.nbytes * _MIN_SHARE
        candidates = []
        for node in self.order:
            if node.phase != "forward" or node.op.is_view:
                continue
            for v in node.outputs:
                if v in self.given_up or v.spec.nbytes < smallest or not self._may_give_up(v, products):
                    continue
                if v in first_after and last_forward[v] < peak < first_after[v]:
                    candidate = self._closure(v, first_after[v], products, chains)
                    if candidate is not None:
                        candidates.append(candidate)
        return sorted(candidates, key=lambda c: -c.saved / c.cost)

    def _may_give_up(self, value: Value, products: bool) -> bool:
        node = self.recompute.get(value)
        if node is None or node.phase != "forward" or value in self.fixed:
            return False
        return products or node not in self.products

    def _closure(self, value: Value, at: int, products: bool, chains: bool) -> _Candidate | None:
        """Giving up a value that is needed at a node, with what must be computed again for it."""
        closure: dict[Value, None] = {value: None}
        saved = align_up(value.spec.nbytes)
        left = [value]
        seen: set[Value] = set()
        while left:
            for v in map(self.storage, self.recompute[left.pop()].inputs):
                if v in seen or v in closure or v.kind != "node" or self.recompute[v].phase == SETUP:
                    continue
                seen.add(v)
                copy = self.copies.get(v)
                if copy is not None and v in self.given_up:
                    if self._first_def[copy] > at and not chains:
                        return None
                    if self._first_def[copy] < self._peak_index and self._last_use.get(copy, 0) < self._peak_index:
                        saved -= align_up(v.spec.nbytes)
                elif self._last_use.get(v, 0) < self._peak_index:
                    if self._may_give_up(v, products):
                        closure[v] = None
                        left.append(v)
                    else:
                        saved -= align_up(v.spec.nbytes)
        recomputed_nodes = {self.recompute[v] for v in self.given_up}
        nodes = dict.fromkeys(self.recompute[v] for v in closure)
        cost = sum(self.cost[node] for node in nodes if node not in recomputed_nodes)
        return _Candidate(frozenset(closure), saved, max(cost, 1.0)) if saved > 0 else None


def _without_product(value: Value, node: Node, backend: Backend | None) -> Node | None:
    """The node that computes an output of a group from the group's other outputs, if that is less than the group.

    So what follows a product is computed again without the product. Only in a group of full precision: what is stored
    there is what the group goes on with. And only if what stays is read as often as in the group: a compiler makes one
    rounding of a product and a sum where nobody else reads the product.
    """
    if backend is None or "program" not in node.attrs or not _is_product(node):
        return None
    if any(v.spec.is_float and v.dtype not in ("float32", "float64") for v in node.outputs):
        return None
    program, refs = node.attrs["program"], node.attrs["outputs"]
    others = {ref: v for ref, v in zip(refs, node.outputs, strict=True) if v is not value}
    inputs: dict[Value, int] = {}
    lines: list[FusedInstruction] = []
    new_line: dict[int, int] = {}  # line of the group -> line

    def translate(ref: OperandRef) -> OperandRef:
        if ref[0] == "const":
            return ref
        if ref[0] == "in" or ref in others:
            return "in", inputs.setdefault(node.inputs[ref[1]] if ref[0] == "in" else others[ref], len(inputs))
        if ref[1] not in new_line:
            name, operands, attrs = program[ref[1]]
            lines.append((name, tuple(map(translate, operands)), attrs))
            new_line[ref[1]] = len(lines) - 1
        return "node", new_line[ref[1]], ref[2]

    own = translate(refs[value.index])
    if not _has_same_readers(program, refs, lines, new_line):
        return None
    attrs = {"program": tuple(lines), "outputs": (own,), "inplace": ()}
    new = Node(fused, tuple(inputs), attrs, (value,), node.scope, node.phase, node.scopes)
    is_supported = backend.has_kernel(fused, new.input_specs, new.output_specs, attrs)
    return new if is_supported and not _is_product(new) else None


def _has_same_readers(
    program: Sequence[FusedInstruction],
    refs: Sequence[OperandRef],
    lines: Sequence[FusedInstruction],
    new_line: Mapping[int, int],
) -> bool:
    """Whether the lines of a group that stay (``new_line``: line of the group -> line) have as many readers as
    before."""
    before = Counter(ref for _, operands, _ in program for ref in operands) + Counter(refs)
    after = Counter(ref for _, operands, _ in lines for ref in operands)
    old_line = {new: old for old, new in new_line.items()}
    return all(count == before["node", old_line[ref[1]], ref[2]] for ref, count in after.items() if ref[0] == "node")


def _take_candidates(candidates: Sequence[_Candidate], nbytes: float) -> list[_Candidate]:
    """The first candidates that together save so many bytes."""
    selection: list[_Candidate] = []
    for candidate in candidates:
        if selection and sum(c.saved for c in selection) >= nbytes:
            break
        selection.append(candidate)
    return selection


def _compute_cost(node: Node) -> float:
    """What a node costs, in operations; moving bytes counts as well."""
    cost = estimate_cost(node.op, node.input_specs, node.output_specs, node.attrs)
    return max(float(cost.flops), _FLOPS_PER_BYTE * cost.nbytes)


def _is_product(node: Node) -> bool:
    if any(op.is_product for op in node.member_ops):
        return True
    cost = estimate_cost(node.op, node.input_specs, node.output_specs, node.attrs)
    return cost.flops > _PRODUCT_INTENSITY * sum(v.spec.size for v in node.outputs)
