"""Fusion: ops that a backend can run in one sweep over memory become one ``fuse_ops`` node.

A group is either elementwise ops of one shape that read each other's results, or an *anchor* (a convolution, a matrix
product) with the elementwise ops that follow its first output; either may end in a *tail* (a sum). What is read
elsewhere becomes an output of the group, so nothing is ever computed twice, and no value is read or written more often
than before. A group lies within one phase of the step, for weights may only change after the guard of the runner; but a
matrix product that only makes the gradient of a large weight may wait for that weight's update, so that the gradient
need not be written at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.graph.passes.fusion_groups import FusionGroups
from prototorch.ops.fused import FusedInstruction, OperandRef
from prototorch.ops.fused import fused as fused_op
from prototorch.spec import Spec

MAX_OPS = 48  # ops in a group: code longer than that takes long to compile and runs out of registers
MAX_ARRAYS = 24  # arrays a group reads and writes: more streams than that are slower than two sweeps
_CHANNELS_LAST_ANCHORS = ("matmul",)  # anchors whose channels are the last axis; else they are axis 1
_NON_ELEMENTWISE_INPUTS = {"dropout": (1,)}  # inputs that are not read element by element: a random key


def fuse_ops(nodes: Sequence[Node], outputs: Mapping[str, Value], updates: Mapping[str, Value],
          backend: Backend) -> list[Node]:  # fmt: skip
    """The nodes with groups in the place of what they are made of, where the backend takes them."""
    return _Fusion(nodes, outputs, updates, backend).nodes()


class _Fusion:
    def __init__(self, nodes: Sequence[Node], outputs: Mapping[str, Value], updates: Mapping[str, Value],
                 backend: Backend):  # fmt: skip
        self.backend = backend
        self.groups = FusionGroups(nodes)
        self.wanted = {id(v) for v in (*outputs.values(), *updates.values())}
        self.state_of = {id(v): name for name, v in updates.items()}
        self.kinds = [self._kind(node) for node in nodes]
        self.made: dict[int, Node] = {}  # group -> its node

    def nodes(self) -> list[Node]:
        for i, kind in enumerate(self.kinds):
            if kind == "anchor":
                self._grow(i)
        for i, kind in enumerate(self.kinds):
            if kind == "elementwise":
                self._join(i)
        for i, kind in enumerate(self.kinds):
            if kind == "tail":
                self._end(i)
        kept: list[Node] = []
        refused = []
        for group, members in self.groups.members.items():
            if len(members) > 1 and group not in self.made:
                node = self._node(members)
                if self._accepts(node):
                    self.made[group] = node
                else:
                    refused.append(group)
        if refused:
            return self._without(refused)
        for group in self.groups.order():
            kept.append(self.made.get(group, self.groups.nodes[group]))
            set_producer(kept[-1])
        return kept

    def _without(self, refused: Sequence[int]) -> list[Node]:
        """Once more, with the members of the refused groups left alone."""
        again = _Fusion.__new__(_Fusion)
        again.__dict__.update(self.__dict__)
        again.groups, again.made = FusionGroups(self.groups.nodes), {}
        again.kinds = list(self.kinds)
        for group in refused:
            for i in self.groups.members[group]:
                again.kinds[i] = None
        return again.nodes()

    def _kind(self, node: Node) -> str | None:
        kind = self.backend.fusion_role(node.op.name)
        first = node.outputs[0].spec
        if kind in ("anchor", "tail"):
            return kind
        if kind != "elementwise" or any(_iteration_space(v.spec) != _iteration_space(first) for v in node.outputs):
            return None
        return kind if all(v.spec.layout == first.layout for v in node.inputs if v.shape == first.shape) else None

    def _alone(self, i: int) -> bool:
        return self.kinds[i] == "elementwise" and len(self.groups.members[self.groups.of[i]]) == 1

    def _grow(self, anchor: int) -> None:
        """Let an anchor take the elementwise nodes after it: the most that the backend accepts."""
        groups, node = self.groups, self.groups.nodes[anchor]
        if id(node.outputs[0]) in self.wanted:
            return
        tried = [[anchor]]
        while len(tried[-1]) < MAX_OPS:
            following = self._following(tried[-1])
            found = next((i for i in following if groups.legal([*tried[-1], i])), None)
            if found is None:
                break
            tried.append(sorted([*tried[-1], found]))
        for members in tried[:0:-1]:
            inside = set(members)
            if all(r in inside for r in groups.readers[id(node.outputs[0])]):
                made = self._node(members)
                if self._accepts(made):
                    self.made[groups.merge(members)] = made
                    return

    def _following(self, members: Sequence[int]) -> list[int]:
        """The nodes that could join an anchor's group, in order."""
        anchor, *rest = (self.groups.nodes[i] for i in members)
        y = anchor.outputs[0]
        inside = {id(v) for i in members for v in self.groups.nodes[i].outputs}
        late = [n.phase for n in rest][:1]
        found = {r for key in inside for r in self.groups.readers.get(key, ())} - set(members)
        made = []
        for i in sorted(found):
            node = self.groups.nodes[i]
            phases = late or ([anchor.phase, "update"] if _can_defer(anchor) else [anchor.phase])
            if (
                not self._alone(i)
                or _iteration_space(node.outputs[0].spec) != _iteration_space(y.spec)
                or node.phase not in phases
            ):
                continue
            axis = y.ndim - 1 if anchor.op.name in _CHANNELS_LAST_ANCHORS else 1
            apart = _NON_ELEMENTWISE_INPUTS.get(node.op.name, ())
            if all(
                id(v) in inside or k in apart or _is_broadcast_operand(v.shape, y.shape, axis)
                for k, v in enumerate(node.inputs)
            ):
                made.append(i)
        return made

    def _join(self, i: int) -> None:
        """Put an elementwise node into the groups of those that make what it reads."""
        groups, node = self.groups, self.groups.nodes[i]
        grid = _iteration_space(node.outputs[0].spec)
        for value in node.inputs:
            p = groups.producer.get(id(value))
            if p is None or self.kinds[p] != "elementwise" or groups.of[p] == groups.of[i]:
                continue
            pair, other = [groups.of[p], groups.of[i]], groups.nodes[p]
            if pair[0] in self.made or pair[1] in self.made:
                continue
            if other.phase != node.phase or _iteration_space(other.outputs[0].spec) != grid or not groups.legal(pair):
                continue
            members = sorted(groups.members[pair[0]] + groups.members[pair[1]])
            if len(members) <= MAX_OPS and self._arrays(members) <= MAX_ARRAYS:
                groups.merge(pair)

    def _end(self, tail: int) -> None:
        """Let a reduction join the group that makes what it reads, so that this need not be read again."""
        groups, node = self.groups, self.groups.nodes[tail]
        p = groups.producer.get(id(node.inputs[0]))
        if p is None or self.kinds[p] not in ("elementwise", "anchor") or groups.nodes[p].phase != node.phase:
            return
        pair = [groups.of[p], tail]
        if self.kinds[groups.members[pair[0]][-1]] != "tail" and groups.legal(pair):
            made = self._node(sorted([*groups.members[pair[0]], tail]))
            if self._accepts(made):
                self.made.pop(pair[0], None)
                self.made[groups.merge(pair)] = made

    def _arrays(self, members: Sequence[int]) -> int:
        inner = {id(v) for i in members for v in self.groups.nodes[i].outputs}
        read = {id(v) for i in members for v in self.groups.nodes[i].inputs if v.spec.size > 1} - inner
        return len(read) + len(self.groups.seen_outside(members, self.wanted))

    def _accepts(self, node: Node) -> bool:
        ins, outs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
        return self.backend.has_kernel(node.op, ins, outs, node.attrs)

    def _node(self, members: Sequence[int]) -> Node:
        """The group as a node; its outputs are the same values as before."""
        nodes = [self.groups.nodes[i] for i in members]
        refs: dict[int, OperandRef] = {}
        inputs: list[Value] = []
        lines: list[FusedInstruction] = []
        for j, node in enumerate(nodes):
            operands: list[OperandRef] = []
            for v in node.inputs:
                if id(v) not in refs and self.kinds[members[j]] != "anchor" and _is_scalar_constant(v, node):
                    operands.append(("const", v.array.reshape(()).item(), v.dtype))
                    continue
                if id(v) not in refs:
                    refs[id(v)] = ("in", len(inputs))
                    inputs.append(v)
                operands.append(refs[id(v)])
            lines.append((node.op.name, tuple(operands), tuple(sorted(node.attrs.items()))))
            refs.update((id(v), ("node", j, k)) for k, v in enumerate(node.outputs))
        outputs = self.groups.seen_outside(members, self.wanted)
        attrs = {
            "program": tuple(lines),
            "outputs": tuple(refs[id(v)] for v in outputs),
            "inplace": self._inplace(members, inputs, outputs),
        }
        phase = nodes[-1].phase
        scopes = tuple(dict.fromkeys(n.scope for n in nodes if n.scope))
        scope = scopes[0] if scopes else ""
        return Node(fused_op, tuple(inputs), attrs, tuple(outputs), scope, phase, scopes)

    def _inplace(self, members: Sequence[int], inputs: Sequence[Value],
                 outputs: Sequence[Value]) -> tuple[tuple[int, int], ...]:  # fmt: skip
        """Which output may be written over which input: a state's new value over the state, others over what nobody
        reads afterwards. Anchors read their own operands more than once, and keep to the states."""
        anchored = self.kinds[members[0]] == "anchor"
        own = {id(v) for v in self.groups.nodes[members[0]].inputs} if anchored else set()
        pairs, used = [], set()
        for k, out in enumerate(outputs):
            name = self.state_of.get(id(out))
            for i, v in enumerate(inputs):
                if i in used or v.spec != out.spec or id(v) in own:
                    continue
                if v.kind == "state" and v.name == name:
                    pairs.append((k, i))
                    used.add(i)
                    break
        for k, out in enumerate(outputs):
            if anchored or any(k == pair[0] for pair in pairs):
                continue
            for i, v in enumerate(inputs):
                if i in used or v.spec != out.spec or v.kind != "node" or id(v) in self.wanted:
                    continue
                if all(r <= members[-1] for r in self.groups.readers[id(v)]):
                    pairs.append((k, i))
                    used.add(i)
                    break
        return tuple(sorted(pairs))


def _iteration_space(spec: Spec) -> tuple[tuple[int, ...], str | None]:
    """What the ops of a group have in common: they run over the same places in the same order."""
    return spec.shape, spec.layout


def _is_scalar_constant(value: Value, node: Node) -> bool:
    """Whether a constant is as good as a number for an elementwise node: another operand says the shape."""
    if value.kind != "constant" or value.spec.size != 1:
        return False
    shape = node.outputs[0].shape
    return value.ndim == 0 or any(v.shape == shape and v.kind != "constant" for v in node.inputs)


def _can_defer(anchor: Node) -> bool:
    """Whether keeping an anchor's operands until the update costs less memory than its result takes."""
    return anchor.phase == "backward" and sum(v.spec.nbytes for v in anchor.inputs) <= anchor.outputs[0].spec.nbytes


def _is_broadcast_operand(shape: tuple[int, ...], full: tuple[int, ...], axis: int) -> bool:
    """Whether an operand is full-size, one number, or a vector along the axis."""
    wide = (1,) * (len(full) - len(shape)) + shape
    return shape == full or all(n == 1 or (i == axis and n == full[i]) for i, n in enumerate(wide))
