"""Liveness: the steps of a plan, in whose memory each value lies, and from which step to which that memory is live.

A view has no memory of its own: it lies in its *storage*. Inside a batch loop, slices lie in the memory of the whole
value that they are cut from or joined to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from prototorch.graph.ir import Node, Value
from prototorch.ops.batch_views import concat_view, slice_view

__all__ = ["Liveness", "Step"]


@dataclass(slots=True)
class Step:
    """One call of a kernel: a node that is no view, with its values."""

    node: Node
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


class Liveness:
    """The steps of nodes in their order, and by storage the first step that defines it and the last that uses it.

    ``results`` are live to the end, which is step number ``len(steps)``. ``slice_bytes`` are the bytes of each value
    that is a slice of a larger storage.
    """

    def __init__(self, nodes: Sequence[Node], results: Iterable[Value]):
        self._storage: dict[Value, Value] = {}
        self.slice_bytes: dict[Value, int] = {}
        self.steps = self._collect_steps(nodes)
        self.first_def: dict[Value, int] = {}
        self.last_use: dict[Value, int] = {}
        self._measure(results)

    def storage(self, value: Value) -> Value:
        """The value in whose memory a value lies: itself, but for views."""
        return self._storage.get(value, value)

    def is_live_at(self, value: Value, step: int) -> bool:
        """Whether a step uses a storage or leaves it to a later one."""
        return self.last_use.get(value, -1) >= step

    def _collect_steps(self, nodes: Sequence[Node]) -> list[Step]:
        for node in nodes:
            if node.op is concat_view:
                self._storage[node.inputs[0]] = node.outputs[0]
                self.slice_bytes[node.inputs[0]] = node.inputs[0].spec.nbytes
        steps = []
        for node in nodes:
            if not node.op.is_view:
                steps.append(Step(node, node.inputs, node.outputs))
            elif node.op is not concat_view:
                source, view = node.inputs[0], node.outputs[0]
                self._storage[view] = self.storage(source)
                if node.op is slice_view or (source in self.slice_bytes and node.loop is not None):
                    self.slice_bytes[view] = view.spec.nbytes
        return steps

    def _measure(self, results: Iterable[Value]) -> None:
        storage, first_def, last_use = self._storage, self.first_def, self.last_use
        for i, step in enumerate(self.steps):
            for v in step.inputs:
                last_use[storage.get(v, v)] = i
            for v in step.outputs:
                root = storage.get(v, v)
                first_def.setdefault(root, i)
                last_use.setdefault(root, i)
        if any(step.node.loop is not None for step in self.steps):
            self._extend_over_loops()
        end = len(self.steps)
        for v in results:
            last_use[storage.get(v, v)] = end

    def _extend_over_loops(self) -> None:
        """Whole values that a loop writes, and all that it reads from before, are live through all of its trips."""
        for loop, group in groupby(range(len(self.steps)), lambda i: self.steps[i].node.loop):
            if loop is None:
                continue
            inside = list(group)
            first, last = inside[0], inside[-1]
            for step in self.steps[first : last + 1]:
                for v in map(self.storage, step.inputs):
                    if self.first_def.get(v, -1) < first:
                        self.last_use[v] = max(self.last_use[v], last)
                for v in step.outputs:
                    if v in self.slice_bytes:
                        root = self.storage(v)
                        self.first_def[root], self.last_use[root] = first, max(self.last_use[root], last)
