"""The plans of a range of native layers: one for its forward pass, one for each backward pass through some of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from prototorch.caffe.graph_partition import BackwardGraph, partition_backward
from prototorch.caffe.interop.backward_flags import BackwardFlags
from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.partial_graph import DIFF_PREFIX, RangeGradients, record_backward, record_forward
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executor import Executor
from prototorch.graph.ir import Value
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import RANDOM_KEY
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.train.memory_estimate import check_plan_fits

__all__ = ["PartialPlans"]

Arrays = dict[str, np.ndarray]
ReadValue = Callable[[str], np.ndarray]


class PartialPlans:
    """Runs layers ``layers`` of a net, and differentiates them.

    visible: for each value that a blob holds when the range has run, the blob. The values that the whole range's
    backward pass reads, beside these, are kept from the forward pass; a backward pass through other layers computes
    them again.
    """

    def __init__(self, net: CaffeNet, layers: range, flags: BackwardFlags, backend: Backend, variables: Variables):
        self.net, self.layers, self.flags, self.backend, self.variables = net, layers, flags, backend, variables
        self.forward_range = record_forward(net, layers, backend.precision.float_dtype)
        self.visible = self._visible_values()
        self._value_names: dict[Value, str] = {}
        for name in (*self.forward_range.inputs, *self.visible):
            self._value_names.setdefault(self.forward_range.trace.values[name], name)
        self._backward_executors: dict[tuple[range, bool], tuple[Executor | None, RangeGradients]] = {}
        self._key: Any = None
        self._saved_arrays: Arrays = {}

    def _visible_values(self) -> dict[str, str]:
        blobs = {}
        for index in self.layers:
            layer = self.net.layers[index]
            if layer.nodes:
                blobs.update(dict(zip(layer.tops, layer.top_values, strict=False)))
        return {value: blob for blob, value in blobs.items()}

    @cached_property
    def _full_backward(self) -> tuple[BackwardGraph, RangeGradients]:
        return self._make_backward(self.layers, True, False)

    def _make_backward(self, layers: range, saves: bool, use_saved: bool) -> tuple[BackwardGraph, RangeGradients]:
        gradients = record_backward(self.forward_range, layers, self.flags)
        results = {f"value:{n}": v for n, v in gradients.values.items()}
        results |= {f"weight:{n}": v for n, v in gradients.weights.items()}
        value_names = dict(self._value_names)
        if use_saved:
            value_names |= {value: name for name, value in self._full_backward[0].saved.items()}
        return partition_backward(results, value_names, saves, self.forward_range.trace.updates), gradients

    @cached_property
    def _forward_executor(self) -> Executor | None:
        trace = self.forward_range.trace
        saved = self._full_backward[0].saved if any(self.flags.layers[i] for i in self.layers) else {}
        outputs = {name: trace.values[name] for name in self.visible} | saved
        outputs = {name: value for name, value in outputs.items() if value.kind not in ("input", "state")}
        if not outputs and not trace.updates:
            return None
        plan = make_plan(trace.graph, outputs, trace.updates, self.backend)
        check_plan_fits(self.net.net, plan, self.backend, f"the forward pass of {self.net.net.name!r}")
        return make_executor(plan, self.backend, self.variables)

    def forward(self, read: ReadValue, key: np.ndarray) -> Arrays:
        """Run the layers. read: gives the values that they read; key: of the random numbers. Returns the visible
        values, in the memory of the plan, or as copies from a device."""
        executor, self._key = self._forward_executor, key
        saved = self._full_backward[0].saved if any(self.flags.layers[i] for i in self.layers) else {}
        states = {name: np.array(self.variables.borrow(v.name)) for name, v in saved.items() if v.kind == "state"}
        outputs = {} if executor is None else executor(self._inputs(executor, read))
        self._saved_arrays = {name: array for name, array in outputs.items() if name not in self.visible} | states
        values = self.forward_range.trace.values
        aliases = {n: read(values[n].name) for n in self.visible if values[n].kind == "input"}
        return {n: self.backend.to_numpy(outputs[n]) for n in self.visible if n in outputs} | aliases

    def backward(self, layers: range, use_saved: bool, read: ReadValue, read_diff: ReadValue) -> tuple[Arrays, Arrays]:
        """The gradients of the values that these layers read, in the order in which they are computed, and of weights.

        use_saved: whether what the last `forward` has kept is current. read, read_diff: give the values, and the
        gradients of the outputs, as they are now.
        """
        executor, gradients = self._backward_executor(layers, use_saved)
        if executor is None:
            return {}, {}
        if self._key is None:
            self._key = np.zeros(2, np.uint64)

        def read_any(name: str) -> np.ndarray:
            if name in self._saved_arrays:
                return self._saved_arrays[name]
            return read_diff(name.removeprefix(DIFF_PREFIX)) if name.startswith(DIFF_PREFIX) else read(name)

        outputs = executor(self._inputs(executor, read_any))
        to_numpy = self.backend.to_numpy
        values = {name: to_numpy(outputs[f"value:{name}"]) for name in gradients.values}
        return values, {name: to_numpy(outputs[f"weight:{name}"]) for name in gradients.weights}

    def _backward_executor(self, layers: range, use_saved: bool) -> tuple[Executor | None, RangeGradients]:
        key = layers, use_saved
        if key not in self._backward_executors:
            is_full = use_saved and layers == self.layers
            graph, gradients = self._full_backward if is_full else self._make_backward(layers, False, use_saved)
            executor = None
            if graph.outputs:
                plan = make_plan(graph.graph, graph.outputs, None, self.backend)
                check_plan_fits(self.net.net, plan, self.backend, f"the backward pass of {self.net.net.name!r}")
                executor = make_executor(plan, self.backend, self.variables)
            self._backward_executors[key] = executor, gradients
        return self._backward_executors[key]

    def _inputs(self, executor: Executor, read: ReadValue) -> Mapping[str, Any]:
        return {name: self._key if name == RANDOM_KEY else read(name) for name in executor.plan.inputs}
