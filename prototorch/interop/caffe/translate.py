"""Caffe's net as a net of ours: layer by layer in the file's order, with all shapes known, as Caffe sets a net up."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from prototorch.errors import ModelError, TextError, did_you_mean
from prototorch.graph.ir import Graph
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.trace import Trace
from prototorch.interop.caffe import layers as layer_modules
from prototorch.interop.caffe.caffe_net import CaffeLayer, CaffeNet, CaffeParam
from prototorch.interop.caffe.layouts import LAYOUTS
from prototorch.interop.caffe.site import CaffeSite, HostShapes, fail_at, find_translator, known_types
from prototorch.ops.core import use_interpreter
from prototorch.schema.names import to_name
from prototorch.spec import Spec
from prototorch.text.caffe.message import Message

__all__ = ["translate_net"]

for _info in pkgutil.iter_modules(layer_modules.__path__):
    importlib.import_module(f"{layer_modules.__name__}.{_info.name}")

Shape = tuple[int, ...]

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
    owners: dict[str, CaffeParam] = field(default_factory=dict)  # by shared name

    def __post_init__(self) -> None:
        self.trace = Trace(Graph(), self.phase == "TRAIN", float_dtype=self.float_dtype)

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
        return CaffeNet(net, self.message, self.phase, tuple(self.layers), self.blobs, specs, self.trace.weights,
                        self.input_values, tuple(sorted(self.unread)))  # fmt: skip

    def add_layer(self, layer: Message) -> None:
        """Translate a layer and connect it."""
        type_name = layer["type"]
        translate = find_translator(type_name)
        if translate is None:
            hint = did_you_mean(type_name, known_types())
            fail_at(f"layer {layer['name']!r}: Caffe has no layer type {type_name!r}.{hint}", layer.field_span("type"))
        bottoms = self.read_bottoms(layer)
        site = CaffeSite(layer, self.phase, bottoms, self.trace, self.new_name,
                    len(layer["top"]), self.add_input, host_shapes=self.host_shapes)  # fmt: skip
        try:
            with use_interpreter(self.trace.graph):
                translate(site)
        except TextError:
            raise
        except ModelError as error:
            fail_at(f"layer {site.name!r} ({type_name}): {error}", layer.span)
        self.nodes += site.nodes
        params = self.read_params(site)
        tops = self.write_tops(layer, site)
        nodes = tuple(n.name for n in site.nodes)
        losses = self.loss_weights(site, len(tops))
        self.layers.append(CaffeLayer(site.name, type_name, site.kind, layer, nodes, tuple(layer["bottom"]), tops,
                                      bottoms, site.tops[: len(tops)], losses, params, site.fillers))  # fmt: skip

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

    def write_tops(self, layer: Message, site: CaffeSite) -> tuple[str, ...]:
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

    def read_params(self, site: CaffeSite) -> tuple[CaffeParam, ...]:
        """The parameter blobs of a layer, by the layouts of its nodes, with what its ``param`` fields say."""
        params: list[CaffeParam] = []
        specs = site.layer["param"]
        for node in site.nodes:
            if node.weights_key != node.name and any(n.name == node.weights_key for n in site.nodes):
                continue  # the same weights on another bottom
            prefix, used = f"{node.weights_key}/", self.trace.used_weights.get(node.weights_key, {})
            names = sorted(used.get(node.name, ()))
            weights = {name.removeprefix(prefix): self.trace.weights[name].spec.shape for name in names}
            for layout in site.layouts.get(node.name) or LAYOUTS.layouts(node.layer, weights):
                if not layout.ours:
                    continue
                index = len(params)
                (shape,) = layout.their_shapes(weights)
                names_of = tuple(prefix + name for name in layout.ours)
                is_trained = all(self.trace.weights[name].trainable for name in names_of)
                param = CaffeParam(site.name, index, node.name, layout, names_of, shape, float(is_trained))
                if index < len(specs):
                    param = self.apply_spec(param, specs[index], site)
                params.append(param)
        if len(specs) > len(params):
            site.fail(f"it has {len(specs)} param fields, but {len(params)} parameter blobs", site.layer, "param")
        return tuple(params)

    def apply_spec(self, param: CaffeParam, spec: Message, site: CaffeSite) -> CaffeParam:
        """A parameter blob with its ParamSpec."""
        param = replace(
            param,
            lr_mult=spec["lr_mult"],
            decay_mult=spec["decay_mult"],
            shared_name=spec["name"],
            is_permissive=spec["share_mode"] == "PERMISSIVE",
        )
        if not param.shared_name:
            return param
        owner = self.owners.setdefault(param.shared_name, param)
        if owner is param:
            return param
        for name in ("lr_mult", "decay_mult"):
            if spec.has(name) and getattr(owner, name) != getattr(param, name):
                site.fail(
                    f"the shared parameter {param.shared_name!r} has the {name} {getattr(owner, name)} in the layer "
                    f"{owner.layer!r}, but {getattr(param, name)} here", spec, name,
                )  # fmt: skip
        return replace(param, owner=(owner.layer, owner.index), lr_mult=owner.lr_mult, decay_mult=owner.decay_mult)

    def loss_weights(self, site: CaffeSite, count: int) -> tuple[float, ...]:
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
