"""Recomputation: what only the backward pass still needs, and what is cheap, is computed again instead of being kept.

``compile { memory: low }``. A value of the forward pass that nobody reads for long is given up: its node is said once
more just before the first reader of the backward pass, on the same inputs, so that the results have the same bits (a
random op's key is an input: dropout draws the same mask). Values are given up greedily where the plan needs the most
memory, those that save the most bytes for their cost first; after each choice the memory is planned anew, and a choice
that does not lower its peak is taken back. Convolutions, matrix products and the like come last, whole stretches of a
net between the values that are kept, as long as all of them together cost less than a small share of the step (Chen,
Xu, Zhang and Guestrin, 2016, "Training deep nets with sublinear memory cost").

This runs after fusion: a group is computed again by the kernel that computed it before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prototorch.backends.core import Backend
from prototorch.graph.cost import estimate_cost
from prototorch.graph.ir import Node, Value
from prototorch.graph.memory_planner import align_up
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.fused import FusedInstruction, OperandRef, fused

MAX_RECOMPUTE_SHARE = 0.1  # of a step's cost: what products that are computed again may cost together
_FLOPS_PER_BYTE = (
    5.0  # operations in the time of moving a byte, on common processors: what weighs bytes against operations
)
_PRODUCT_INTENSITY = 32  # operations for each number of the outputs: what does more is a product, whatever its name
_PRODUCTS = ("conv", "conv_input_grad", "conv_weight_grad", "matmul")
_MIN_SHARE = 1 / 2000  # of the peak: smaller values are not worth a step
_STEP_SHARES = (1 / 24, 1 / 60)  # of the peak: what a choice wants to save at once; the better of these searches counts
_MAX_FAILURES = 6  # choices in a row that gain nothing before the next kind of choice is tried


class MemoryPeak(NamedTuple):
    """The memory of an order of nodes: the most bytes that are alive at once, how many nodes see that many, and the
    first of them."""

    peak: int
    often: int
    node: Node


MeasureMemory = Callable[[list[Node]], MemoryPeak]


def rematerialize(nodes: Sequence[Node], live_out: Iterable[Value], backend: Backend | None,
               measure: MeasureMemory) -> list[Node]:  # fmt: skip
    """The nodes with those among them that are computed again (`Node.is_rematerialized`); as they were if that saves
    nothing.

    nodes: in their order, with their phases; they are not changed, but their outputs may have other nodes afterwards.
    wanted: values that are read after the step. measure: plans the memory of some nodes.
    """
    if not any(node.phase == "backward" for node in nodes):
        return list(nodes)
    held = {id(v) for v in live_out}
    made = {id(v): _without_product(v, node, backend) or node for node in nodes for v in node.outputs}
    best = min((_Search(list(nodes), made, held, measure, bite) for bite in _STEP_SHARES), key=lambda s: s.run().peak)
    for node in best.order:
        set_producer(node)
    return best.order


@dataclass(slots=True)
class _Candidate:
    """Values (ids) to be given up together, the bytes that this saves, and what it costs."""

    values: frozenset[int]
    saved: int
    effort: float


class _Search:
    def __init__(self, nodes: list[Node], made: dict[int, Node], wanted: set[int], measure: MeasureMemory, bite: float):
        self.nodes, self.measure, self.bite = nodes, measure, bite
        self.root: dict[int, Value] = {}
        self.made = made  # by value: the node that computes it again
        for node in nodes:
            if node.op.is_view:
                self.root[id(node.outputs[0])] = self.find(node.inputs[0])
        self.fixed = wanted | {id(self.root[key]) for key in wanted if key in self.root}
        self.effort = {id(node): _compute_cost(node) for node in (*nodes, *made.values())}
        self.product = {id(node) for node in (*nodes, *made.values()) if _is_product(node)}
        self.budget = MAX_RECOMPUTE_SHARE * sum(self.effort[id(node)] for node in nodes)
        self.given: frozenset[int] = frozenset()
        self.order = nodes
        self.load = measure(nodes)
        self.copies: dict[int, Value] = {}

    def find(self, value: Value) -> Value:
        return self.root.get(id(value), value)

    def run(self) -> MemoryPeak:
        """The memory when nothing more helps. Chosen are first what is cheap, then products; first so that no
        value that was given up is wanted earlier because of another, then so as well."""
        for products in (False, True):
            for chains in (False, True):
                self._descend(products, chains)
        return self.load

    def _descend(self, products: bool, chains: bool) -> None:
        banned: set[frozenset[int]] = set()
        while len(banned) < _MAX_FAILURES:
            found = [c for c in self._choices(products, chains) if c.values not in banned]
            take = _take_candidates(found, self.load.peak * self.bite)
            if not take:
                return
            while not self._taken(take):
                if len(take) == 1:
                    banned.add(take[0].values)
                    break
                take = take[: len(take) // 2]

    def _taken(self, choices: Sequence[_Candidate]) -> bool:
        """Give these values up, if they may be and that helps."""
        given = self.given.union(*(c.values for c in choices))
        if not self._affordable(given):
            return False
        order, copies = self._said(given)
        load = self.measure(order)
        if (load.peak, load.often) >= (self.load.peak, self.load.often):
            return False
        self.given, self.order, self.copies, self.load = given, order, copies, load
        return True

    def _affordable(self, given: frozenset[int]) -> bool:
        """Whether the products among what is given up are within their share of the step."""
        again = {id(self.made[key]) for key in given} & self.product
        return sum(self.effort[key] for key in again) <= self.budget

    def _said(self, given: frozenset[int]) -> tuple[list[Node], dict[int, Value]]:
        """The nodes with these values computed again, and the values that then stand for them (by id)."""
        stands: dict[int, Value] = {}
        made: list[Node] = []

        def again(value: Value, phase: str) -> Value:
            if id(self.find(value)) not in given or id(value) in stands:
                return stands.get(id(value), value)
            node = self.made[id(value)]
            inputs = tuple(again(v, phase) for v in node.inputs)
            if id(value) in stands:  # by a group that gives one of the inputs as well
                return stands[id(value)]
            outputs = tuple(Value(v.interpreter, v.spec, "node", v.name) for v in node.outputs)
            for v, new in zip(node.outputs, outputs, strict=True):
                new.index = v.index
                if id(self.find(v)) in given:
                    stands[id(v)] = new
            made.append(Node(node.op, inputs, node.attrs, outputs, node.scope, phase, node.scopes, True))
            return stands[id(value)]

        for node in self.nodes:
            if node.phase in ("backward", "update"):
                inputs = tuple(again(v, node.phase) for v in node.inputs)
                if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                    node = Node(node.op, inputs, node.attrs, node.outputs, node.scope, node.phase, node.scopes)
            made.append(node)
        return made, stands

    # ---------------------------------------------------------------- what could be given up

    def _choices(self, products: bool, chains: bool) -> list[_Candidate]:
        """What would save memory where the most is needed, the best first."""
        peak = next(i for i, node in enumerate(self.order) if node is self.load.node)
        root = dict(self.root)
        forward: dict[int, int] = {}  # value -> its last reader in the forward pass
        first: dict[int, int] = {}  # value -> its first reader afterwards
        last: dict[int, int] = {}
        born: dict[int, int] = {}
        for i, node in enumerate(self.order):
            if node.op.is_view:
                root[id(node.outputs[0])] = root.get(id(node.inputs[0]), node.inputs[0])
                continue
            for v in node.outputs:
                born[id(v)] = i
                forward.setdefault(id(v), i)
            for v in node.inputs:
                key = id(root.get(id(v), v))
                last[key] = i
                if node.phase == "forward":
                    forward[key] = i
                else:
                    first.setdefault(key, i)
        self._born, self._last, self._peak = born, last, peak
        found = []
        for node in self.order:
            if node.phase != "forward" or node.op.is_view:
                continue
            for v in node.outputs:
                key = id(v)
                if key in self.given or v.spec.nbytes < self.load.peak * _MIN_SHARE or not self._may(v, products):
                    continue
                if key in first and forward[key] < peak < first[key]:
                    choice = self._closure(v, first[key], products, chains)
                    if choice is not None:
                        found.append(choice)
        return sorted(found, key=lambda c: -c.saved / c.effort)

    def _may(self, value: Value, products: bool) -> bool:
        node = self.made.get(id(value))
        if node is None or node.phase != "forward" or id(value) in self.fixed:
            return False
        return products or id(node) not in self.product

    def _closure(self, value: Value, at: int, products: bool, chains: bool) -> _Candidate | None:
        """Giving up a value that is wanted at a place, with what must be computed again for it."""
        taken: dict[int, Value] = {id(value): value}
        saved = align_up(value.spec.nbytes)
        left = [value]
        seen: set[int] = set()
        while left:
            for v in map(self.find, self.made[id(left.pop())].inputs):
                if id(v) in seen or id(v) in taken or v.kind != "node" or self.made[id(v)].phase == "setup":
                    continue
                seen.add(id(v))
                copy = self.copies.get(id(v))
                if copy is not None and id(v) in self.given:
                    if self._born[id(copy)] > at and not chains:
                        return None
                    if self._born[id(copy)] < self._peak and self._last.get(id(copy), 0) < self._peak:
                        saved -= align_up(v.spec.nbytes)
                elif self._last.get(id(v), 0) < self._peak:
                    if self._may(v, products):
                        taken[id(v)] = v
                        left.append(v)
                    else:
                        saved -= align_up(v.spec.nbytes)
        already = {id(self.made[key]) for key in self.given}
        nodes = {id(self.made[key]) for key in taken} - already
        effort = sum(self.effort[key] for key in nodes)
        return _Candidate(frozenset(taken), saved, max(effort, 1.0)) if saved > 0 else None


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
    inputs: list[Value] = []
    lines: list[FusedInstruction] = []
    where: dict[int, int] = {}  # line of the group -> line

    def given(v: Value) -> OperandRef:
        if not any(v is known for known in inputs):
            inputs.append(v)
        return "in", next(i for i, known in enumerate(inputs) if known is v)

    def said(ref: OperandRef) -> OperandRef:
        if ref[0] == "const":
            return ref
        if ref[0] == "in" or ref in others:
            return given(node.inputs[ref[1]] if ref[0] == "in" else others[ref])
        if ref[1] not in where:
            name, operands, attrs = program[ref[1]]
            lines.append((name, tuple(map(said, operands)), attrs))
            where[ref[1]] = len(lines) - 1
        return "node", where[ref[1]], ref[2]

    own = said(refs[value.index])
    if not _has_same_readers(program, refs, lines, where):
        return None
    attrs = {"program": tuple(lines), "outputs": (own,), "inplace": ()}
    made = Node(fused, tuple(inputs), attrs, (value,), node.scope, node.phase, node.scopes)
    taken = backend.has_kernel(fused, tuple(v.spec for v in inputs), (value.spec,), attrs)
    return made if taken and not _is_product(made) else None


def _has_same_readers(
    program: Sequence[FusedInstruction],
    refs: Sequence[OperandRef],
    lines: Sequence[FusedInstruction],
    where: Mapping[int, int],
) -> bool:
    """Whether the lines of a group that stay (``where``: line of the group -> line) have as many readers as before."""
    before = Counter(ref for _, operands, _ in program for ref in operands) + Counter(refs)
    after = Counter(ref for _, operands, _ in lines for ref in operands)
    back = {new: old for old, new in where.items()}
    return all(count == before["node", back[ref[1]], ref[2]] for ref, count in after.items() if ref[0] == "node")


def _take_candidates(choices: Sequence[_Candidate], wanted: float) -> list[_Candidate]:
    """The first choices that together save what is wanted."""
    taken: list[_Candidate] = []
    for choice in choices:
        if taken and sum(c.saved for c in taken) >= wanted:
            break
        taken.append(choice)
    return taken


def _compute_cost(node: Node) -> float:
    """What a node costs, in operations; moving bytes counts as well."""
    found = estimate_cost(node.op, tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs), node.attrs)
    return max(float(found.flops), _FLOPS_PER_BYTE * found.nbytes)


def _is_product(node: Node) -> bool:
    names = [line[0] for line in node.attrs["program"]] if "program" in node.attrs else [node.op.name]
    if any(name in _PRODUCTS for name in names):
        return True
    found = estimate_cost(node.op, tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs), node.attrs)
    return found.flops > _PRODUCT_INTENSITY * sum(v.spec.size for v in node.outputs)
