"""Running a Caffe net: ranges of its layers forward and backward, for the shapes that its blobs have."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from prototorch.caffe.blob import Blob
from prototorch.caffe.host_layers import HostLayer
from prototorch.caffe.interop.backward_flags import BackwardFlags, find_backward_flags
from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.label_range import LabelCheck, find_label_checks
from prototorch.caffe.partial_plans import PartialPlans
from prototorch.engine.backends.core import Backend
from prototorch.errors import IndexRangeError
from prototorch.runtime.variables import Variables, initial_value
from prototorch.train.step_inputs import random_key

__all__ = ["Execution"]

Shapes = dict[str, tuple[int, ...]]
MAX_SHAPES = 8  # input shapes whose plans are kept
MAX_RANGES = 32  # ranges of layers whose plans are kept


@dataclass
class _ShapedNet:
    """The net for some input shapes, with the plans of its ranges."""

    net: CaffeNet
    flags: BackwardFlags
    label_checks: tuple[LabelCheck, ...]
    ranges: OrderedDict[range, PartialPlans] = field(default_factory=OrderedDict)
    last_run: dict[int, PartialPlans] = field(default_factory=dict)  # by layer


class Execution:
    """Runs a net on a backend.

    translate: the net for shapes of its input blobs. host_layers: what runs between plans, by the layer's position;
    they fill the net's inputs, together with the caller, who writes into `blobs`.
    """

    def __init__(
        self,
        translate: Callable[[Shapes], CaffeNet],
        net: CaffeNet,
        host_layers: Mapping[int, HostLayer],
        backend: Backend,
        variables: Variables,
        seed: int,
    ):
        self.translate, self.host_layers = translate, host_layers
        self.backend, self.variables, self.seed = backend, variables, seed
        self.step = 0
        self.blobs: dict[str, Blob] = {}
        self._nets: OrderedDict[tuple[tuple[str, tuple[int, ...]], ...], _ShapedNet] = OrderedDict()
        self._adopt(net)

    @property
    def net(self) -> CaffeNet:
        """The net for the shapes that the input blobs had at the last run or `reshape`."""
        return self._current.net

    @property
    def flags(self) -> BackwardFlags:
        """What is differentiated."""
        return self._current.flags

    def reshape(self) -> None:
        """Give all blobs the shapes that follow from those of the inputs."""
        shapes = {name: self.blobs[name].shape for name in self.net.inputs}
        key = tuple(sorted(shapes.items()))
        if key == self._key:
            return
        old_shapes = dict(self._key)
        host_tops = {top for layer in self.net.layers if layer.kind == "host" for top in layer.tops}
        if any(shapes[name] != old_shapes[name] for name in shapes if name not in host_tops):
            # what host layers give follows from the new shapes, until they have run
            shapes = {name: shape for name, shape in shapes.items() if name not in host_tops}
            self._adopt(self.translate(shapes))
            return
        if key in self._nets:
            self._nets.move_to_end(key)
            self._use(key)
        else:
            self._adopt(self.translate(shapes))

    def forget_plans(self) -> None:
        """Make plans anew at the next run."""
        for shaped in self._nets.values():
            shaped.ranges.clear()
            shaped.last_run.clear()

    def _adopt(self, net: CaffeNet) -> None:
        shapes = net.shapes
        key = tuple(sorted((name, shapes[value]) for name, value in net.inputs.items()))
        self._nets[key] = _ShapedNet(net, find_backward_flags(net), find_label_checks(net))
        if len(self._nets) > MAX_SHAPES:
            self._nets.popitem(last=False)
        self._use(key)

    def _use(self, key: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
        self._key, self._current = key, self._nets[key]
        net = self.net
        for name, value in net.blobs.items():
            spec = net.specs[value]
            if name in self.blobs:
                self.blobs[name].reshape(*spec.shape)
            else:
                self.blobs[name] = Blob(*spec.shape, dtype=self.backend.precision.float_dtype)
        for layer in net.layers:
            for top, weight in zip(layer.tops, layer.loss_weights, strict=False):
                if weight:
                    self.blobs[top].diff[...] = weight
        self._reset_states(net)

    def _reset_states(self, net: CaffeNet) -> None:
        """Start anew the states of recurrent layers whose number of streams has changed."""
        params = {name for param in net.params for name in param.weights}
        states = [w for w in net.weights.values() if w.name not in params and w.name in self.variables]
        changed = [w for w in states if self.variables[w.name].shape != w.spec.shape]
        for weight in changed:
            del self.variables[weight.name]
            self.variables.create(weight.name, initial_value(weight, self.seed), own=True)
        if changed:
            self.forget_plans()

    def forward(self, first: int, last: int) -> float:
        """Run the layers from ``first`` to ``last`` (inclusive). Returns the sum of the losses of these layers."""
        self.reshape()
        key = random_key(self.seed, self.step)
        self.step += 1
        for layers in self._runs(first, last):
            host = self.host_layers.get(layers.start)
            if host is not None:
                layer = self.net.layers[layers.start]
                host.forward([self.blobs[b] for b in layer.bottoms], [self.blobs[t] for t in layer.tops])
                self.reshape()
                continue
            plans = self._plans(layers)
            with self.naming_labels():
                values = plans.forward(self._read_data, key)
            for value, array in values.items():
                self.blobs[plans.visible[value]].store("data", array)
            self._current.last_run.update(dict.fromkeys(layers, plans))
        if self.backend.is_asynchronous:
            self._check_labels(range(first, last + 1))
        return self._loss(first, last)

    def _check_labels(self, layers: range) -> None:
        """Raise DataError for a label that is no class, by the layer that reads it."""
        for check in self._current.label_checks:
            if check.index in layers:
                check.check(self.blobs)

    def check_input_labels(self) -> None:
        """As what a plan refuses, for labels that are an input of the net, where plans refuse them later."""
        if self.backend.is_asynchronous:
            for check in self._current.label_checks:
                if check.blob in self.net.inputs:
                    check.check(self.blobs)

    @contextmanager
    def naming_labels(self) -> Iterator[None]:
        """Where a plan that runs inside refuses an index, and it is a label of a blob, DataError names its layer."""
        try:
            yield
        except IndexRangeError:
            self._check_labels(range(len(self.net.layers)))
            raise

    def _loss(self, first: int, last: int) -> float:
        total = 0.0
        for layer in self.net.layers[first : last + 1]:
            for top, weight in zip(layer.tops, layer.loss_weights, strict=False):
                if weight:
                    total += weight * float(self.blobs[top].read("data").sum())
        return total

    def backward(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Differentiate the layers from ``last`` back to ``first`` (inclusive), from the diffs of their tops. Returns
        the gradients of weights by name."""
        gradients: dict[str, np.ndarray] = {}
        for layers in reversed(list(self._runs(first, last))):
            host = self.host_layers.get(layers.start)
            if host is not None:
                self._host_backward(host, layers.start, gradients)
                continue
            plans, is_current = self._last_plans(layers)
            values, weights = plans.backward(layers, is_current, self._read_data, self._read_diff)
            blobs = {value: blob for i in layers for value, blob in self._bottoms(i)}
            newest = {blobs[value]: array for value, array in values.items()}
            for blob, array in newest.items():
                self.blobs[blob].store("diff", array)
            for name, array in weights.items():
                gradients[name] = array + gradients[name] if name in gradients else array
        return gradients

    def _bottoms(self, index: int) -> Iterator[tuple[str, str]]:
        layer = self.net.layers[index]
        return zip(layer.bottom_values, layer.bottoms, strict=True)

    def _host_backward(self, host: HostLayer, index: int, gradients: dict[str, np.ndarray]) -> None:
        layer = self.net.layers[index]
        if self.flags.layers[index]:
            tops, bottoms = ([self.blobs[b] for b in names] for names in (layer.tops, layer.bottoms))
            host.backward(tops, self.flags.bottoms[index], bottoms)

    def _runs(self, first: int, last: int) -> Iterator[range]:
        """The layers in pieces: each a host layer alone, or neighbouring native layers."""
        start = first
        for index in range(first, last + 1):
            if index in self.host_layers:
                if start < index:
                    yield range(start, index)
                yield range(index, index + 1)
                start = index + 1
        if start <= last:
            yield range(start, last + 1)

    def _plans(self, layers: range) -> PartialPlans:
        ranges = self._current.ranges
        if layers not in ranges:
            ranges[layers] = PartialPlans(self.net, layers, self.flags, self.backend, self.variables)
            if len(ranges) > MAX_RANGES:
                ranges.popitem(last=False)
        ranges.move_to_end(layers)
        return ranges[layers]

    def _last_plans(self, layers: range) -> tuple[PartialPlans, bool]:
        """The plans that have run all of these layers last, and True; where there are none, those of the range itself,
        and False: what it computed is not what the blobs hold."""
        last = self._current.last_run
        candidates = {id(plans): plans for i in layers if (plans := last.get(i)) is not None}
        if len(candidates) == 1 and all(i in last for i in layers):
            return next(iter(candidates.values())), True
        return self._plans(layers), False

    def _read_data(self, value: str) -> np.ndarray:
        return self.blobs[self.net.blob_of_value[value]].read("data")

    def _read_diff(self, value: str) -> np.ndarray:
        return self.blobs[self.net.blob_of_value[value]].read("diff")
