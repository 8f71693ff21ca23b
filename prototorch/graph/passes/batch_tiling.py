"""Batch tiling: a large batch goes through a plan slice by slice where its activations would not stay in the caches.

Neighbouring nodes that treat each sample for itself become a *loop*: they are applied to a slice, and run once for each
slice of the batch before the nodes behind them. What they hand each other is then still in a cache, and takes the
memory of one slice; on the other hand weights are read once for each slice. How many samples a slice has follows from
both, for each stretch of nodes: many where weights are large, few where activations are.

Only graphs without a backward pass: in training, activations are saved for it anyhow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import isqrt
from typing import Any, NamedTuple

from prototorch.errors import ShapeError
from prototorch.graph.batch_analysis import BATCHED, INDEPENDENT, analyze_batch_axis
from prototorch.graph.ir import SETUP, BatchLoop, Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.graph.trace import RANDOM_KEY
from prototorch.ops.batch_views import concat_view, slice_view
from prototorch.spec import Spec

__all__ = ["tile_batch"]

#: bytes that could be moved in the time that it takes to begin a step and to wait for its last thread
_STEP_OVERHEAD = 50_000
_WEIGHT_RELOAD = 0.3  # of the time that memory takes: weights that the slice before has read may still be in a cache
_CACHED_ACCESS = 0.05  # likewise what the step before has written, where it fits


def tile_batch(graph: Graph, context: PassContext) -> bool:
    """Form such loops; the backend's `cache_bytes` are what stays in the caches from one step to the next."""
    shapes = [v.shape for name, v in graph.inputs.items() if name != RANDOM_KEY and v.ndim]
    batch = shapes[0][0] if shapes else 1
    cache_bytes = context.kernels.cache_bytes
    if batch < 2 or not cache_bytes or any(node.phase == "backward" for node in graph):
        return False
    nodes = _BatchTiling(graph, batch, cache_bytes).tile()
    if nodes is None:
        return False
    graph.rebuild(nodes)
    return True


def _divisors(number: int) -> list[int]:
    """The divisors of a number, ascending; of one beyond 2**32 only those up to 2**16 and their counterparts."""
    small = [n for n in range(1, min(isqrt(number), 1 << 16) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


class _NodeBytes(NamedTuple):
    """Bytes that a node moves: activations of one sample, and the rest (weights)."""

    sample: int
    rest: int


class _BatchTiling:
    def __init__(self, graph: Graph, batch: int, cache_bytes: int):
        nodes = graph.nodes
        self.graph, self.batch, self.cache_bytes = graph, batch, cache_bytes
        self.setup = [node for node in nodes if node.phase == SETUP]
        self.nodes = [node for node in nodes if node.phase != SETUP]
        inputs = {
            v: BATCHED if name != RANDOM_KEY and v.shape[:1] == (batch,) else INDEPENDENT
            for name, v in graph.inputs.items()
        }
        self.kinds = analyze_batch_axis(self.nodes, batch, inputs)

    def is_batched(self, value: Value) -> bool:
        """Whether a value's first axis goes through the samples in their order."""
        return self.kinds.get(value) == BATCHED

    def tile(self) -> list[Node] | None:
        """All nodes anew, those of loops for slices; None where no loop is worth it."""
        counts = self._slice_counts()
        new_setup = list(self.setup)
        loops = 0
        for count, group in groupby(range(len(self.nodes)), lambda i: counts[i]):
            stretch = [self.nodes[i] for i in group]
            if count == self.batch or all(node.op.is_view for node in stretch):
                new_setup += stretch
            else:
                new_setup += _TiledLoop(self, stretch, count, loops).nodes()
                loops += 1
        return new_setup if loops else None

    # ------------------------------------------------------------------ how many samples a slice has

    def _slice_counts(self) -> list[int]:
        """For each node the samples of a slice, the whole batch where it is no part of a loop: the cheapest way through
        all of them (dynamic programming), counted in bytes that come from memory."""
        sizes = _divisors(self.batch)
        spent = dict.fromkeys(sizes, 0.0)
        steps: list[dict[int, int]] = []  # for each node and size the size before
        live = self._live_sample_bytes()
        for i, node in enumerate(self.nodes):
            switch = self._memory_traffic(2 * live[i] * self.batch)
            best = min(spent, key=lambda c: spent[c])
            costs, step = {}, {}
            for count in sizes if self._can_be_tiled(node) else [self.batch]:
                stay = spent.get(count, float("inf"))
                step[count] = count if stay <= spent[best] + switch else best
                costs[count] = min(stay, spent[best] + switch) + self._node_cost(node, count)
            spent = costs
            steps.append(step)
        count = min(spent, key=lambda c: (spent[c], -c))
        counts = []
        for step in reversed(steps):
            counts.append(count)
            count = step[count]
        return counts[::-1]

    def _memory_traffic(self, nbytes: float) -> float:
        return nbytes if nbytes > self.cache_bytes else nbytes * _CACHED_ACCESS

    def _node_cost(self, node: Node, count: int) -> float:
        if node.op.is_view:
            return 0.0
        size, trips = self._node_bytes(node), self.batch // count
        rest = size.rest * (1 + (trips - 1) * _WEIGHT_RELOAD)
        return self._memory_traffic(size.sample * count) * trips + rest + _STEP_OVERHEAD * trips

    def _node_bytes(self, node: Node) -> _NodeBytes:
        values = (*node.inputs, *node.outputs)
        batched = sum(v.spec.nbytes for v in values if self.is_batched(v))
        return _NodeBytes(batched // self.batch, sum(v.spec.nbytes for v in values) - batched)

    def _live_sample_bytes(self) -> list[int]:
        """Before each node: bytes of a sample that are computed before it and read later."""
        first_def: dict[Value, int] = {}
        last_use: dict[Value, tuple[int, int]] = {}
        for i, node in enumerate(self.nodes):
            for v in node.outputs:
                first_def[v] = i
            for v in node.inputs:
                if self.is_batched(v):
                    last_use[v] = i, v.spec.nbytes // self.batch
        live = [0] * len(self.nodes)
        for value, (end, nbytes) in last_use.items():
            for i in range(first_def.get(value, -1) + 1, end + 1):
                live[i] += nbytes
        return live

    # ------------------------------------------------------------------ which nodes may be in a loop

    def _can_be_tiled(self, node: Node) -> bool:
        if node.phase != "forward" or not all(self.is_batched(v) for v in node.outputs):
            return False
        return not _is_random(node.attrs) and self.slice_signature(node, 1) is not None

    def slice_signature(self, node: Node, count: int) -> tuple[dict[str, Any], tuple[Spec, ...]] | None:
        """The attributes and the output specs of a node for a slice of so many samples; None where there are none."""
        ins = tuple(self.slice_spec(v, count) for v in node.inputs)
        expected = tuple(self.slice_spec(v, count) for v in node.outputs)
        attrs = node.attrs
        if "shape" in attrs and attrs["shape"][:1] == node.outputs[0].shape[:1]:
            attrs = {**attrs, "shape": (expected[0].shape[0], *attrs["shape"][1:])}
        try:
            inferred = node.op.infer_spec(*(replace(s, layout=None) for s in ins), **attrs)
        except ShapeError:
            return None
        specs = inferred if isinstance(inferred, tuple) else (inferred,)
        same = all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(specs, expected, strict=True))
        return (attrs, expected) if same else None

    def slice_spec(self, value: Value, count: int) -> Spec:
        """The spec of a value in a slice of so many samples."""
        if not self.is_batched(value):
            return value.spec
        first, *rest = value.shape
        return replace(value.spec, shape=(first // self.batch * count, *rest))


def _is_random(attrs: Mapping[str, Any]) -> bool:
    """Whether random numbers are drawn, which depend on how many were drawn before."""
    return "site" in attrs or any(_is_random(dict(line[2])) for line in attrs.get("program", ()))


class _TiledLoop:
    """One loop: the nodes of a stretch for slices of ``count`` samples."""

    def __init__(self, tiling: _BatchTiling, stretch: Sequence[Node], count: int, loop_id: int):
        self.tiling, self.stretch, self.count = tiling, stretch, count
        self.graph = tiling.graph
        self.loop = BatchLoop(loop_id, tiling.batch // count)
        self.slices: dict[Value, Value] = {}  # a value of the whole batch -> its slice

    def nodes(self) -> list[Node]:
        """The nodes of the loop, and behind them those that make whole values of its slices."""
        nodes: list[Node] = []
        for node in self.stretch:
            ins = tuple(self._slice(v, node, nodes) for v in node.inputs)
            signature = self.tiling.slice_signature(node, self.count)
            assert signature is not None
            attrs, specs = signature
            outs = tuple(Value(self.graph, s) for s in specs)
            nodes.append(Node(node.op, ins, attrs, outs, node.scope, node.phase, node.scopes, loop=self.loop))
            self.slices.update(zip(node.outputs, outs, strict=True))
        return [*nodes, *self._nodes_after_loop()]

    def _slice(self, value: Value, node: Node, nodes: list[Node]) -> Value:
        if not self.tiling.is_batched(value):
            return value
        if value not in self.slices:
            new = Value(self.graph, self.tiling.slice_spec(value, self.count))
            nodes.append(Node(slice_view, (value,), {"count": new.shape[0]}, (new,), node.scope, node.phase))
            self.slices[value] = new
        return self.slices[value]

    def _nodes_after_loop(self) -> list[Node]:
        """Whole values that are read behind the loop; a view of one is applied again there."""
        inside = set(self.stretch)
        read: set[Value] = set()
        views: list[Node] = []
        joins: list[Node] = []
        for node in reversed(self.stretch):
            for v in node.outputs:
                outside = self.graph.is_result(v) or any(user not in inside for user in v.users)
                if not outside and v not in read:
                    continue
                if node.op.is_view:
                    views.append(node)
                    read.add(node.inputs[0])
                else:
                    trips = {"times": self.loop.trip_count}
                    joins.append(Node(concat_view, (self.slices[v],), trips, (v,), node.scope, node.phase))
        return [*joins, *reversed(views)]
