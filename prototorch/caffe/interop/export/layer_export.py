"""One layer of ours while it is written as layers of Caffe, and the table of functions that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from prototorch.caffe.text.message import Message
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import NotExpressibleError

__all__ = ["CaffeLayerExport", "Exporter", "exports", "find_exporter", "make_message"]

Exporter = Callable[["CaffeLayerExport"], None]
_EXPORTERS: dict[type[Layer], Exporter] = {}


def exports(*classes: type[Layer]) -> Callable[[Exporter], Exporter]:
    """Register a function that writes the layers of these classes."""

    def register(function: Exporter) -> Exporter:
        for one in classes:
            if one in _EXPORTERS:
                raise ValueError(f"{one.__name__} is exported already")
            _EXPORTERS[one] = function
        return function

    return register


def find_exporter(layer: type[Layer]) -> Exporter | None:
    """The function that writes layers of a class; None for one that Caffe does not have."""
    return _EXPORTERS.get(layer)


def make_message(type_name: str, **fields: Any) -> Message:
    """A message of a type; fields that are None or an empty list are left out."""
    present = {name: value for name, value in fields.items() if value is not None and value != []}
    return Message(type_name, **present)


@dataclass
class CaffeLayerExport:
    """A layer that is written.

    An exporter reads `layer`, the blobs it reads (`bottoms`) and the shapes of its inputs and outputs (with all axes),
    and adds layers of Caffe with `add`; each reads the blob of the one before. What Caffe does not have it refuses with
    `fail`. weights: of the layer by their names below it. layers: those that were added. tops: of the last of them.
    may_overwrite: whether nobody else reads the first bottom, so that a layer may work in place.
    """

    layer: Layer
    name: str
    bottoms: tuple[str, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    weights: Mapping[str, np.ndarray]
    new_name: Callable[[str], str]
    may_overwrite: bool
    readers: tuple[Layer, ...] = ()
    layers: list[Message] = field(default_factory=list)
    tops: tuple[str, ...] = ()

    def add(
        self,
        type_name: str,
        suffix: str = "",
        *,
        blobs: Sequence[np.ndarray] = (),
        in_place: bool = False,
        num_tops: int = 1,
        frozen: bool = False,
        **params: Message | None,
    ) -> Message:
        """Add a layer of Caffe, which reads the layer's bottoms, or the tops of the one that was added before.

        suffix: goes behind the layer's name (``conv1_relu``). blobs: its parameters, in Caffe's order. in_place:
        its top is its bottom, where that may be overwritten. frozen: its parameters are not trained. params: the
        layer's messages (``convolution_param``); one without fields is left out.
        """
        bottoms = self.tops if self.layers else self.bottoms
        name = f"{self.name}_{suffix}" if suffix else self.name
        if in_place and (self.layers or self.may_overwrite):
            tops: tuple[str, ...] = bottoms
        else:
            tops = tuple(self.new_name(name if i == 0 else f"{name}_{i}") for i in range(num_tops))
        message = Message("LayerParameter", name=name, type=type_name, bottom=list(bottoms), top=list(tops))
        if blobs:
            message["blobs"] = [_blob(array) for array in blobs]
        if frozen:
            message["param"] = [Message("ParamSpec", lr_mult=0.0, decay_mult=0.0) for _ in blobs]
        for param, value in params.items():
            if value is not None and any(True for _ in value.set_fields()):
                message[param] = value
        self.layers.append(message)
        self.tops = tops
        return message

    def pass_through(self) -> None:
        """The layer is nothing in Caffe: who reads it reads its bottom."""
        self.tops = self.tops or self.bottoms

    def add_activation(self, activation: Layer, prefix: str = "activation") -> None:
        """Add the layers of an ``activation`` field behind those that are there, in place where Caffe can."""
        export = find_exporter(type(activation))
        if export is None:
            raise NotExpressibleError(f"the activation {type(activation).__name__}: Caffe has no such layer")
        below = f"{prefix}/"
        weights = {n.removeprefix(below): a for n, a in self.weights.items() if n.startswith(below)}
        kind = type(activation).__name__.lower()
        inner = CaffeLayerExport(
            activation,
            f"{self.name}_{kind}",
            self.tops,
            self.output_shapes[:1],
            self.output_shapes[:1],
            weights,
            self.new_name,
            True,
        )
        export(inner)
        self.layers += inner.layers
        self.tops = inner.tops

    def fail(self, reason: str) -> NoReturn:
        """Refuse the layer: Caffe has nothing for it."""
        raise NotExpressibleError(reason)


def _blob(array: np.ndarray) -> Message:
    values = np.array(array, np.float32, order="C", copy=None)
    blob = Message("BlobProto", shape=Message("BlobShape", dim=list(values.shape)))
    blob["data"] = values.reshape(-1)
    return blob
