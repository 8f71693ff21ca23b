"""Labels that are no class of a net: an error that names the layer, before a loss of NaN spreads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from prototorch.caffe.blob import Blob
from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.errors import DataError

__all__ = ["LabelCheck", "find_label_checks"]

#: the field that holds ``axis``, and the one that holds ``ignore_label``; "": the layer has none
_FIELDS = {
    "SoftmaxWithLoss": ("softmax_param", "loss_param"),
    "InfogainLoss": ("infogain_loss_param", "loss_param"),
    "Accuracy": ("accuracy_param", "accuracy_param"),
    "HingeLoss": ("", ""),
    "MultinomialLogisticLoss": ("", ""),
}


@dataclass(frozen=True)
class LabelCheck:
    """The labels that a layer reads: they are from 0 to classes - 1, or ignore_label.

    index: the layer's position in the net. blob: the blob that holds the labels, before Split layers copy it.
    """

    layer: str
    index: int
    blob: str
    classes: int
    ignore_label: int | None
    ignore_field: str

    def check(self, blobs: Mapping[str, Blob]) -> None:
        """Raise DataError with the first label that is no class."""
        labels = np.trunc(blobs[self.blob].read("data"))
        is_wrong = ~((labels >= 0) & (labels < self.classes))
        if self.ignore_label is not None:
            is_wrong &= labels != self.ignore_label
        if not is_wrong.any():
            return
        place = tuple(int(i) for i in np.argwhere(is_wrong)[0])
        wrong = float(labels[place])
        text = (
            f"layer {self.layer}: the label {wrong:g} (blob {self.blob!r}, position {list(place)}) is none of the "
            f"{self.classes} classes, which count from 0"
        )
        if self.ignore_field and np.isfinite(wrong):
            text += f"; {self.ignore_field} {{ ignore_label: {wrong:g} }} leaves such labels out"
        raise DataError(text)


def find_label_checks(net: CaffeNet) -> tuple[LabelCheck, ...]:
    """The checks of all layers of a net that read labels."""
    return tuple(_checks(net))


def _checks(net: CaffeNet) -> Iterator[LabelCheck]:
    sources: dict[str, str] = {}  # a copy of a blob -> the blob
    for index, layer in enumerate(net.layers):
        if layer.type == "Split":
            sources |= {top: sources.get(layer.bottoms[0], layer.bottoms[0]) for top in layer.tops}
        if layer.type not in _FIELDS or len(layer.bottoms) < 2:
            continue
        blob = sources.get(layer.bottoms[1], layer.bottoms[1])
        ignore_field = _FIELDS[layer.type][1]
        param = layer.message[ignore_field] if ignore_field else None
        ignored = param["ignore_label"] if param is not None and param.has("ignore_label") else None
        name = f"{layer.name!r} ({layer.type})"
        yield LabelCheck(name, index, blob, _class_count(net, layer), ignored, ignore_field)


def _class_count(net: CaffeNet, layer: CaffeLayer) -> int:
    shape, field = net.shapes[layer.bottom_values[0]], _FIELDS[layer.type][0]
    return int(shape[layer.message[field]["axis"]]) if field else prod(shape[1:])
