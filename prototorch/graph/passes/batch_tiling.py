"""A large batch goes through a plan slice by slice where its activations would not stay in the caches.

Neighbouring nodes that treat each sample for itself become a *loop*: they are said for a slice, and run once for each
slice of the batch before the nodes behind them. What they hand each other is then still in a cache, and takes the
memory of one slice; on the other hand weights are read once for each slice. How many samples a slice has follows from
both, for each stretch of nodes: many where weights are large, few where activations are.

Only plans without a backward pass: in training, activations are kept for it anyhow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from prototorch.errors import ShapeError
from prototorch.graph.batch_analysis import BATCHED, INDEPENDENT, analyze_batch_axis
from prototorch.graph.ir import BatchLoop, Graph, Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.graph.passes.runtime_constant_folding import SETUP
from prototorch.graph.trace import RANDOM_KEY
from prototorch.ops.batch_views import concat_view, slice_view
from prototorch.spec import Spec

_STEP_OVERHEAD = (
    50_000  # bytes that could be moved in the time that it takes to begin a step and to wait for its last thread
)
_WEIGHT_RELOAD = 0.3  # of the time that memory takes: weights that the slice before has read may still be in a cache
_CACHED_ACCESS = 0.05  # likewise what the step before has written, where it fits


def tile_batch(graph: Graph, nodes: Sequence[Node], outputs: Mapping[str, Value], updates: Mapping[str, Value],
           cache_bytes: int) -> list[Node]:  # fmt: skip
    """The nodes with loops among them; ``near`` are the bytes that stay in the caches from one step to the next."""
    shapes = [v.shape for name, v in graph.inputs.items() if name != RANDOM_KEY and v.ndim]
    batch = shapes[0][0] if shapes else 1
    if batch < 2 or not cache_bytes or any(node.phase == "backward" for node in nodes):
        return list(nodes)
    return _BatchTiling(
        graph, nodes, {id(v) for v in (*outputs.values(), *updates.values())}, batch, cache_bytes
    ).nodes()


class _NodeBytes(NamedTuple):
    """Bytes that a node moves: activations of one sample, and the rest (weights)."""

    sample: int
    rest: int


class _BatchTiling:
    def __init__(self, graph: Graph, nodes: Sequence[Node], wanted: set[int], batch: int, near: int):
        self.once = [node for node in nodes if node.phase == SETUP]
        self.order = [node for node in nodes if node.phase != SETUP]
        self.wanted, self.batch, self.near = wanted, batch, near
        rows = {
            id(v): BATCHED if name != RANDOM_KEY and v.shape[:1] == (batch,) else INDEPENDENT
            for name, v in graph.inputs.items()
        }
        self.kinds = analyze_batch_axis(self.order, batch, rows)
        self.readers: dict[int, list[Node]] = {}
        for node in self.order:
            for v in node.inputs:
                self.readers.setdefault(id(v), []).append(node)

    def nodes(self) -> list[Node]:
        """All nodes anew."""
        made = list(self.once)
        counts = self._counts()
        number = 0
        for count, group in groupby(range(len(self.order)), lambda i: counts[i]):
            run = [self.order[i] for i in group]
            if count == self.batch or all(node.op.is_view for node in run):
                made += run
            else:
                made += _TiledLoop(self, run, count, number).nodes()
                number += 1
        return made

    # ---------------------------------------------------------------- how many samples a slice has

    def _counts(self) -> list[int]:
        """For each node the samples of a slice, the whole batch where it is no part of a loop: the cheapest way through
        all of them, counted in bytes that come from memory."""
        sizes = [count for count in range(1, self.batch + 1) if self.batch % count == 0]
        spent = dict.fromkeys(sizes, 0.0)
        ways: list[dict[int, int]] = []  # for each node and size the size before
        alive = self._alive()
        for i, node in enumerate(self.order):
            able = self._able(node)
            turn = self._moved(2 * alive[i] * self.batch)
            best = min(spent, key=lambda c: spent[c])
            now, way = {}, {}
            for count in sizes if able else [self.batch]:
                stay = spent.get(count, float("inf"))
                before = count if stay <= spent[best] + turn else best
                way[count] = before
                now[count] = min(stay, spent[best] + turn) + self._price(node, count)
            spent = now
            ways.append(way)
        count = min(spent, key=lambda c: (spent[c], -c))
        made = []
        for way in reversed(ways):
            made.append(count)
            count = way[count]
        return made[::-1]

    def _moved(self, nbytes: float) -> float:
        return nbytes if nbytes > self.near else nbytes * _CACHED_ACCESS

    def _price(self, node: Node, count: int) -> float:
        if node.op.is_view:
            return 0.0
        size, times = self._size(node), self.batch // count
        again = size.rest * (1 + (times - 1) * _WEIGHT_RELOAD)
        return self._moved(size.sample * count) * times + again + _STEP_OVERHEAD * times

    def _size(self, node: Node) -> _NodeBytes:
        values = (*node.inputs, *node.outputs)
        own = sum(v.spec.nbytes for v in values if self.kinds.get(id(v)) == BATCHED)
        return _NodeBytes(own // self.batch, sum(v.spec.nbytes for v in values) - own)

    def _alive(self) -> list[int]:
        """Before each node: bytes of a sample that were made before it and are read later."""
        born: dict[int, int] = {}
        last: dict[int, tuple[int, int]] = {}
        for i, node in enumerate(self.order):
            for v in node.outputs:
                born[id(v)] = i
            for v in node.inputs:
                if self.kinds.get(id(v)) == BATCHED:
                    last[id(v)] = i, v.spec.nbytes // self.batch
        found = [0] * len(self.order)
        for key, (end, nbytes) in last.items():
            for i in range(born.get(key, -1) + 1, end + 1):
                found[i] += nbytes
        return found

    # ---------------------------------------------------------------- which nodes may be in a loop

    def _able(self, node: Node) -> bool:
        if node.phase != "forward" or not all(self.kinds.get(id(v)) == BATCHED for v in node.outputs):
            return False
        return not _is_random(node.attrs) and self.said(node, 1) is not None

    def said(self, node: Node, count: int) -> tuple[dict[str, Any], tuple[Spec, ...]] | None:
        """The attributes and the specs of the outputs of a node that is said for so many samples; None where it cannot
        be."""
        ins = tuple(self.spec(v, count) for v in node.inputs)
        wanted = tuple(self.spec(v, count) for v in node.outputs)
        attrs = node.attrs
        if "shape" in attrs and attrs["shape"][:1] == node.outputs[0].shape[:1]:
            attrs = {**attrs, "shape": (wanted[0].shape[0], *attrs["shape"][1:])}
        try:
            found = node.op.infer_spec(*(replace(s, layout=None) for s in ins), **attrs)
        except ShapeError:
            return None
        specs = found if isinstance(found, tuple) else (found,)
        same = all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(specs, wanted, strict=True))
        return (attrs, wanted) if same else None

    def spec(self, value: Value, count: int) -> Spec:
        """The spec of a value in a slice of so many samples."""
        if self.kinds.get(id(value)) != BATCHED:
            return value.spec
        first, *rest = value.shape
        return replace(value.spec, shape=(first // self.batch * count, *rest))


def _is_random(attrs: Mapping[str, Any]) -> bool:
    """Whether random numbers are drawn, which depend on how many were drawn before."""
    return "site" in attrs or any(_is_random(dict(line[2])) for line in attrs.get("program", ()))


class _TiledLoop:
    """One loop: the nodes of a stretch for slices of ``count`` samples."""

    def __init__(self, slices: _BatchTiling, run: Sequence[Node], count: int, number: int):
        self.slices, self.run, self.count = slices, run, count
        self.loop = BatchLoop(number, slices.batch // count)
        self.inner: dict[int, Value] = {}  # a value of the whole batch -> its slice

    def nodes(self) -> list[Node]:
        """The nodes of the loop, and behind them what makes whole values of its slices."""
        made: list[Node] = []
        for node in self.run:
            ins = tuple(self._slice(v, node, made) for v in node.inputs)
            said = self.slices.said(node, self.count)
            assert said is not None
            attrs, specs = said
            outs = tuple(Value(v.interpreter, s, "node") for v, s in zip(node.outputs, specs, strict=True))
            new = Node(node.op, ins, attrs, outs, node.scope, node.phase, node.scopes, loop=self.loop)
            set_producer(new)
            made.append(new)
            self.inner.update((id(v), new_v) for v, new_v in zip(node.outputs, outs, strict=True))
        return [*made, *self._behind()]

    def _slice(self, value: Value, node: Node, made: list[Node]) -> Value:
        if self.slices.kinds.get(id(value)) != BATCHED:
            return value
        if id(value) not in self.inner:
            new = Value(value.interpreter, self.slices.spec(value, self.count), "node")
            made.append(Node(slice_view, (value,), {"count": new.shape[0]}, (new,), node.scope, node.phase))
            set_producer(made[-1])
            self.inner[id(value)] = new
        return self.inner[id(value)]

    def _behind(self) -> list[Node]:
        """Whole values that are read behind the loop; a view of such is said again there."""
        inside = {id(node) for node in self.run}
        read: set[int] = set()
        views: list[Node] = []
        joins: list[Node] = []
        for node in reversed(self.run):
            for v in node.outputs:
                readers = self.slices.readers.get(id(v), ())
                outside = id(v) in self.slices.wanted or any(id(r) not in inside for r in readers)
                if not outside and id(v) not in read:
                    continue
                if node.op.is_view:
                    views.append(node)
                    read.add(id(node.inputs[0]))
                else:
                    joins.append(
                        Node(
                            concat_view,
                            (self.inner[id(v)],),
                            {"times": self.loop.trip_count},
                            (v,),
                            node.scope,
                            node.phase,
                        )
                    )
                    set_producer(joins[-1])
        return [*joins, *reversed(views)]
