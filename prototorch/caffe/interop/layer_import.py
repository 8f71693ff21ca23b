"""One layer of a Caffe net while it is translated: what a translator reads, and the nodes that it adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import NoReturn

from prototorch.caffe.interop.caffe_net import LayerKind
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.graph.net import LayerNode
from prototorch.graph.trace import Trace, trace_node
from prototorch.initializers import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.channels import with_channels_first
from prototorch.layers.weight_share import WeightShare
from prototorch.model.loading.layout.layout_table import WeightLayout

__all__ = ["CaffeLayerImport", "HostShapes", "Translator", "fail_at", "find_translator", "known_types", "translator"]

MAX_ELEMENTS = 2**31 - 1  # of a blob
Translator = Callable[["CaffeLayerImport"], None]
FindShares = Callable[["CaffeLayerImport", LayerNode], tuple[WeightShare, ...]]
#: a layer and the shapes of its bottoms -> the shapes of its tops
HostShapes = Callable[[Message, Sequence[tuple[int, ...]]], Sequence[tuple[int, ...]]]
_TRANSLATORS: dict[str, Translator] = {}


def translator(*types: str) -> Callable[[Translator], Translator]:
    """Register a function that translates the layers of these types of Caffe."""

    def register(function: Translator) -> Translator:
        for name in types:
            if name in _TRANSLATORS:
                raise ValueError(f"{name} has a translator already")
            _TRANSLATORS[name] = function
        return function

    return register


def find_translator(type_name: str) -> Translator | None:
    """The translator of a type; None for a type that Caffe does not have. All are loaded by `translate`."""
    return _TRANSLATORS.get(type_name)


def known_types() -> list[str]:
    """All types of layers that have a translator."""
    return sorted(_TRANSLATORS)


@dataclass
class CaffeLayerImport:
    """A layer that is translated.

    A translator reads `layer` (its LayerParameter), the values it reads (`bottoms`) and their `shapes`, and adds nodes
    with `add`, the last of which gives the layer's tops. Mistakes are raised by `fail`; a node that does not take its
    input raises its own error, which gets the place of the layer.
    """

    layer: Message
    phase: str
    bottoms: tuple[str, ...]
    trace: Trace
    new_name: Callable[[str], str]
    num_tops: int
    new_input: Callable[[str, tuple[int, ...] | None, str | None], str]
    kind: LayerKind = "graph"
    nodes: list[LayerNode] = field(default_factory=list)
    tops: tuple[str, ...] = ()
    shares: dict[str, tuple[WeightShare, ...]] = field(default_factory=dict)  # by the layer's weights key
    find_shares: FindShares | None = None
    layouts: dict[str, Sequence[WeightLayout]] = field(default_factory=dict)  # by node, beside the table of layouts
    fillers: tuple[Initializer, ...] = ()  # of the tops, of a data layer that draws them
    host_shapes: HostShapes | None = None  # of a Python layer's tops; None: such layers may not run
    loss_weight: float | None = None  # of the first top where the layer states none: 1 for a loss

    @property
    def name(self) -> str:
        """The name of the layer."""
        return str(self.layer["name"])

    @property
    def type(self) -> str:
        """The type of the layer in Caffe."""
        return str(self.layer["type"])

    @cached_property
    def node_name(self) -> str:
        """The name of the layer's own node."""
        return self.new_name(self.name)

    @property
    def is_training(self) -> bool:
        """Whether the phase is TRAIN."""
        return self.phase == "TRAIN"

    @property
    def bottom_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the bottoms, with all axes."""
        return [self.shape(value) for value in self.bottoms]

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value of the net, with all axes."""
        return tuple(self.trace.values[value].shape)

    def add(
        self,
        layer: Layer,
        *bottoms: str,
        outputs: int = 1,
        suffix: str = "",
        layouts: Sequence[WeightLayout] | None = None,
    ) -> tuple[str, ...]:
        """Add a node that reads these values (none given: the layer's bottoms) and return the names of its outputs.

        suffix: goes behind the node's name (``ip1/flatten``); the node of the layer itself has none. The outputs of
        the last node that is added become the layer's tops. layouts: of its weights in Caffe, where they are not those
        of the table of layouts.
        """
        bottoms = bottoms or self.bottoms
        if bottoms:
            layer = with_channels_first(layer, len(self.shape(bottoms[0])))
        name = self.new_name(f"{self.node_name}/{suffix}") if suffix else self.node_name
        tops = (name, *(self.new_name(f"{name}:{i}") for i in range(1, outputs)))
        node = LayerNode(name, layer, bottoms, tops, self.layer.span)
        if layouts is not None:
            self.layouts[name] = layouts
        self.nodes.append(self._trace_node(node))
        self.tops = tops
        return tops

    def _trace_node(self, node: LayerNode) -> LayerNode:
        """Record a node; the weights that its layer shares are those of their owners."""
        key = node.weights_key
        if key in self.shares:
            node = replace(node, layer=node.layer.replace(share=self.shares[key]))
        count = len(self.trace.weights)
        trace_node(self.trace, node)
        for value in node.tops:
            self.check_size(value)
        shares = () if self.find_shares is None or key in self.shares else self.find_shares(self, node)
        self.shares[key] = shares or self.shares.get(key, ())
        if not shares:
            return node
        for name in tuple(islice(self.trace.weights, count, None)):  # those that it has as a layer of its own
            del self.trace.weights[name]
            self.trace.weight_keys.pop(name, None)
            self.trace.updates.pop(name, None)
            del self.trace.graph.states[name]
        del self.trace.used_weights[key][node.name]
        return self._trace_node(replace(node, layer=node.layer.replace(share=shares)))

    def check_size(self, value: str) -> None:
        """An error for a value with more elements than a blob may have."""
        if self.trace.values[value].spec.size > MAX_ELEMENTS:
            self.fail(
                f"its output {list(self.shape(value))} has more than {MAX_ELEMENTS} elements, as many as a "
                "blob of Caffe may have"
            )

    def dims(self, shape: Message) -> tuple[int, ...]:
        """The sizes of a BlobShape; an error, at its place, for a negative one."""
        sizes = tuple(int(n) for n in shape["dim"])
        for index, size in enumerate(sizes):
            if size < 0:
                fail_at(
                    f"layer {self.name!r} ({self.type}): a size of a blob is at least 0, not {size}, in the shape "
                    f"{list(sizes)}",
                    shape.field_span("dim", index) or self.layer.span,
                )
        return sizes

    def add_for_each_bottom(self, layer: Layer, layouts: Sequence[WeightLayout] | None = None) -> None:
        """Add a node for each bottom, all with the same weights; each gives one of the layer's tops.

        layouts: of the weights in Caffe, where they are not those of the table of layouts.
        """
        tops = list(self.add(layer, self.bottoms[0], layouts=layouts))
        for index, bottom in enumerate(self.bottoms[1:], 1):
            tops += self.add(layer.replace(weights=self.node_name), bottom, suffix=str(index))
        self.tops = tuple(tops)

    def add_inputs(self, kind: LayerKind, shapes: Sequence[tuple[int, ...] | None], dtype: str | None = None) -> None:
        """Make the layer's tops inputs of the net (data and host layers, Input).

        shapes: of the tops, with all axes, None for one that only the caller of `translate_net` knows, who may give
        others as well.
        """
        self.kind = kind
        self.tops = tuple(self.new_input(b, s, dtype) for b, s in zip(self.layer["top"], shapes, strict=True))
        for value in self.tops:
            self.check_size(value)

    def canonical_axis(self, axis: int, message: Message, field_name: str = "axis", ndim: int | None = None) -> int:
        """An axis of the first bottom (or of ``ndim`` axes) as a non-negative index; an error for one that is not."""
        count = len(self.bottom_shapes[0]) if ndim is None else ndim
        if not -count <= axis < count:
            self.fail(
                f"axis {axis} is not one of the {count} axes of {list(self.bottom_shapes[0])}", message, field_name
            )
        return axis % count if count else 0

    def fail(self, text: str, message: Message | None = None, field_name: str | None = None) -> NoReturn:
        """Raise TextError about the layer, at a field of one of its messages where that is given."""
        span = self.layer.span if message is None else message.span
        if message is not None and field_name is not None:
            span = message.field_span(field_name) or self.layer.span
        fail_at(f"layer {self.name!r} ({self.type}): {text}", span or self.layer.span)

    def check_counts(self, bottoms: int | tuple[int, int | None], tops: int | tuple[int, int | None]) -> None:
        """An error unless the layer has this number of bottoms and tops; a pair is a minimum and a maximum."""
        for what, count, allowed in (("bottom", len(self.bottoms), bottoms), ("top", self.num_tops, tops)):
            least, most = (allowed, allowed) if isinstance(allowed, int) else allowed
            if count < least or (most is not None and count > most):
                expected = (
                    f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
                )
                self.fail(f"it has {count} {what}s, but a {self.type} layer has {expected}", self.layer, what)

    def check_same_shapes(self, values: Sequence[str], what: str) -> None:
        """An error unless these values have the same shape."""
        shapes = [list(self.shape(value)) for value in values]
        if any(shape != shapes[0] for shape in shapes):
            self.fail(f"{what} must have the same shape, not {' and '.join(map(str, shapes))}", self.layer, "bottom")
