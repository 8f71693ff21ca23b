"""Fusion: ops that a backend can run in one sweep over memory become one ``fused`` node.

A group is either elementwise ops of one shape that read each other's results, or an *anchor* (a convolution, a matrix
product) with the elementwise ops that follow its first output; either may end in a *tail* (a sum). What is read
elsewhere becomes an output of the group, so nothing is ever computed twice, and no value is read or written more often
than before. A group lies within one phase of the step, for weights may only change after the executor's guard; but a
matrix product that only computes the gradient of a large weight may be deferred to that weight's update, so that the
gradient need not be written at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.graph.passes.fusion_groups import FusionGroups
from prototorch.ops.fused import FusedInstruction, OperandRef, fused
from prototorch.spec import Spec

__all__ = ["MAX_ARRAYS", "MAX_OPS", "fuse_ops"]

MAX_OPS = 48  # in a group: code longer than that takes long to compile and runs out of registers
MAX_ARRAYS = 24  # that a group reads and writes: more streams than that are slower than two sweeps


def fuse_ops(graph: Graph, context: PassContext) -> bool:
    """Put groups in the place of their members, where the backend has kernels for them; sort the nodes by phase."""
    nodes = graph.nodes
    roles = [_role(node, context.kernels) for node in nodes]
    while True:
        fusion = _Fusion(graph, nodes, roles, context.kernels)
        rejected = fusion.run()
        if not rejected:
            break
        for i in rejected:  # once more, with these nodes left alone
            roles[i] = None
    before = nodes
    graph.rebuild(fusion.in_order())
    return graph.nodes != before


def _role(node: Node, backend: Backend) -> str | None:
    """What a node may be in a group: "anchor", "tail", "elementwise" or None."""
    role = backend.fusion_role(node.op.name)
    first = node.outputs[0].spec
    if role in ("anchor", "tail"):
        return role
    if role != "elementwise" or any(_iteration_space(v.spec) != _iteration_space(first) for v in node.outputs):
        return None
    return role if all(v.spec.layout == first.layout for v in node.inputs if v.shape == first.shape) else None


class _Fusion:
    """One attempt: groups that grow from anchors, then elementwise groups, then tails."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], roles: Sequence[str | None], backend: Backend):
        self.backend, self.roles = backend, roles
        self.groups = FusionGroups(nodes)
        self.results = set(graph.results)
        self.state_of = {value: name for name, value in graph.updates.items()}
        self.fused: dict[int, Node] = {}  # group -> its node

    def run(self) -> list[int]:
        """Form the groups; the nodes of those that the backend has no kernel for."""
        for i, role in enumerate(self.roles):
            if role == "anchor":
                self._grow(i)
        for i, role in enumerate(self.roles):
            if role == "elementwise":
                self._join(i)
        for i, role in enumerate(self.roles):
            if role == "tail":
                self._end(i)
        rejected = []
        for group, members in self.groups.members.items():
            if len(members) > 1 and group not in self.fused:
                node = self._node(members)
                if self._has_kernel(node):
                    self.fused[group] = node
                else:
                    rejected += members
        return rejected

    def in_order(self) -> list[Node]:
        """The groups' nodes, in order."""
        return [self.fused.get(group, self.groups.nodes[group]) for group in self.groups.order()]

    def _is_alone(self, i: int) -> bool:
        return self.roles[i] == "elementwise" and len(self.groups.members[self.groups.group_of[i]]) == 1

    def _grow(self, anchor: int) -> None:
        """Let an anchor take the elementwise nodes after it: the most that the backend has a kernel for."""
        groups, node = self.groups, self.groups.nodes[anchor]
        if node.outputs[0] in self.results:
            return
        attempts = [[anchor]]
        while len(attempts[-1]) < MAX_OPS:
            following = self._following(attempts[-1])
            addition = next((i for i in following if groups.can_merge([*attempts[-1], i])), None)
            if addition is None:
                break
            attempts.append(sorted([*attempts[-1], addition]))
        for members in attempts[:0:-1]:
            inside = set(members)
            if all(r in inside for r in groups.readers[node.outputs[0]]):
                group = self._node(members)
                if self._has_kernel(group):
                    self.fused[groups.merge(members)] = group
                    return

    def _following(self, members: Sequence[int]) -> list[int]:
        """The nodes that could join an anchor's group, in order."""
        anchor, *rest = (self.groups.nodes[i] for i in members)
        y = anchor.outputs[0]
        inside = {v for i in members for v in self.groups.nodes[i].outputs}
        phases = [n.phase for n in rest][:1]
        if not phases:
            phases = [anchor.phase, "update"] if _can_defer(anchor) else [anchor.phase]
        axis = anchor.op.channel_axis % max(y.ndim, 1)
        readers = {r for v in inside for r in self.groups.readers.get(v, ())} - set(members)
        following = []
        for i in sorted(readers):
            node = self.groups.nodes[i]
            if not self._is_alone(i) or _iteration_space(node.outputs[0].spec) != _iteration_space(y.spec):
                continue
            if node.phase not in phases:
                continue
            if all(
                v in inside or k in node.op.whole_inputs or _is_broadcast_operand(v.shape, y.shape, axis)
                for k, v in enumerate(node.inputs)
            ):
                following.append(i)
        return following

    def _join(self, i: int) -> None:
        """Put an elementwise node into the groups of those that compute what it reads."""
        groups, node = self.groups, self.groups.nodes[i]
        space = _iteration_space(node.outputs[0].spec)
        for value in node.inputs:
            p = groups.producer.get(value)
            if p is None or self.roles[p] != "elementwise" or groups.group_of[p] == groups.group_of[i]:
                continue
            pair, other = [groups.group_of[p], groups.group_of[i]], groups.nodes[p]
            if pair[0] in self.fused or pair[1] in self.fused:
                continue
            if other.phase != node.phase or _iteration_space(other.outputs[0].spec) != space:
                continue
            if not groups.can_merge(pair):
                continue
            members = sorted(groups.members[pair[0]] + groups.members[pair[1]])
            if len(members) <= MAX_OPS and self._count_arrays(members) <= MAX_ARRAYS:
                groups.merge(pair)

    def _end(self, tail: int) -> None:
        """Let a reduction join the group that computes what it reads, so that this need not be read again."""
        groups, node = self.groups, self.groups.nodes[tail]
        p = groups.producer.get(node.inputs[0])
        if p is None or self.roles[p] not in ("elementwise", "anchor") or groups.nodes[p].phase != node.phase:
            return
        pair = [groups.group_of[p], tail]
        if self.roles[groups.members[pair[0]][-1]] != "tail" and groups.can_merge(pair):
            group = self._node(sorted([*groups.members[pair[0]], tail]))
            if self._has_kernel(group):
                self.fused.pop(pair[0], None)
                self.fused[groups.merge(pair)] = group

    def _count_arrays(self, members: Sequence[int]) -> int:
        inner = {v for i in members for v in self.groups.nodes[i].outputs}
        read = {v for i in members for v in self.groups.nodes[i].inputs if v.spec.size > 1} - inner
        return len(read) + len(self.groups.live_out(members, self.results))

    def _has_kernel(self, node: Node) -> bool:
        return self.backend.has_kernel(node.op, node.input_specs, node.output_specs, node.attrs)

    def _node(self, members: Sequence[int]) -> Node:
        """The group as a node; its outputs are the same values as before."""
        nodes = [self.groups.nodes[i] for i in members]
        refs: dict[Value, OperandRef] = {}
        inputs: list[Value] = []
        program: list[FusedInstruction] = []
        for j, node in enumerate(nodes):
            operands: list[OperandRef] = []
            for v in node.inputs:
                if v not in refs and self.roles[members[j]] != "anchor" and _is_scalar_constant(v, node):
                    operands.append(("const", v.array.reshape(()).item(), v.dtype))
                    continue
                if v not in refs:
                    refs[v] = ("in", len(inputs))
                    inputs.append(v)
                operands.append(refs[v])
            program.append((node.op.name, tuple(operands), tuple(sorted(node.attrs.items()))))
            refs.update((v, ("node", j, k)) for k, v in enumerate(node.outputs))
        outputs = self.groups.live_out(members, self.results)
        attrs = {
            "program": tuple(program),
            "outputs": tuple(refs[v] for v in outputs),
            "inplace": self._inplace(members, inputs, outputs),
        }
        scopes = tuple(dict.fromkeys(n.scope for n in nodes if n.scope))
        scope = scopes[0] if scopes else ""
        return Node(fused, tuple(inputs), attrs, tuple(outputs), scope, nodes[-1].phase, scopes)

    def _inplace(
        self, members: Sequence[int], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> tuple[tuple[int, int], ...]:
        """Which output may be written over which input: a state's new value over the state, others over what nobody
        reads afterwards. Anchors read their own operands more than once, and only write over states."""
        has_anchor = self.roles[members[0]] == "anchor"
        own = set(self.groups.nodes[members[0]].inputs) if has_anchor else set()
        pairs, used = [], set()
        for k, out in enumerate(outputs):
            name = self.state_of.get(out)
            for i, v in enumerate(inputs):
                if i in used or v.spec != out.spec or v in own:
                    continue
                if v.kind == "state" and v.name == name:
                    pairs.append((k, i))
                    used.add(i)
                    break
        for k, out in enumerate(outputs):
            if has_anchor or any(k == pair[0] for pair in pairs):
                continue
            for i, v in enumerate(inputs):
                if i in used or v.spec != out.spec or v.kind != "node" or v in self.results:
                    continue
                if all(r <= members[-1] for r in self.groups.readers[v]):
                    pairs.append((k, i))
                    used.add(i)
                    break
        return tuple(sorted(pairs))


def _iteration_space(spec: Spec) -> tuple[tuple[int, ...], str | None]:
    """What the ops of a group have in common: they run over the same elements in the same order."""
    return spec.shape, spec.layout


def _is_scalar_constant(value: Value, node: Node) -> bool:
    """Whether a constant may be a number in an elementwise node's code: another operand gives the shape."""
    if value.kind != "constant" or value.spec.size != 1:
        return False
    shape = node.outputs[0].shape
    return value.ndim == 0 or any(v.shape == shape and v.kind != "constant" for v in node.inputs)


def _can_defer(anchor: Node) -> bool:
    """Whether holding an anchor's operands until the update costs less memory than its result takes."""
    return anchor.phase == "backward" and sum(v.spec.nbytes for v in anchor.inputs) <= anchor.outputs[0].spec.nbytes


def _is_broadcast_operand(shape: tuple[int, ...], full: tuple[int, ...], axis: int) -> bool:
    """Whether an operand is full-size, one element, or a vector along the axis."""
    wide = (1,) * (len(full) - len(shape)) + shape
    return shape == full or all(n == 1 or (i == axis and n == full[i]) for i, n in enumerate(wide))
