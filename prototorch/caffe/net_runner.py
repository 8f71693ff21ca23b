"""The parts of a net that run: its blobs, parameters, plans and the layers between them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from prototorch.caffe.blob import Blob
from prototorch.caffe.data_layers import DataLayer, open_data_layers
from prototorch.caffe.dummy_data import DummyDataSource, check_values_fit
from prototorch.caffe.execution import Execution
from prototorch.caffe.host_layers import FilterLayer, HDF5OutputLayer, HostLayer
from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.caffe.interop.splits import insert_splits
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.layer import BlobList, Layer
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.python_layer import PythonLayer, PythonLayers
from prototorch.caffe.python_params import with_python_params
from prototorch.caffe.settings import SETTINGS, current_backend, new_seed
from prototorch.caffe.solver_position import NetPosition
from prototorch.caffe.text.message import Message
from prototorch.errors import ShapeError
from prototorch.runtime.variables import Variables, initial_value, total_bytes
from prototorch.train.memory_estimate import weights_memory_error
from prototorch.train.output_paths import default_run_dir

__all__ = ["NetRunner"]


class NetRunner:
    """The base of `Net`: what its methods of pycaffe's names are made of.

    Attributes:
        message: the net as a NetParameter, with its Split layers. phase: "TRAIN" or "TEST".
        backend, variables, seed: where it computes, its weights by our names, the seed of its random numbers.
        data_layers: by the position of the layer.
        callbacks: lists of functions of a layer's position: "before_forward", "after_forward", "before_backward",
            "after_backward".
    """

    message: Message
    phase: str

    def __init__(
        self,
        message: Message,
        phase: str,
        precision: str,
        seed: int | None,
        folders: Sequence[str],
        allow_python: bool | None,
        run_dir: str | os.PathLike[str] | None,
    ) -> None:
        self.message, self.phase = insert_splits(message), phase
        self.backend, self.variables = current_backend(precision), Variables()
        self.seed = new_seed() if seed is None else seed
        self.callbacks: dict[str, list[Callable[[int], Any]]] = {
            f"{when}_{what}": [] for when in ("before", "after") for what in ("forward", "backward")
        }
        dtype = self.backend.precision.float_dtype
        may_run = SETTINGS.allows_python if allow_python is None else allow_python
        self._python_layers = PythonLayers(phase, dtype) if may_run else None
        self._params: dict[tuple[str, int], ParamBlob] = {}
        self._folders = tuple(folders)
        self.data_layers = open_data_layers(self.message, phase, folders, self.seed, dtype)
        try:
            sources = [layer.source.shapes for layer in self.data_layers.values()]
            net = self._translate({blob: shape for shapes in sources for blob, shape in shapes.items()})
            self._open_host_layers(net, dtype, run_dir)
        except BaseException:
            self.close()
            raise
        specs, free = {w.name: w.spec for w in net.weights.values()}, self.backend.free_bytes()
        if free is not None and total_bytes(specs.values()) > free:
            raise weights_memory_error(net.net, specs, free)
        for weight in net.weights.values():
            self.variables.create(weight.name, initial_value(weight, self.seed), own=True)
        self._execution = Execution(self._translate, net, self.host_layers, self.backend, self.variables, self.seed)
        self._params = self._make_params(net)

    def _open_host_layers(self, net: CaffeNet, dtype: str, run_dir: str | os.PathLike[str] | None) -> None:
        self.host_layers: dict[int, HostLayer] = dict(self.data_layers)
        shapes = net.shapes
        for index, layer in enumerate(net.layers):
            if layer.type == "DummyData":
                tops = {top: shapes[value] for top, value in zip(layer.tops, layer.top_values, strict=True)}
                check_values_fit(layer, [net.specs[value] for value in layer.top_values], self.backend.free_bytes())
                source = DummyDataSource(layer, tops, self.seed + index, dtype)
                self.data_layers[index] = self.host_layers[index] = DataLayer(layer.tops, source)
            elif layer.type == "Filter":
                self.host_layers[index] = FilterLayer()
            elif layer.type == "HDF5Output":
                folder = default_run_dir(net.net.name) if run_dir is None else run_dir
                self.host_layers[index] = HDF5OutputLayer(layer, os.fspath(folder))
            elif layer.type == "Python" and self._python_layers is not None:
                self.host_layers[index] = self._python_layers.layer(layer.message)

    def _translate(self, shapes: dict[str, tuple[int, ...]]) -> CaffeNet:
        host_shapes = None if self._python_layers is None else self._python_layers.shapes
        net = translate_net(self.message, self.phase, shapes, self.backend.precision.float_dtype, host_shapes)
        for param in net.params:
            blob = self._params.get((param.layer, param.index))
            if blob is not None and blob.shape != param.shape:
                sizes = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
                raise ShapeError(
                    f"layer {param.layer!r}: its parameter {param.index} has the shape {list(blob.shape)}; for inputs "
                    f"of other sizes ({sizes}) it would need {list(param.shape)}"
                )
        return net

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
    def params(self) -> OrderedDict[str, list[Any]]:
        """The parameters of each layer that has some; those of layers of the same name are of the first."""
        layers = self.caffe_net.layers
        pairs = [(layer.name, self._blobs_of(i, layer)) for i, layer in enumerate(layers)]
        return OrderedDict((name, blobs) for name, blobs in pairs if blobs)

    def _blobs_of(self, index: int, layer: CaffeLayer) -> list[Any]:
        host = self.host_layers.get(index)
        if isinstance(host, PythonLayer):
            return host.layer.blobs
        return [self._params[layer.name, param.index] for param in layer.params]

    @property
    def layers(self) -> list[Layer]:
        """The layers in their order, Split layers included."""
        return [self._layer(index, layer) for index, layer in enumerate(self.caffe_net.layers)]

    @property
    def layer_dict(self) -> OrderedDict[str, Layer]:
        """The layers by name."""
        return OrderedDict((layer.name, layer) for layer in self.layers)

    def _layer(self, index: int, layer: CaffeLayer) -> Layer:
        host = self.host_layers.get(index)
        if isinstance(host, PythonLayer):
            return host.layer
        layer_view = Layer(layer.message)
        layer_view.phase = 0 if layer.phase(self.phase) == "TRAIN" else 1
        layer_view.blobs = BlobList(self._blobs_of(index, layer))
        return layer_view

    def reshape(self) -> None:
        """Give all blobs the shapes that follow from those of the inputs (`Blob.reshape`)."""
        self._execution.reshape()

    def read_inputs(self) -> None:
        """Run the data layers alone: their tops get the next batch."""
        layers = self.caffe_net.layers
        for index, data in self.data_layers.items():
            data.forward([], [self._execution.blobs[top] for top in layers[index].tops])
        self._execution.reshape()
        self._execution.check_input_labels()

    def position(self) -> NetPosition:
        """The numbers of the next batches and of the next run, for `go_to`."""
        batches = {str(index): data.source.position for index, data in self.data_layers.items()}
        return NetPosition(self._execution.step, batches)

    def go_to(self, position: NetPosition, seed: int) -> None:
        """Go on with these batches and this run, and with the random numbers of this seed."""
        if seed != self.seed:
            self._reseed(seed)
        self._execution.step = position.run
        for index, data in self.data_layers.items():
            if str(index) in position.batches:
                data.source.seek(position.batches[str(index)])

    def _reseed(self, seed: int) -> None:
        """Draw data and random layers with another seed. MemoryData keeps the arrays that it was given."""
        dtype = self.backend.precision.float_dtype
        self.seed = self._execution.seed = seed
        others = open_data_layers(self.message, self.phase, self._folders, seed, dtype)
        layers, shapes = self.caffe_net.layers, self.caffe_net.shapes
        for index, data in self.data_layers.items():
            if layers[index].type == "DummyData":
                tops = {t: shapes[v] for t, v in zip(layers[index].tops, layers[index].top_values, strict=True)}
                data.source = DummyDataSource(layers[index], tops, seed + index, dtype)
            elif layers[index].type != "MemoryData":
                data.source.close()
                data.source = others[index].source

    def naming_labels(self) -> AbstractContextManager[None]:
        """See `Execution.naming_labels`."""
        return self._execution.naming_labels()

    def close(self) -> None:
        """End the threads that read data; the next batch starts them again."""
        for layer in self.data_layers.values():
            layer.source.close()

    def forget_plans(self) -> None:
        """Make plans anew at the next run: the arrays of weights have been replaced."""
        self._execution.forget_plans()

    def forward_range(self, first: int, last: int) -> float:
        """Run the layers from one position to another (inclusive); returns the sum of their losses."""
        self.write_params()
        if not (self.callbacks["before_forward"] or self.callbacks["after_forward"]):
            return self._execution.forward(first, last)
        total = 0.0
        for index in range(first, last + 1):
            self._call("before_forward", index)
            total += self._execution.forward(index, index)
            self._call("after_forward", index)
        return total

    def backward_range(self, first: int, last: int) -> None:
        """Differentiate the layers from ``last`` back to ``first`` (positions, inclusive)."""
        self.write_params()
        if not (self.callbacks["before_backward"] or self.callbacks["after_backward"]):
            self._differentiate(first, last)
            return
        for index in range(last, first - 1, -1):
            self._call("before_backward", index)
            self._differentiate(index, index)
            self._call("after_backward", index)

    def _differentiate(self, first: int, last: int) -> None:
        gradients = self._execution.backward(first, last)
        for param in self._params.values():
            if param.param.owner is None and all(name in gradients for name in param.param.weights):
                param.add_gradient(gradients)

    def _call(self, when: str, index: int) -> None:
        for function in self.callbacks[when]:
            function(index)

    def stored_params(self) -> tuple[CaffeNet, Mapping[str, Any]]:
        """What files of weights are written from and read into: the net, and its arrays by name, with the blobs of
        Python layers."""
        return with_python_params(self.caffe_net, self.host_layers, self.variables)

    def write_params(self) -> None:
        """Bring the weights up to date where somebody has written into a parameter's copy (see `ParamBlob`)."""
        for param in self._params.values():
            param.write_back()
