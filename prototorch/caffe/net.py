"""``Net``: a Caffe net that runs, with pycaffe's names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from prototorch.caffe.blob import Blob
from prototorch.caffe.data_layers import open_data_layers
from prototorch.caffe.execution import Execution
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.settings import current_backend, new_seed
from prototorch.interop.caffe.caffe_net import CaffeNet
from prototorch.interop.caffe.splits import insert_splits
from prototorch.interop.caffe.translate import translate_net
from prototorch.runtime.variables import Variables, initial_value
from prototorch.text.caffe.message import Message

__all__ = ["TEST", "TRAIN", "Net"]

TRAIN, TEST = 0, 1
_PHASES = {TRAIN: "TRAIN", TEST: "TEST"}


class Net:
    """A net of a Caffe file for one phase, on the backend of the current mode."""

    def __init__(self, message: Message, phase: str, precision: str = "auto", seed: int | None = None,
                 folders: Sequence[str] = ()):  # fmt: skip
        self.message, self.phase = insert_splits(message), phase
        self.backend, self.variables = current_backend(precision), Variables()
        self.seed = new_seed() if seed is None else seed
        dtype = self.backend.precision.float_dtype
        self.data_layers = open_data_layers(self.message, phase, folders, self.seed, dtype)
        sources = [layer.source.shapes for layer in self.data_layers.values()]
        net = self._translate({blob: shape for shapes in sources for blob, shape in shapes.items()})
        for weight in net.weights.values():
            self.variables.create(weight.name, initial_value(weight, self.seed), own=True)
        self._execution = Execution(
            self._translate, net, dict(self.data_layers), self.backend, self.variables, self.seed
        )
        self._params = self._make_params(net)

    @classmethod
    def from_message(cls, message: Message, phase: str, *, precision: str = "auto", seed: int | None = None,
                     folders: Sequence[str] = ()) -> Net:  # fmt: skip
        """The net of a NetParameter in its newest form, filtered by its state. folders: those in which its data are
        looked for behind the working directory."""
        return cls(message, phase, precision, seed, folders)

    def _translate(self, shapes: dict[str, tuple[int, ...]]) -> CaffeNet:
        return translate_net(self.message, self.phase, shapes, self.backend.precision.float_dtype)

    def _make_params(self, net: CaffeNet) -> dict[tuple[str, int], ParamBlob]:
        params: dict[tuple[str, int], ParamBlob] = {}
        for param in net.params:
            owner = None if param.owner is None else params[param.owner]
            params[param.layer, param.index] = ParamBlob(param, self.variables, owner)
        return params

    @property
    def caffe_net(self) -> CaffeNet:
        """The net in our layers, for the current shapes."""
        return self._execution.net

    @property
    def blobs(self) -> OrderedDict[str, Blob]:
        """The blobs by name, in the order in which layers make them."""
        return OrderedDict((name, self._execution.blobs[name]) for name in self.caffe_net.blobs)

    @property
    def params(self) -> OrderedDict[str, list[ParamBlob]]:
        """The parameters of each layer that has some."""
        layers = [(layer.name, layer.params) for layer in self.caffe_net.layers if layer.params]
        return OrderedDict((name, [self._params[name, p.index] for p in params]) for name, params in layers)

    def read_inputs(self) -> None:
        """Run the data layers alone: their tops get the next batch."""
        layers = self.caffe_net.layers
        for index, data in self.data_layers.items():
            data.forward([], [self._execution.blobs[top] for top in layers[index].tops])
        self._execution.reshape()

    def close(self) -> None:
        """End the threads that read data; the next batch starts them again."""
        for layer in self.data_layers.values():
            layer.source.close()

    def write_params(self) -> None:
        """Bring the weights up to date where somebody has written into a parameter's copy (see `ParamBlob`)."""
        for param in self._params.values():
            param.write_back()

    def forward_range(self, first: int, last: int) -> float:
        """Run the layers from one position to another (inclusive); returns the sum of their losses."""
        self.write_params()
        return self._execution.forward(first, last)

    def backward_range(self, first: int, last: int) -> None:
        """Differentiate the layers from ``last`` back to ``first`` (positions, inclusive)."""
        self.write_params()
        gradients = self._execution.backward(first, last)
        for key, param in self._params.items():
            if param.param.owner is None and all(name in gradients for name in param.param.weights):
                self._params[key].add_gradient(gradients)
