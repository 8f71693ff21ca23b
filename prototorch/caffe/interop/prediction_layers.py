"""The part of a Caffe net that predicts: without data layers, losses and accuracies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.errors import DataError, UsageError

__all__ = ["DATA_TYPES", "PredictionLayers", "is_measure", "prediction_layers"]

Shape = tuple[int, ...]
DATA_TYPES = frozenset({"Data", "ImageData", "HDF5Data", "WindowData", "MemoryData", "DummyData"})
_SINKS = frozenset({"Accuracy", "Silence", "HDF5Output"})


def is_measure(type_name: str) -> bool:
    """Whether layers of this type only measure or write what others compute: losses, Accuracy, Silence, HDF5Output."""
    return type_name in _SINKS or type_name.endswith("Loss") or type_name == "SoftmaxWithLoss"


@dataclass(frozen=True)
class PredictionLayers:
    """The layers of a net that predict.

    message: a NetParameter with them, its data layers replaced by Input layers. outputs: the blobs that are predicted.
    measures: the losses and accuracies that were left out.
    """

    message: Message
    outputs: tuple[str, ...]
    measures: tuple[Message, ...] = ()


def prediction_layers(
    net: Message, input_shapes: Mapping[str, Sequence[int]], folders: Sequence[str] = ()
) -> PredictionLayers:
    """The part of a net that predicts in the phase TEST.

    net: a NetParameter in its newest form. input_shapes: shapes of blobs that data layers make, by blob; for others
    the data layers are opened, whose files are looked for in the working directory and in ``folders``. Both are with
    all axes.

    Raises TextError where nothing remains, or a shape is neither given nor stated by the files.
    """
    state = net["state"]
    net = filter_net(net, "TEST", state["level"], state["stage"])
    _check_names(input_shapes, net)
    selection = _Selection(net)
    layer_indices = [index for index in range(len(net["layer"])) if index in selection.needed]
    if not selection.outputs:
        fail_at("The net has no layers that predict anything in the phase TEST.", net.span)
    layers = []
    for index in layer_indices:
        layer = net["layer"][index]
        if _is_data(layer) and layer["type"] != "DummyData":  # which tells its shapes itself
            layer = _as_input(layer, selection.read, input_shapes, folders)
        layers.append(layer)
    measures = tuple(layer for layer in net["layer"] if is_measure(layer["type"]))
    net["layer"] = layers
    return PredictionLayers(net, tuple(selection.outputs), measures)


def _is_data(layer: Message) -> bool:
    """Whether a layer reads data: one of Caffe's, or one in Python without bottoms."""
    return layer["type"] in DATA_TYPES or (layer["type"] == "Python" and not layer["bottom"])


@dataclass
class _Selection:
    """The layers that the predicted blobs depend on."""

    net: Message
    needed: set[int] = field(default_factory=set)  # numbers of layers
    outputs: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)  # blobs that needed layers read, and outputs

    def __post_init__(self) -> None:
        layers = self.net["layer"]
        values: dict[str, tuple[int, ...]] = {}  # blob -> the layers whose work it holds now
        inputs: list[tuple[int, tuple[tuple[int, ...], ...]]] = []
        unread: dict[str, int] = {}
        predicted: dict[str, None] = {}
        for index, layer in enumerate(layers):
            sources = tuple(values.get(blob, ()) for blob in layer["bottom"])
            inputs.append((index, sources))
            for blob in layer["bottom"]:
                unread.pop(blob, None)
            if is_measure(layer["type"]):
                predicted.update(dict.fromkeys(self._predictions(layer, values)))
                continue
            for position, blob in enumerate(layer["top"]):
                in_place = layer["bottom"][position : position + 1] == [blob]
                values[blob] = (*values.get(blob, ()), index) if in_place else (index,)
                unread[blob] = index
        sinks = [
            blob for blob, index in unread.items() if not _is_data(layers[index]) and layers[index]["type"] != "Input"
        ]
        others = [blob for blob in predicted if blob not in sinks]
        read_by_others = {
            blob
            for layer in layers
            if not is_measure(layer["type"]) and layer["bottom"] != layer["top"]
            for blob in layer["bottom"]
        }
        self.outputs = [*sinks, *(blob for blob in others if blob not in read_by_others)] or others
        stack = [index for blob in self.outputs for index in values.get(blob, ())]
        sources_of = dict(inputs)
        while stack:
            index = stack.pop()
            if index not in self.needed:
                self.needed.add(index)
                stack.extend(source for sources in sources_of[index] for source in sources)
        self.read = {blob for index in self.needed for blob in layers[index]["bottom"]} | set(self.outputs)

    def _predictions(self, layer: Message, values: Mapping[str, tuple[int, ...]]) -> list[str]:
        """The bottoms of a loss or an accuracy that are computed, not read from data."""
        if layer["type"] in ("Silence", "HDF5Output"):
            return []
        count = 2 if layer["type"] == "ContrastiveLoss" else 1
        makers = [[self.net["layer"][i] for i in values.get(blob, ())] for blob in layer["bottom"]]
        tops = [
            blob
            for blob, those in zip(layer["bottom"], makers, strict=True)
            if any(not _is_data(one) and one["type"] != "Input" for one in those)
        ]
        return tops[:count]


def _as_input(
    layer: Message, read: set[str], input_shapes: Mapping[str, Sequence[int]], folders: Sequence[str]
) -> Message:
    """An Input layer with the tops of a data layer that are read."""
    tops = [blob for blob in layer["top"] if blob in read]
    shapes: Mapping[str, Sequence[int]] = input_shapes
    if any(blob not in input_shapes for blob in tops):
        shapes = {**_source_shapes(layer, tops, folders), **input_shapes}
    new = Message("LayerParameter", span=layer.span, name=layer["name"], type="Input", top=tops)
    shape_messages = [Message("BlobShape", dim=[int(n) for n in shapes[blob]]) for blob in tops]
    new["input_param"] = Message("InputParameter", shape=shape_messages)
    return new


def _source_shapes(layer: Message, tops: Sequence[str], folders: Sequence[str]) -> Mapping[str, Shape]:
    """The shapes of a data layer's tops, from its files."""
    if layer["type"] == "Python":
        fail_at(
            f"The sizes of the blob {tops[0]!r} are known to the Python layer {layer['name']!r} only, which is not run "
            f"here. Give them: input_shapes={{{tops[0]!r}: (3, 227, 227)}} of load_model, or "
            f"--set {tops[0]}.shape=[3,227,227].",
            layer.span,
        )
    try:
        source = open_blob_source(layer, "TEST", folders=folders, seed=0)
    except (DataError, UsageError) as error:
        reason = str(error.diagnostic.message if error.diagnostic is not None else error).splitlines()[0]
        fail_at(
            f"The sizes of the blob {tops[0]!r} come from the data of the layer {layer['name']!r} only, which cannot "
            f"be read ({reason}). Give them: input_shapes={{{tops[0]!r}: (3, 227, 227)}} of load_model, or "
            f"--set {tops[0]}.shape=[3,227,227].",
            layer.span,
        )
    try:
        return source.shapes
    finally:
        source.close()


def _check_names(input_shapes: Mapping[str, Sequence[int]], net: Message) -> None:
    """A UsageError for a shape of a blob that no layer without bottoms makes."""
    input_names = [blob for layer in net["layer"] if not layer["bottom"] for blob in layer["top"]]
    for name in input_shapes:
        if name not in input_names:
            raise UsageError(f"input_shapes: the net has no input {name!r}; it has {', '.join(input_names) or 'none'}")
