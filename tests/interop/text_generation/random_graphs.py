"""Random nets of repeated motifs, with names of several habits. Texts know no shapes, so the wiring is free."""

from __future__ import annotations

import random
from collections.abc import Callable

import prototorch as pt
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.layers.base import Layer

L = pt.layers
HABITS = ("automatic", "path", "underscores", "counted", "none", "awkward")


class GraphBuilder:
    """A net as it grows: layers of random fields, names by one habit."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.habit = self.draw.choice(HABITS)
        self.nodes: list[LayerNode] = []
        self.inputs = [InputNode(f"in{i}", (4, 8, 8)) for i in range(self.draw.choice([1, 1, 1, 2]))]
        self.path: list[str] = []
        self.used: set[str] = set()

    def name(self, kind: str) -> str:
        """A new name for a layer of this class."""
        number = len(self.nodes)
        short = {"Conv2D": "conv", "BatchNormalization": "bn", "Dense": "fc"}.get(kind, kind.lower())
        local = f"{short}{self.draw.randrange(3)}"
        base = {
            "automatic": f"{kind.lower()}_{number}",
            "path": "/".join([*self.path, local]),
            "underscores": "_".join([*self.path, local]),
            "counted": f"{short}{number}",
            "none": f"node_{number}",
            "awkward": self.draw.choice(["a", "é/ü", "x.y", "1", "a/b", "conv2d_1", "a_b", "a.b", "residual", "0/0"]),
        }[self.habit]
        name, extra = base, 0
        while name in self.used:
            extra += 1
            name = f"{base}_{extra}"
        self.used.add(name)
        return name

    def add(self, layer: Layer, *bottoms: str) -> str:
        """The name of a new layer's output."""
        name = self.name(type(layer).__name__)
        self.nodes.append(LayerNode(name, layer.replace(name=name), bottoms, (name,)))
        return name


def _layer(draw: random.Random) -> Layer:
    return draw.choice(
        [
            lambda: L.Conv2D(
                draw.choice([8, 16, 32]), draw.choice([1, 3, (1, 3)]), padding=draw.choice([0, 1, "same"])
            ),
            lambda: L.BatchNormalization(epsilon=draw.choice([1e-3, 1e-5])),
            lambda: L.ReLU(),
            lambda: L.Dropout(draw.choice([0.1, 0.2])),
            lambda: L.MaxPooling2D(draw.choice([2, 3])),
            lambda: L.Dense(draw.choice([4, 8]), activation=draw.choice(["linear", "relu"])),
        ]
    )()


Motif = Callable[[GraphBuilder, str], str]


def _motif(draw: random.Random, depth: int = 0) -> Motif:
    """A random piece of net, the same at each use but for some numbers."""
    kind = draw.choice(["chain", "chain", "merge", "twice"] if depth < 2 else ["chain"])
    if kind == "chain":
        layers = [_layer(draw) for _ in range(draw.randrange(1, 4))]

        def chain(builder: GraphBuilder, value: str) -> str:
            for layer in layers:
                varied = layer
                if isinstance(layer, L.Conv2D) and builder.draw.random() < 0.5:
                    varied = layer.replace(filters=builder.draw.choice([8, 16, 32, 64]))
                value = builder.add(varied, value)
            return value

        return chain
    parts = [_motif(draw, depth + 1) for _ in range(draw.randrange(1, 3))]
    if kind == "twice":

        def twice(builder: GraphBuilder, value: str) -> str:
            for part in parts * 2:
                value = part(builder, value)
            return value

        return twice
    merge, has_identity = draw.choice([L.Add, L.Concatenate, L.Multiply]), draw.random() < 0.6

    def merged(builder: GraphBuilder, value: str) -> str:
        ends = [part(builder, value) for part in parts]
        return builder.add(merge(), *ends, *([value] if has_identity or len(ends) < 2 else []))

    return merged


def random_graph(seed: int, uses: int = 14) -> Net:
    """A net of repeated motifs, some of them joined by connections across."""
    builder = GraphBuilder(seed)
    draw = builder.draw
    motifs = [_motif(draw) for _ in range(3)]
    value = builder.inputs[0].name
    values = [i.name for i in builder.inputs]
    for number in range(draw.randrange(2, uses)):
        builder.path = [f"stage{number // 3}", f"unit{number % 3}"]
        value = draw.choice(motifs)(builder, value)
        values.append(value)
        if draw.random() < 0.15:
            value = builder.add(draw.choice([L.Add(), L.Dot(1)]), value, draw.choice(values))
        if draw.random() < 0.1:
            builder.add(L.ReLU(), draw.choice(values))
    read = {bottom for node in builder.nodes for bottom in node.bottoms}
    builder.path = ["head"]
    if unread := [i.name for i in builder.inputs if i.name not in read]:
        value = builder.add(L.Concatenate(), value, *unread)
        read.update([*unread, *builder.nodes[-1].bottoms])
    if draw.random() < 0.7:
        value = builder.add(L.Dense(draw.choice([1, 10])), value)
        read.add(builder.nodes[-1].bottoms[0])
    outputs = [node.tops[0] for node in builder.nodes if node.tops[0] not in read]
    draw.shuffle(outputs)
    return Net("random", tuple(builder.inputs), tuple(builder.nodes), tuple(outputs))
