"""A net of ours as a NetParameter of Caffe, with its weights."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from prototorch.caffe.interop import export as family_modules
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, find_exporter
from prototorch.caffe.text.message import Message
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.probe import trace_net
from prototorch.graph.trace import Trace
from prototorch.interop.channel_order import channels_first_net
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.text.diagnostics import Report

__all__ = ["export_net"]

_BATCH = 1  # of the input's shape; whoever reads the file may reshape it


def export_net(net: Net, weights: Mapping[str, np.ndarray]) -> Message:
    """The net as a NetParameter in Caffe's newest form, for prediction, with its weights in ``blobs``.

    weights: of the net by name (``layer/weight``). ``preprocess`` and ``augment`` are left out. Raises TextError that
    names every layer that Caffe does not have.
    """
    _load_families()
    return _NetExport(net, weights).run()


def _load_families() -> None:
    for info in pkgutil.iter_modules(family_modules.__path__):
        importlib.import_module(f"{family_modules.__name__}.{info.name}")


def _blob_order(name: str) -> tuple[bool, str]:
    """Weights in the order of Caffe's blobs: a bias is behind what multiplies."""
    return name.endswith("/bias"), name


class _NetExport:
    def __init__(self, net: Net, weights: Mapping[str, np.ndarray]):
        net = channels_first_net(net)
        self.net, self.weights = net, weights
        self.report = Report()
        self.trace: Trace = trace_net(net, _BATCH)
        self.blobs: dict[str, str] = {}  # value of our net -> blob
        self.names: set[str] = set()
        self.readings = Counter(bottom for node in net.nodes for bottom in node.bottoms)
        self.users = Counter(self.source(name) for node in net.nodes for name in self.weight_names(node))
        self.fixed_values = {*net.outputs, *(i.name for i in net.inputs)}  # values that nothing may overwrite

    def source(self, name: str) -> str:
        """The name under which a weight is stored."""
        shared = self.trace.shared_weights.get(name)
        return name if shared is None else shared.source

    def run(self) -> Message:
        message = Message("NetParameter", name=self.net.name)
        layers = [self.export_input(node.name) for node in self.net.inputs]
        for node in self.net.nodes:
            layers += self.export_node(node)
        self.report.raise_if_any()
        message["layer"] = [*layers, *self.output_copies()]
        return message

    def export_input(self, name: str) -> Message:
        """The Input layer of an input."""
        shape = Message("BlobShape", dim=list(self.trace.values[name].shape))
        self.blobs[name] = self.new_name(name)
        return Message(
            "LayerParameter",
            name=self.blobs[name],
            type="Input",
            top=[self.blobs[name]],
            input_param=Message("InputParameter", shape=[shape]),
        )

    def export_node(self, node: LayerNode) -> list[Message]:
        """The layers of Caffe for one of ours; a layer that it does not have goes to the report."""
        export = find_exporter(type(node.layer))
        kind = type(node.layer).__name__
        bottoms = tuple(self.blobs.get(b, b) for b in node.bottoms)
        site = CaffeLayerExport(
            node.layer,
            node.name,
            bottoms,
            self.shapes(node.bottoms),
            self.shapes(node.tops),
            self.weights_of(node),
            self.new_name,
            self.may_overwrite(node),
            tuple(self.readers(node.tops)),
        )
        try:
            if export is None:
                raise NotExpressibleError("Caffe has no such layer")
            export(site)
            self.name_shared_blobs(node, site.layers)
        except NotExpressibleError as reason:
            self.report.add(f"layer {node.name!r} ({kind}): {reason}.", node.span, node.chain)
            self.blobs.update(dict(zip(node.tops, node.tops, strict=True)))
            return []
        self.blobs.update(dict(zip(node.tops, site.tops, strict=False)))
        return site.layers

    def output_copies(self) -> list[Message]:
        """Layers for outputs that layers read: of those, which Caffe does not count as outputs, a copy is one."""
        read = [value for value in dict.fromkeys(self.net.outputs) if self.readings[value]]
        return [
            Message(
                "LayerParameter",
                name=self.new_name(f"{value}_output"),
                type="Split",
                bottom=[self.blobs[value]],
                top=[f"{value}_output"],
            )
            for value in read
        ]

    def may_overwrite(self, node: LayerNode) -> bool:
        """Whether the node alone reads its first bottom."""
        blob = self.blobs.get(node.bottoms[0]) if node.bottoms else None
        values = [value for value, name in self.blobs.items() if name == blob]
        return bool(values) and not self.fixed_values & set(values) and self.readings[node.bottoms[0]] == 1

    def readers(self, values: tuple[str, ...]) -> Iterator[Layer]:
        """The layers that read some values."""
        return (node.layer for node in self.net.nodes if set(values) & set(node.bottoms))

    def shapes(self, values: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """The shapes of values, with all axes."""
        return tuple(tuple(self.trace.values[value].shape) for value in values)

    def weights_of(self, node: LayerNode) -> dict[str, np.ndarray]:
        """The weights of a node by their names below it."""
        prefix, result = f"{node.weights_key}/", {}
        for name in sorted(self.weight_names(node), key=_blob_order):
            shared = self.trace.shared_weights.get(name)
            array = np.asarray(self.weights[name if shared is None else shared.source])
            result[name.removeprefix(prefix)] = array if shared is None else array.reshape(shared.shape)
        return result

    def weight_names(self, node: LayerNode) -> set[str]:
        """The full names of the weights that a node uses."""
        return set(self.trace.used_weights.get(node.weights_key, {}).get(node.name, ()))

    def name_shared_blobs(self, node: LayerNode, layers: list[Message]) -> None:
        """Give the parameters that several layers use a name, by which Caffe shares them.

        Raises NotExpressibleError for sharing that Caffe does not have.
        """
        sources = {name: self.source(name) for name in sorted(self.weight_names(node), key=_blob_order)}
        if not any(self.users[source] > 1 for source in sources.values()):
            return
        if any(share.transpose or share.transpose_source for share in node.layer.share):
            raise NotExpressibleError("share: Caffe does not transpose what is shared")
        first = next(layer for layer in layers if layer.has("blobs"))
        if len(first["blobs"]) != len(sources):
            raise NotExpressibleError("weights: its weights are shared, and Caffe has them in several layers")
        first["param"] = [
            Message("ParamSpec", name=source) if self.users[source] > 1 else Message("ParamSpec")
            for source in sources.values()
        ]
        for spec, share in zip(first["param"], sources, strict=True):
            shared = self.trace.shared_weights.get(share)
            if shared is not None and tuple(self.weights[shared.source].shape) != tuple(shared.shape):
                spec["share_mode"] = "PERMISSIVE"

    def new_name(self, name: str) -> str:
        """A name for a blob that none has yet."""
        number, candidate = 1, name
        while candidate in self.names:
            number += 1
            candidate = f"{name}_{number}"
        self.names.add(candidate)
        return candidate
