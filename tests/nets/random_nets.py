"""Random models that are legal: layers from the registry with random fields, wired at random, and how to train them.

A layer is drawn, said alone on the shapes that are there, and kept where it takes them: what is legal is asked of the
layers, not known here. The same number gives the same model text.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import Any

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import trace_layer
from prototorch.errors import ModelError, PrototorchError
from prototorch.graph.ir import Graph
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.net_writer import net_fields
from prototorch.graph.symbolic import top_names
from prototorch.graph.trace import trace
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.adapted_layer import AdaptedLayer
from prototorch.layers.base import Layer
from prototorch.layers.merge import MergeLayer
from prototorch.optimizers import Optimizer
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields
from prototorch.train.config import Compile
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import TRAIN
from tests.nets.random_fields import drawn
from tests.nets.random_heads import ends, measured

#: numbers of a sample, of a value and of all weights at most, for small, middle and large nets; and batch sizes
SCALES = ((400, 20_000, (1, 2, 3, 5, 8)), (4000, 60_000, (2, 4, 7, 16)), (20_000, 400_000, (2, 3, 8, 16, 33)))

#: what stands behind one another in nets that people write, a word being a part of a layer's name
CHAINS = (
    ("Conv", "BatchNormalization", "*"), ("Conv", "*", "MaxPooling"), ("Conv", "MaxPooling", "*", "Dropout"),
    ("Conv", "BatchNormalization", "*", "MaxPooling", "Dropout"), ("Depthwise", "BatchNormalization", "*", "Conv"),
    ("Dense", "*", "Dropout"), ("Flatten", "Dense", "*"), ("BatchNormalization", "*", "Conv"), ("LSTM",), ("GRU",),
    ("LayerNormalization", "MultiHeadAttention", "Dropout"), ("ZeroPadding", "Conv", "*"), ("LRN", "Conv"),
    ("UpSampling", "Conv"), ("Transpose", "*"), ("GlobalAveragePooling", "Dense"), ("AveragePooling", "Conv", "*"),
    ("Reshape",), ("Permute",), ("Conv", "*", "Conv", "*"), ("Bidirectional",), ("GroupNormalization", "*"),
)  # fmt: skip

#: layers that jump, or whose outputs for some inputs are no numbers or too large ones
NOT_SMOOTH = {
    "ArgMax", "ArgMin", "Cast", "Ceil", "Divide", "Equal", "Expm1", "Floor", "Greater", "GreaterEqual", "HardShrink",
    "Less", "LessEqual", "Log", "Log1p", "Mod", "Power", "Reciprocal", "ReduceProd", "Round", "Sign", "Sqrt", "Tan",
    "ThresholdedReLU", "TopK",
}  # fmt: skip


@dataclass
class RandomModel:
    """A random model: its text, and sizes of the data to try it on."""

    seed: int
    text: str
    net: Net
    compiled: Compile
    batch: int
    samples: int
    epochs: int
    counts: dict[str, int] = field(default_factory=dict)  # of inputs that are whole numbers: how many there are


class Growing:
    """A net that grows layer by layer."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.most, self.heavy, batches = SCALES[rng.choices((0, 1, 2), (6, 3, 1))[0]]
        self.batch = rng.choice(batches)
        self.inputs: list[InputNode] = []
        self.nodes: list[LayerNode] = []
        self.specs: dict[str, Spec] = {}  # of every value, batch included
        self.counts: dict[str, int] = {}
        self.weights = 0
        self.last = ""

    # ---------------------------------------------------------------- values

    def begin(self) -> None:
        """One input, or two."""
        for i in range(self.rng.choice((1, 1, 1, 2))):
            name, rank = f"x{i}", self.rng.choices((1, 2, 3, 4), (2, 3, 6, 1))[0]
            shape, dtype = self._shape(rank), "float32"
            if rank < 3 and self.rng.random() < 0.3:
                dtype, self.counts[name] = self.rng.choice(("int32", "int64")), self.rng.choice((3, 7, 20))
                shape = shape[-1:]
            self.inputs.append(InputNode(name, shape, dtype))
            self.specs[name] = Spec((self.batch, *shape), dtype)
            self.last = name
            if dtype != "float32":
                fixed = {"input_dim": self.counts[name], "mask_zero": self.rng.random() < 0.5}
                while not self.add(Layer.lookup("Embedding"), (name,), **fixed):
                    fixed["output_dim"] = self.rng.choice((1, 2, 3, 5))

    def _shape(self, rank: int) -> tuple[int, ...]:
        channels = self.rng.choice((1, 2, 3, 4, 8, 9, 16, 17))
        most = max(2, round((self.most / channels) ** (1 / max(rank - 1, 1))))
        sizes = [
            self.rng.randint(1 if self.rng.random() < 0.1 else min(4, most), min(most, 40)) for _ in range(rank - 1)
        ]
        return (channels * 3,) if rank == 1 else (channels, *sizes)

    def value(self, name: str) -> tuple[int, ...]:
        """A value's shape without the batch."""
        return self.specs[name].shape[1:]

    # ---------------------------------------------------------------- layers

    def add(
        self,
        cls: type[Layer],
        bottoms: tuple[str, ...],
        shape: tuple[int, ...] | None = None,
        name: str | None = None,
        made: Layer | None = None,
        **fixed: Any,
    ) -> bool:
        """Add a layer of a class on these values where one takes them; with ``shape`` only one that gives this."""
        try:
            layer = made or drawn(cls, self.rng, self.value(bottoms[0]), tries=3, **fixed)
            specs = [self.specs[b] for b in bottoms]
            if layer.index_count() is not None and specs[0].is_float:
                return False  # numbers that other layers make are no indices
            said = trace_layer(Graph(), layer, specs, True, "float32")
        except PrototorchError:
            return False
        outs = [y.spec for y in said.outputs]
        heavy = sum(w.spec.size for w in said.trace.weights.values())
        if any(not s.is_float or s.ndim < 2 or prod(s.shape[1:]) > self.most or 0 in s.shape for s in outs):
            return False
        if sees_batch_axis(layer) or any(s.shape[0] != specs[0].shape[0] for s in outs):
            return False
        if self.weights + heavy > self.heavy or (shape is not None and outs[0].shape[1:] != shape):
            return False
        if len(said.trace.graph.nodes) > 400:
            return False  # a recurrent layer in single ops over many steps
        name = name or f"n{len(self.nodes)}"
        node = LayerNode(name, layer.replace(name=name), bottoms, top_names(name, len(outs)))
        try:
            trace(self.net((*self.nodes, node)), self.inputs_of(self.batch), True)
        except PrototorchError:
            return False  # masks that do not belong to it
        self.nodes.append(node)
        self.specs.update(zip(node.tops, outs, strict=True))
        self.weights += heavy
        self.last = node.tops[0]
        return True

    def inputs_of(self, batch: int) -> dict[str, Spec]:
        """The inputs' specs for a batch size."""
        return {i.name: Spec((batch, *i.shape), i.dtype) for i in self.inputs}

    def net(self, nodes: Any = None, outputs: tuple[str, ...] | None = None) -> Net:
        """The net as it is, or with other layers."""
        nodes = tuple(self.nodes if nodes is None else nodes)
        return Net("random", tuple(self.inputs), nodes, outputs or (nodes[-1].tops[0],))

    def floats(self) -> list[str]:
        """The values that layers may read."""
        return [n for n, s in self.specs.items() if s.is_float]

    def grow(self) -> None:
        """One more layer, or some that belong together."""
        turn = self.rng.random()
        if self.rng.random() < 0.25:
            self.last = self.rng.choice(self.floats())
        if turn < 0.35:
            for word in self.rng.choice(CHAINS):
                self._one(word)
        elif turn < 0.5:
            self._residual()
        elif turn < 0.6:
            self._shared()
        else:
            self._one("")

    def _known(self) -> list[type[Layer]]:
        """The layers to draw from: small differences of their inputs are small ones of their outputs, which are finite
        numbers for any input."""
        shipped = [c for c in Layer.members().values() if c.__module__.startswith("prototorch.")]
        return [c for c in shipped if c.__name__ not in NOT_SMOOTH and not issubclass(c, AdaptedLayer)]

    def _one(self, word: str) -> bool:
        """A layer whose name holds a word ("*": an activation; "": any layer)."""
        known = self._known()
        if word == "*":
            known = [c for c in known if issubclass(c, ActivationLayer)]
        elif word:
            known = [c for c in known if word in c.__name__]
        for _ in range(12):
            cls = self.rng.choice(known)
            if self.add(cls, self._bottoms(cls), **self._inner(cls)):
                return True
        return False

    def _inner(self, cls: type[Layer]) -> dict[str, Any]:
        """The layer inside of one that holds another, where it must be of a kind."""
        if cls.__name__ == "Bidirectional":
            inner = Layer.lookup(self.rng.choice(("LSTM", "GRU", "SimpleRNN")))
            return {"layer": drawn(inner, self.rng, self.value(self.last), 1)}
        return {}

    def _bottoms(self, cls: type[Layer]) -> tuple[str, ...]:
        """What a layer of a class may read: the last value, and others that might go with it."""
        least, most = cls.input_range()
        first = self.last
        wide = least if most == least else self.rng.choice((least, least, least + 1))
        if issubclass(cls, MergeLayer):
            others = [n for n in self.floats() if self._alike(self.value(n), self.value(first))]
        else:
            others = [
                n for n in self.floats() if len(self.value(n)) == len(self.value(first)) or self.rng.random() < 0.2
            ]
        return (first, *(self.rng.choice(others) for _ in range(wide - 1)))

    def _alike(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) <= (self.rng.random() < 0.5)

    def _residual(self) -> None:
        """Two ways to a value of the same shape, and their sum (or another of the merging layers)."""
        start, shape = self.last, self.value(self.last)
        for _ in range(self.rng.randint(1, 2)):
            self._kept(shape)
            if self.rng.random() < 0.5:
                self._one("*")
        cls = self.rng.choice([c for c in MergeLayer.members().values() if c.__name__ != "Dot"])
        bottoms = [self.last, start]
        if self.rng.random() < 0.3:  # both ways have layers
            end, self.last = self.last, start
            self._kept(shape)
            bottoms = [end, self.last]
        self.rng.shuffle(bottoms)
        self.add(cls, tuple(bottoms))
        if self.rng.random() < 0.5:
            self._one("*")

    def _kept(self, shape: tuple[int, ...]) -> bool:
        """A layer that keeps the shape."""
        known = self._known()
        for _ in range(20):
            cls = self.rng.choice(known)
            fixed: dict[str, Any] = {}
            if "padding" in cls.specs() and "filters" in cls.specs():
                fixed = {"filters": shape[0], "padding": "same", "strides": 1}
            elif "units" in cls.specs():
                fixed = {"units": shape[-1]}
            if cls.input_range()[0] == 1 and self.add(cls, (self.last,), shape, **fixed):
                return True
        return False

    def _shared(self) -> None:
        """A layer again, with the same weights, on another value of the same shape."""
        for node in self.rng.sample(self.nodes, len(self.nodes)):
            if node.layer.weights is None and len(node.bottoms) == 1:
                shape = self.value(node.bottoms[0])
                places = [n for n in self.floats() if self.value(n) == shape]
                if places and self.specs[node.bottoms[0]].is_float:
                    self.add(type(node.layer), (self.rng.choice(places),), made=node.layer.replace(weights=node.name))
                    return

    # ---------------------------------------------------------------- the end

    def loose(self) -> list[str]:
        """The values that nobody reads, but for further outputs of layers whose first one is used."""
        read = {b for n in self.nodes for b in n.bottoms}
        found = [i.name for i in self.inputs if i.name not in read and i.name in self.floats()]
        return found + [n.tops[0] for n in self.nodes if not read & set(n.tops)]

    def bundle(self) -> None:
        """Bring the loose ends that are too many into one."""
        many = self.loose()
        self.rng.shuffle(many)
        most, self.most, self.heavy = self.most, 1 << 30, 1 << 30
        while len(many) > self.rng.choice((1, 1, 2, 3)):
            a, b = (self._flat(many.pop(), most) for _ in range(2))
            assert self.add(Layer.lookup("Concatenate"), (a, b), axis=1), (self.value(a), self.value(b))
            many.append(self.last)

    def _flat(self, name: str, most: int) -> str:
        if len(self.value(name)) > 1 or prod(self.value(name)) * 4 > most:
            assert self.add(Layer.lookup("Flatten"), (name,))
            if prod(self.value(self.last)) * 4 > most:
                assert self.add(Layer.lookup("Dense"), (self.last,), made=Layer.lookup("Dense")(8))
            return self.last
        return name


def sees_batch_axis(layer: Layer) -> bool:
    """Whether a layer works along the samples of a batch, so that it is for one batch size or loses that axis."""
    axis = getattr(layer, "axis", None)
    return 0 in (axis if isinstance(axis, tuple | list) else (axis,))


def random_model(seed: int) -> RandomModel:
    """The random model of a number."""
    rng = Random(seed)
    net = Growing(rng)
    net.begin()
    for _ in range(rng.randint(2, 9)):
        net.grow()
    net.bundle()
    outputs, losses = ends(net)
    finished = replace(net.net(outputs=tuple(outputs)), name=f"random_{seed}")
    compiled = Compile(
        loss=losses,
        optimizer=drawn(rng.choice(list(Optimizer.members().values())), rng),
        metrics=measured(rng, losses, net),
        weighted_metrics=measured(rng, losses, net, 0.2),
        memory="low" if rng.random() < 0.1 else "normal",
        seed=rng.randint(0, 9),
        precision="auto" if rng.random() < 0.25 else "fp32",
        autotune=rng.random() < 0.03,
        device="cpu",
    )
    try:
        PlanCache(finished, Variables(), cpu("plain"), compiled).plan(TRAIN, net.inputs_of(net.batch), create=False)
    except ModelError:  # a metric that does not take this output
        compiled = compiled.replace(metrics=(), weighted_metrics=())
    text = format_fields([*net_fields(finished), Field("compile", Body(tuple(compiled.to_fields())))])
    samples = net.batch * rng.randint(1, 2) + rng.randint(0, max(net.batch - 1, 0))
    return RandomModel(seed, text, finished, compiled, net.batch, samples, rng.choice((1, 1, 2)), net.counts)
