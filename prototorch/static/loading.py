"""Reading a static graph from HDF5.

Nothing in the file is executed: functions, layers and optimizers are found by their names, and numbers are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from prototorch.eager.functions.creation import tensor
from prototorch.eager.layer_call import layer_state, weight_tensor
from prototorch.eager.registry import check_arguments
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.device_name import name_of_device
from prototorch.engine.backends.device_scope import without_default_device
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError, PrototorchError
from prototorch.graph.symbolic import LayerCall, SymbolicTensor
from prototorch.graph.symbolic_functions import (
    SYMBOLIC_FUNCTIONS,
    Call,
    GradientsCall,
    GroupCall,
    MinimizeCall,
    SymbolicCall,
)
from prototorch.graph.text_upgrade import current_text
from prototorch.layers.base import Layer
from prototorch.optimizers import Optimizer
from prototorch.static.arguments import decode_argument
from prototorch.static.block_text import block_of_text
from prototorch.static.evaluation import step_counts
from prototorch.static.saving import FORMAT_VERSION, KIND
from prototorch.static.symbols import Input
from prototorch.static.variable import GraphVariable

__all__ = ["SavedGraph", "read_graph"]

MAX_CALLS = 100_000


class SavedGraph:
    """What a file says of a graph: its inputs, outputs and updates as symbols."""

    def __init__(self, content: Any, arrays: dict[str, np.ndarray], version: int):
        self.arrays, self.version = arrays, version
        self.symbols: dict[tuple[int, int], SymbolicTensor] = {}
        self.counts: dict[int, int | None] = {}  # of a call, how many outputs it has
        self.calls: dict[int, Call] = {}
        self.layers: dict[int, Layer] = {}
        self.variables: dict[int, GraphVariable] = {}
        self.inputs = [self._input(one) for one in _list(content, "inputs")]
        for one in _list(content, "variables"):
            variable = GraphVariable(
                self._array(one["array"]), name=_text(one, "name"), trainable=_flag(one, "trainable")
            )
            self.variables[_number(one, "id")] = variable
        for one in _list(content, "calls"):
            self._add(one)
        self.outputs = [self._symbol(one) for one in _list(content, "outputs")]
        self.updates = [self._symbol(one) for one in _list(content, "updates")]
        self.gives_list = _flag(content, "gives_list")
        if not self.gives_list and len(self.outputs) != 1:
            raise ValueError(f"it gives one value and has {len(self.outputs)} outputs")
        #: the device on which it ran, a name; None: it had not been placed
        self.device = name_of_device(_text(content, "device")) if content.get("device") is not None else None

    def _input(self, one: Any) -> SymbolicTensor:
        symbol = Input(tuple(_list(one, "shape")), name=_text(one, "name") or None, dtype=_text(one, "dtype"))
        self.symbols[_number(one, "id"), 0] = symbol
        return symbol

    def _symbol(self, reference: Any) -> SymbolicTensor:
        if not isinstance(reference, list) or len(reference) != 2 or not all(type(n) is int for n in reference):
            raise ValueError(f"a reference is {reference!r:.60}")
        number, index = reference
        if (number, index) not in self.symbols:
            call = self.calls[number]
            count = self.counts[number]
            if not 0 <= index < (1 if count is None else count):
                raise ValueError(f"call {number} has no output {index}")
            self.symbols[number, index] = SymbolicTensor(call, index)
        return self.symbols[number, index]

    def _array(self, path: Any) -> np.ndarray:
        if not isinstance(path, str) or path not in self.arrays:
            raise ValueError(f"there is no array {path!r:.60}")
        return self.arrays[path]

    def _constant(self, path: Any) -> Tensor:
        return tensor(self._array(path), device="cpu")

    def _add(self, one: Any) -> None:
        number, kind = _number(one, "id"), _text(one, "kind")
        if len(self.calls) >= MAX_CALLS or number in self.calls:
            raise ValueError(f"call {number} is there twice, or one of more than {MAX_CALLS}")
        result, count = _KINDS[kind](self, one)
        if isinstance(result, SymbolicTensor):
            self.symbols[number, 0] = result
            result = result.call
        assert result is not None
        self.calls[number], self.counts[number] = result, count

    def function_call(self, one: Any) -> tuple[Any, int | None]:
        """A function of the package, by name."""
        name = _text(one, "name")
        if name not in SYMBOLIC_FUNCTIONS:
            raise ValueError(f"there is no function {name!r}")
        args = [decode_argument(x, self._symbol, self._constant) for x in _list(one, "args")]
        options = {k: decode_argument(x, self._symbol, self._constant) for k, x in one["options"].items()}
        check_arguments(SYMBOLIC_FUNCTIONS[name], args, options)
        call = SymbolicCall(name, args, options)
        if not call.inputs:
            raise ValueError(f"the function {name!r} is given no value of the graph")
        return call, None

    def layer_call(self, one: Any) -> tuple[Any, int]:
        """A layer, by its text or as one that is there already."""
        number = _number(one, "layer")
        if number not in self.layers:
            layer = block_of_text(Layer, current_text(_text(one, "text"), self.version))
            for name, path in one["weights"].items():
                layer_state(layer).preset_weights[name] = self._array(path)
            self.layers[number] = layer
        layer = self.layers[number]
        return LayerCall(layer, tuple(map(self._symbol, _list(one, "inputs")))), layer.output_count()

    def gradients_call(self, one: Any) -> tuple[Any, int]:
        """A node of ``gradients(outputs, targets)``, with the number of its targets."""
        targets = [self._symbol(s) for s in _list(one, "targets")]
        return GradientsCall([self._symbol(s) for s in _list(one, "outputs")], targets), len(targets)

    def variable_call(self, one: Any) -> tuple[Any, int]:
        """A variable, by its number in the file."""
        return self.variables[_number(one, "variable")], 1

    def assign_call(self, one: Any) -> tuple[Any, int]:
        """A node that assigns a symbol's value to a variable."""
        return self.variables[_number(one, "variable")].assign(self._symbol(one["value"])), 1

    def group_call(self, one: Any) -> tuple[Any, int]:
        """A group of assignments."""
        return GroupCall([self._symbol(s) for s in _list(one, "members")]), 1

    def minimize_call(self, one: Any) -> tuple[Any, int]:
        """A step of an optimizer, with its state."""
        numbers = one["variables"]
        variables = None if numbers is None else [self.variables[n] for n in _list(one, "variables")]
        call = MinimizeCall(block_of_text(Optimizer, _text(one, "optimizer")), self._symbol(one["loss"]), variables)
        call.slots = {
            name: {k: weight_tensor(np.array(self._array(path)), False) for k, path in own.items()}
            for name, own in one["slots"].items()
        }
        step_counts[call] = _number(one, "steps")
        return call, 1


_KINDS: dict[str, Callable[[SavedGraph, Any], tuple[Any, int | None]]] = {
    "function": SavedGraph.function_call, "layer": SavedGraph.layer_call, "gradients": SavedGraph.gradients_call,
    "variable": SavedGraph.variable_call, "assign": SavedGraph.assign_call, "group": SavedGraph.group_call,
    "minimize": SavedGraph.minimize_call,
}  # fmt: skip


def _list(one: Any, key: str) -> list[Any]:
    value = one[key]
    if not isinstance(value, list):
        raise ValueError(f"{key} is {value!r:.60}")
    return value


def _number(one: Any, key: str) -> int:
    value = one[key]
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{key} is {value!r:.60}")
    return value


def _text(one: Any, key: str) -> str:
    value = one[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is {value!r:.60}")
    return value


def _flag(one: Any, key: str) -> bool:
    value = one[key]
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {value!r:.60}")
    return value


def read_graph(path: str | PathLike[str]) -> SavedGraph:
    """Read a file written by `write_graph`. Raises ModelFileError for a damaged file, or one of another kind."""
    contents = container.read(path)
    if contents.meta.get("kind") != KIND:
        kind = contents.meta.get("kind")
        raise ModelFileError(f"{path}: expected a static graph (pt.Graph.save), got a file of the kind {kind!r:.40}")
    version = contents.meta.get("format")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(f"{path}: static graph of format {version!r:.20}; this prototorch reads {FORMAT_VERSION}")
    try:
        with without_default_device():
            return SavedGraph(json.loads(str(contents.meta["graph"])), contents.arrays, version)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PrototorchError) as error:
        raise ModelFileError(f"{path}: its graph cannot be read: {error!s:.200}") from error
