"""Layers of a net that are classes in Python: found, set up, and run between the plans of the net."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prototorch.caffe.blob import Blob
from prototorch.caffe.layer import Layer
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.errors import UsageError
from prototorch.schema.python_imports import import_python_module

__all__ = ["PythonLayer", "PythonLayers"]

Shape = tuple[int, ...]


class PythonLayer:
    """A `HostLayer` that calls a class in Python.

    Its module is looked for as ``import`` does, in ``sys.path``; never beside the net's file. Raises TextError, with
    the place of the layer, where there is no such class; what the class itself raises is passed on.
    """

    def __init__(self, message: Message, phase: str, dtype: str):
        self.layer = _load_class(message)(message)
        self.layer.param_str = message["python_param"]["param_str"]
        self.layer.phase = 0 if phase == "TRAIN" else 1
        self._dtype = dtype
        self._bottoms = [Blob(dtype=dtype) for _ in message["bottom"]]
        self._tops = [Blob(dtype=dtype) for _ in message["top"]]
        self._is_set_up = False

    def top_shapes(self, bottom_shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes of the tops for these shapes of the bottoms, by the class's ``setup`` and ``reshape``."""
        for blob, shape in zip(self._bottoms, bottom_shapes, strict=True):
            blob.reshape(*shape)
        if not self._is_set_up:
            self.layer.setup(self._bottoms, self._tops)
            self._is_set_up = True
            for blob in self.layer.blobs:
                blob.dtype = self._dtype
        self.layer.reshape(self._bottoms, self._tops)
        return [blob.shape for blob in self._tops]

    def forward(self, bottoms: Sequence[Blob], tops: Sequence[Blob]) -> None:
        """Call ``reshape`` and ``forward``."""
        self.layer.reshape(bottoms, tops)
        self.layer.forward(bottoms, tops)

    def backward(self, tops: Sequence[Blob], needs: Sequence[bool], bottoms: Sequence[Blob]) -> None:
        """Call ``backward``."""
        self.layer.backward(tops, list(needs), bottoms)


class PythonLayers:
    """The Python layers of one net. They are made when the net is translated first, and kept for other shapes."""

    def __init__(self, phase: str, dtype: str):
        self._phase, self._dtype = phase, dtype
        self._layers: list[tuple[Message, PythonLayer]] = []

    def shapes(self, message: Message, bottom_shapes: Sequence[Shape]) -> list[Shape]:
        """See `translate_net`'s ``host_shapes``."""
        return self.layer(message).top_shapes(bottom_shapes)

    def layer(self, message: Message) -> PythonLayer:
        """The layer of a message of the net."""
        for layer_message, layer in self._layers:
            if layer_message is message:
                return layer
        phase = str(message["phase"]) if message.has("phase") else self._phase
        self._layers.append((message, PythonLayer(message, phase, self._dtype)))
        return self._layers[-1][1]


def _load_class(message: Message) -> Callable[[Message], Layer]:
    """The class that a layer names."""
    param = message["python_param"]
    where = f"layer {message['name']!r} (Python)"
    try:
        module = import_python_module(param["module"])
    except UsageError as error:
        fail_at(f"{where}: {error}; not beside the net's file", param.field_span("module"))
    layer_class = getattr(module, param["layer"], None)
    if not (isinstance(layer_class, type) and issubclass(layer_class, Layer)):
        what = "has no class" if layer_class is None else "has no subclass of prototorch.caffe.Layer named"
        fail_at(f"{where}: the module {param['module']!r} {what} {param['layer']!r}", param.field_span("layer"))
    return layer_class
