"""``Net``: a Caffe net that runs, with pycaffe's names."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from prototorch.caffe.blob import Blob
from prototorch.caffe.interop.net_weights import copy_weights
from prototorch.caffe.interop.snapshot import write_caffemodel
from prototorch.caffe.net_batches import forward_all, forward_backward_all
from prototorch.caffe.net_indices import NetIndices
from prototorch.caffe.param_blob import ParamBlob
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_net_file
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.model.loading.read.read_file import read_weights

__all__ = ["TEST", "TRAIN", "Net"]

TRAIN, TEST = 0, 1
_PHASES = {TRAIN: "TRAIN", TEST: "TEST", "TRAIN": "TRAIN", "TEST": "TEST"}
Arrays = dict[str, np.ndarray]
Path = str | os.PathLike[str]


class Net(NetIndices):
    """A net of a Caffe file for one phase, on the device of the current mode.

    ``Net("deploy.prototxt", TEST, weights="x.caffemodel")``, or in the old order ``Net("deploy.prototxt",
    "x.caffemodel", TEST)``.

    Args:
        network_file: path of the net's text.
        phase: `TRAIN` (0) or `TEST` (1).
        level, stages: of the net's state, for its layers' include and exclude rules.
        weights: path of a file of weights, see `copy_from`.
        allow_python: whether its Python layers may run their code; by default what `allow_python` has set.
        precision: "float32", or "float64": blobs and parameters are float64 then.
        seed: of initial weights and random layers; by default from `set_random_seed`, else another one each time.
        run_dir: the folder below which the net's layers write files (HDF5Output); by default ``runs/NAME``.

    Raises FileError for a file that cannot be read, TextError with the place of a mistake, DataError for data that do
    not fit, WeightsError for weights that do not fit.
    """

    def __init__(
        self,
        network_file: Path,
        *arguments: Any,
        phase: int | str | None = None,
        level: int = 0,
        stages: Iterable[str] | None = None,
        weights: Path | None = None,
        allow_python: bool | None = None,
        precision: str = "auto",
        seed: int | None = None,
        run_dir: Path | None = None,
    ):
        phase, level, stages, weights = _read_arguments(arguments, phase, level, stages, weights)
        message = filter_net(read_net_file(network_file), phase, level, tuple(stages or ()))
        folders = (os.path.dirname(os.path.abspath(network_file)),)
        super().__init__(message, phase, precision, seed, folders, allow_python, run_dir)
        if weights is not None:
            self.copy_from(weights)

    @classmethod
    def from_message(
        cls,
        message: Message,
        phase: str,
        *,
        precision: str = "auto",
        seed: int | None = None,
        folders: Sequence[str] = (),
        allow_python: bool | None = None,
        run_dir: Path | None = None,
    ) -> Self:
        """The net of a NetParameter in its newest form, filtered by its state. folders: those in which its data are
        looked for behind the working directory; the other arguments as for the class."""
        net = cls.__new__(cls)
        super(Net, net).__init__(message, phase, precision, seed, folders, allow_python, run_dir)
        return net

    # ------------------------------------------------------------------ structure

    @property
    def name(self) -> str:
        """The name that the file gives."""
        return str(self.message["name"])

    @property
    def inputs(self) -> list[str]:
        """The tops of Input layers."""
        return [top for layer in self.caffe_net.layers if layer.type == "Input" for top in layer.tops]

    @property
    def outputs(self) -> list[str]:
        """The blobs that no layer reads, in alphabetical order."""
        return list(self.caffe_net.outputs)

    @property
    def bottom_names(self) -> OrderedDict[str, list[str]]:
        """The blobs that each layer reads."""
        return OrderedDict((layer.name, list(layer.bottoms)) for layer in self.caffe_net.layers)

    @property
    def top_names(self) -> OrderedDict[str, list[str]]:
        """The blobs that each layer makes."""
        return OrderedDict((layer.name, list(layer.tops)) for layer in self.caffe_net.layers)

    @property
    def blob_loss_weights(self) -> OrderedDict[str, float]:
        """The factor of each blob in the net's loss; 0 for those that are no loss."""
        return OrderedDict(zip(self._blob_names, self._blob_loss_weights, strict=True))

    # ------------------------------------------------------------------ running

    def forward(
        self, blobs: Sequence[str] | None = None, start: str | None = None, end: str | None = None, **kwargs: Any
    ) -> Arrays:
        """Run the net, or its layers from ``start`` to ``end`` (names; both included).

        kwargs: arrays for all inputs by the names of their blobs, of the shapes that these have; without them the
        blobs' data, and the next batch of data layers, are read. blobs: names of blobs to return besides the outputs
        (besides the tops of ``end``). Returns the data of these blobs: the blobs' own arrays, which the next run
        overwrites. Raises UsageError for names and shapes that do not fit.
        """
        first = 0 if start is None else self._layer_index(start)
        last = len(self.caffe_net.layers) - 1 if end is None else self._layer_index(end)
        self._fill("data", kwargs, self.inputs, "inputs")
        self.forward_range(first, last)
        tops = self.outputs if end is None else self.caffe_net.layers[last].tops
        return {name: self._blob(name).data for name in dict.fromkeys([*tops, *(blobs or ())])}

    def backward(
        self, diffs: Sequence[str] | None = None, start: str | None = None, end: str | None = None, **kwargs: Any
    ) -> Arrays:
        """Differentiate the net, or its layers from ``start`` back to ``end`` (names; both included).

        The gradients of the outputs are the diffs of their blobs: the loss weight for a loss, else 0 or what the
        caller has written. kwargs: arrays for the diffs of all outputs. diffs: names of blobs to return besides the
        inputs (besides the bottoms of ``end``). Returns the diffs of these blobs. Diffs of blobs are overwritten,
        those of parameters added to. Raises UsageError for names and shapes that do not fit.
        """
        last = len(self.caffe_net.layers) - 1 if start is None else self._layer_index(start)
        first = 0 if end is None else self._layer_index(end)
        self._fill("diff", kwargs, self.outputs, "outputs")
        self.backward_range(first, last)
        bottoms = self.inputs if end is None else self.caffe_net.layers[first].bottoms
        return {name: self._blob(name).diff for name in dict.fromkeys([*bottoms, *(diffs or ())])}

    def forward_all(self, blobs: Sequence[str] | None = None, **kwargs: Any) -> Arrays:
        """Run the net over arrays of any number of samples, batch by batch; the last one is padded with zeros.

        kwargs: arrays for all inputs. Returns arrays of all samples of the outputs, and of ``blobs``.
        """
        return forward_all(self, blobs, kwargs)

    def forward_backward_all(
        self, blobs: Sequence[str] | None = None, diffs: Sequence[str] | None = None, **kwargs: Any
    ) -> tuple[Arrays, Arrays]:
        """As `forward_all`, with a backward pass after each batch.

        kwargs: arrays for inputs, and of gradients for outputs. Returns arrays of all samples of the outputs and
        ``blobs``, and of the diffs of the inputs and ``diffs``.
        """
        return forward_backward_all(self, blobs, diffs, kwargs)

    def _fill(self, what: str, arrays: Mapping[str, Any], expected: Sequence[str], description: str) -> None:
        if arrays and set(arrays) != set(expected):
            raise UsageError(
                f"the net's {description} are {', '.join(expected) or 'none'}; got {', '.join(arrays)}: give all of "
                "them, or none"
            )
        for name, array in arrays.items():
            target = getattr(self.blobs[name], what)
            elements = np.asarray(array)
            if elements.shape[:1] != target.shape[:1] or elements.size != target.size:
                raise UsageError(
                    f"{name}: expected an array of shape {list(target.shape)}, got {list(elements.shape)}; reshape the "
                    f"blob first: net.blobs[{name!r}].reshape(...)"
                )
            target[...] = elements.reshape(target.shape)

    def _blob(self, name: str) -> Blob:
        if name not in self.caffe_net.blobs:
            raise UsageError(f"the net has no blob {name!r}.{did_you_mean(name, self.caffe_net.blobs)}")
        return self.blobs[name]

    def _layer_index(self, name: str) -> int:
        names = [layer.name for layer in self.caffe_net.layers]
        if name not in names:
            raise UsageError(f"the net has no layer {name!r}.{did_you_mean(name, names)}")
        return names.index(name)

    # ------------------------------------------------------------------ callbacks

    def before_forward(self, function: Callable[[int], Any]) -> None:
        """Call a function with a layer's position before that layer runs."""
        self.callbacks["before_forward"].append(function)

    def after_forward(self, function: Callable[[int], Any]) -> None:
        """Call a function with a layer's position after that layer has run."""
        self.callbacks["after_forward"].append(function)

    def before_backward(self, function: Callable[[int], Any]) -> None:
        """Call a function with a layer's position before that layer is differentiated."""
        self.callbacks["before_backward"].append(function)

    def after_backward(self, function: Callable[[int], Any]) -> None:
        """Call a function with a layer's position after that layer has been differentiated."""
        self.callbacks["after_backward"].append(function)

    # ------------------------------------------------------------------ weights

    def copy_from(self, path: Path) -> LoadReport:
        """Load weights by the names of layers, from a ``.caffemodel``, a ``.caffemodel.h5`` (by its content), and
        return the report. Raises WeightsError for blobs that do not fit, ModelFileError for a damaged file."""
        return copy_weights(*self.stored_params(), read_weights(path))

    def load_hdf5(self, path: Path) -> LoadReport:
        """As `copy_from`."""
        return self.copy_from(path)

    def save(self, path: Path) -> None:
        """Write the weights as a binary ``.caffemodel``, whole or not at all. Raises SnapshotError."""
        self.write_params()
        write_caffemodel(path, *self.stored_params())

    def save_hdf5(self, path: Path) -> None:
        """Write the weights as HDF5 (``.caffemodel.h5``), whole or not at all. Raises SnapshotError, and UsageError for
        names of layers that contain ``/``."""
        if not os.fspath(path).endswith(".h5"):
            raise UsageError(f"save_hdf5: expected a name that ends with .h5, got {os.fspath(path)!r}")
        self.save(path)

    def share_with(self, other: Net) -> None:
        """Use the parameters of another net's layers of the same names instead of those of its own; the two have the
        same arrays from here on. Raises WeightsError for layers whose parameters have other shapes."""
        other_params = other.params
        for name, params in self.params.items():
            sources = other_params.get(name)
            if sources is None:
                continue
            if [p.shape for p in params] != [p.shape for p in sources]:
                raise WeightsError(
                    f"share_with: the layer {name!r} has parameters of the shapes {[list(p.shape) for p in params]} "
                    f"here and {[list(p.shape) for p in sources]} there"
                )
            for own, source in zip(params, sources, strict=True):
                _share(self, own, other, source)
        self.forget_plans()

    def clear_param_diffs(self) -> None:
        """Set the gradients of all parameters to 0."""
        for params in self.params.values():
            for param in params:
                param.diff[...] = 0

    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """Give the net's MemoryData layer, its first, its samples and labels: float32 arrays [n, channels, height,
        width] and [n] (or [n, 1, 1, 1]), n a multiple of its batch size. Raises UsageError for others."""
        first = self.data_layers.get(0)
        if first is None or self.caffe_net.layers[0].type != "MemoryData":
            raise UsageError("set_input_arrays: the net's first layer must be a MemoryData layer")
        first.source.set_arrays(data, labels)  # type: ignore[attr-defined]


def _share(own_net: Net, own: ParamBlob | Blob, other_net: Net, other: ParamBlob | Blob) -> None:
    if isinstance(own, ParamBlob) and isinstance(other, ParamBlob):
        for name, other_name in zip(own.param.weights, other.param.weights, strict=True):
            own_net.variables.share(name, other_net.variables, other_name)
    else:
        own.data[...] = other.data


def _read_arguments(
    arguments: tuple[Any, ...],
    phase: int | str | None,
    level: int,
    stages: Iterable[str] | None,
    weights: Path | None,
) -> tuple[str, int, Iterable[str] | None, Path | None]:
    """The arguments of `Net` in either order: (phase, level, stages, weights), or (weights, phase)."""
    values: dict[str, Any] = {"phase": phase, "level": level, "stages": stages, "weights": weights}
    is_old = bool(arguments) and isinstance(arguments[0], str | os.PathLike) and arguments[0] not in ("TRAIN", "TEST")
    names = ("weights", "phase") if is_old else ("phase", "level", "stages", "weights")
    if len(arguments) > len(names):
        raise UsageError("Net: expected Net(file, phase, level, stages, weights) or Net(file, weights, phase)")
    values.update(zip(names, arguments, strict=False))
    if values["phase"] not in _PHASES:
        raise UsageError(f"Net: phase is TRAIN (0) or TEST (1), not {values['phase']!r}")
    if isinstance(values["stages"], str):
        values["stages"] = (values["stages"],)
    return _PHASES[values["phase"]], values["level"], values["stages"], values["weights"]
