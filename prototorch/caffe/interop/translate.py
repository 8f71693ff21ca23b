"""Caffe's net as a net of ours: layer by layer in the file's order, with all shapes known, as Caffe sets a net up."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from prototorch.caffe.interop import layers as layer_modules
from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.caffe.interop.layer_import import CaffeLayerImport, HostShapes, fail_at, find_translator, known_types
from prototorch.caffe.interop.params import ParamReader
from prototorch.caffe.text.message import Message
from prototorch.errors import ModelError, TextError, UsageError, did_you_mean
from prototorch.graph.ir import Graph
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.trace import MAX_NET_SIZE, Trace
from prototorch.ops.core import use_interpreter
from prototorch.schema.names import to_name
from prototorch.spec import Spec

__all__ = ["translate_net"]

for _info in pkgutil.iter_modules(layer_modules.__path__):
    importlib.import_module(f"{layer_modules.__name__}.{_info.name}")

Shape = tuple[int, ...]

MAX_AXES = 32  # of a blob
#: the name of the top of a loss that states none
AUTOMATIC_TOP = "(automatic)"


def translate_net(
    message: Message,
    phase: str,
    input_shapes: Mapping[str, Shape],
    float_dtype: str = "float32",
    host_shapes: HostShapes | None = None,
) -> CaffeNet:
    """A Caffe net in our layers.

    message: a NetParameter in its newest form, filtered by the net's state. input_shapes: the shapes, with all axes,
    of the tops of data and host layers and of inputs, by blob; those that the file tells may be left out.
    float_dtype: "float32" or "float64", of weights and inputs. host_shapes: gives the shapes of a Python layer's tops;
    without it such a layer is an error. Raises TextError with the place of the first mistake.
    """
    return _Translation(message, phase, dict(input_shapes), float_dtype, host_shapes).run()


def check_layer(site: CaffeLayerImport) -> None:
    """Raise TextError for what no layer may have: too many axes, another number of ``propagate_down`` than bottoms."""
    for value in site.tops:
        shape = site.shape(value)
        if len(shape) > MAX_AXES:
            site.fail(f"its top has {len(shape)} axes; a blob has at most {MAX_AXES}", site.layer, "top")
    count = len(site.layer["propagate_down"])
    if count not in (0, len(site.bottoms)):
        site.fail(
            f"it has {count} propagate_down fields and {len(site.bottoms)} bottoms; expected none, or one for "
            "each bottom",
            site.layer,
            "propagate_down",
        )


@dataclass
class _Translation:
    message: Message
    phase: str
    input_shapes: dict[str, Shape]
    float_dtype: str
    host_shapes: HostShapes | None = None
    trace: Trace = field(init=False)
    nodes: list[LayerNode] = field(default_factory=list)
    inputs: list[InputNode] = field(default_factory=list)
    input_values: dict[str, str] = field(default_factory=dict)  # blob -> the input of the net
    layers: list[CaffeLayer] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)  # blob -> the value that it holds now
    unread: dict[str, None] = field(default_factory=dict)  # blobs that nothing has read since they were made
    names: set[str] = field(default_factory=set)  # of nodes and values
    params: ParamReader = field(init=False)

    def __post_init__(self) -> None:
        self.trace = Trace(Graph(), self.phase == "TRAIN", float_dtype=self.float_dtype)
        self.params = ParamReader(self.trace)

    def run(self) -> CaffeNet:
        for layer in self.message["layer"]:
            self.add_layer(layer)
        net = Net(
            to_name(self.message["name"]) or "net",
            tuple(self.inputs),
            tuple(self.nodes),
            tuple(self.blobs[name] for name in sorted(self.unread)),
        )
        specs = {name: value.spec for name, value in self.trace.values.items()}
        layers = self.params.resolve(self.layers)
        return CaffeNet(
            net,
            self.message,
            self.phase,
            layers,
            self.blobs,
            specs,
            self.trace.weights,
            self.input_values,
            tuple(sorted(self.unread)),
        )

    def add_layer(self, layer: Message) -> None:
        """Translate a layer and connect it."""
        type_name = layer["type"]
        translate = find_translator(type_name)
        if translate is None:
            hint = did_you_mean(type_name, known_types())
            fail_at(f"layer {layer['name']!r}: Caffe has no layer type {type_name!r}.{hint}", layer.field_span("type"))
        bottoms = self.read_bottoms(layer)
        phase = str(layer["phase"]) if layer.has("phase") else self.phase
        self.trace.training = phase == "TRAIN"
        site = CaffeLayerImport(
            layer,
            phase,
            bottoms,
            self.trace,
            self.new_name,
            len(layer["top"]),
            self.add_input,
            host_shapes=self.host_shapes,
            find_shares=self.params.find_shares,
        )
        try:
            with use_interpreter(self.trace.graph):
                translate(site)
        except TextError:
            raise
        except (ModelError, UsageError) as error:  # a shape that a layer does not take, or a value of a field
            fail_at(f"layer {site.name!r} ({type_name}): {error}", layer.span)
        check_layer(site)
        if self.trace.graph.num_nodes + len(self.trace.weights) > MAX_NET_SIZE:
            site.fail(f"the net has more than {MAX_NET_SIZE:,} ops and weights, counted up to here")
        self.nodes += site.nodes
        params = self.params.read(site)
        tops = self.write_tops(layer, site)
        nodes = tuple(n.name for n in site.nodes)
        losses = self.loss_weights(site, len(tops))
        self.layers.append(
            CaffeLayer(
                site.name,
                type_name,
                site.kind,
                layer,
                nodes,
                tuple(layer["bottom"]),
                tops,
                bottoms,
                site.tops[: len(tops)],
                losses,
                params,
                site.fillers,
            )
        )

    def read_bottoms(self, layer: Message) -> tuple[str, ...]:
        """The values that a layer reads."""
        values = []
        for index, blob in enumerate(layer["bottom"]):
            if blob not in self.blobs:
                fail_at(
                    f"layer {layer['name']!r} reads the blob {blob!r}, which no layer before it makes."
                    f"{did_you_mean(blob, self.blobs)}",
                    layer.field_span("bottom", index),
                )
            values.append(self.blobs[blob])
            self.unread.pop(blob, None)
        return tuple(values)

    def write_tops(self, layer: Message, site: CaffeLayerImport) -> tuple[str, ...]:
        """Connect a layer's tops. One may be a bottom of the layer at the same position (in-place), else it is new.

        A loss without a top gets one with a name that no layer can read, as in Caffe. Returns the tops."""
        tops, bottoms = layer["top"], layer["bottom"]
        if len(site.tops) < len(tops):
            fail_at(
                f"layer {layer['name']!r} ({layer['type']}) has {len(tops)} tops, but gives {len(site.tops)}",
                layer.field_span("top", len(site.tops)),
            )
        for index, (blob, value) in enumerate(zip(tops, site.tops, strict=False)):
            in_place = bottoms[index : index + 1] == [blob]
            if blob in self.blobs and not in_place:
                fail_at(f"the blob {blob!r} is made by several layers", layer.field_span("top", index))
            self.blobs[blob] = value
            self.unread[blob] = None
        if tops or not site.tops or site.loss_weight is None:
            return tuple(tops)
        name = AUTOMATIC_TOP
        while name in self.blobs:
            name += "'"
        self.blobs[name] = site.tops[0]
        return (name,)

    def add_input(self, blob: str, shape: Shape | None, dtype: str | None) -> str:
        """An input of the net: a top of a data or host layer, or of Input; its value."""
        shape = self.input_shapes.get(blob, shape)
        if shape is None:
            fail_at(f"the shape of the blob {blob!r} is not known", self.message.span)
        value = self.new_name(blob)
        dtype = dtype or self.float_dtype
        self.trace.values[value] = self.trace.graph.input(value, Spec(tuple(shape), dtype))
        self.inputs.append(InputNode(value, tuple(shape[1:]), dtype))
        self.input_values[blob] = value
        return value

    def loss_weights(self, site: CaffeLayerImport, count: int) -> tuple[float, ...]:
        """The factor of each top in the net's loss."""
        stated = site.layer["loss_weight"]
        if stated and len(stated) != count:
            site.fail(f"it has {len(stated)} loss_weight fields and {count} tops", site.layer, "loss_weight")
        if stated:
            return tuple(stated)
        first = site.loss_weight or 0.0
        return (first, *[0.0] * (count - 1)) if count else ()

    def new_name(self, text: str) -> str:
        """A name for a node or value that none has yet."""
        base = to_name(text) or "layer"
        name, number = base, 1
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name
