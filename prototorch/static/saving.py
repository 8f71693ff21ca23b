"""Writing a static graph to HDF5: its calls by name, variables, weights of layers and optimizers' slots."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np

from prototorch.eager.layer_call import layer_state
from prototorch.engine.storage import container
from prototorch.engine.storage.checkpoint import check_ending
from prototorch.errors import UsageError
from prototorch.graph.symbolic import LayerCall, SymbolicTensor
from prototorch.graph.symbolic_functions import (
    AssignCall,
    Call,
    GradientsCall,
    GroupCall,
    MinimizeCall,
    SymbolicCall,
    VariableCall,
)
from prototorch.graph.text_upgrade import TEXT_FORMAT
from prototorch.static.arguments import encode_argument
from prototorch.static.block_text import block_text
from prototorch.static.evaluation import step_counts

__all__ = ["FORMAT_VERSION", "KIND", "write_graph"]

FORMAT_VERSION, KIND = TEXT_FORMAT, "static graph"  # its layers are texts


class _GraphWriter:
    """The JSON of a graph and the arrays beside it."""

    def __init__(self, graph: Any):
        self.graph = graph
        self.arrays: dict[str, np.ndarray] = {}
        self.layers: dict[int, int] = {}  # a layer object -> its number

    def write(self) -> dict[str, Any]:
        """The whole graph."""
        graph = self.graph
        variables = [
            {"id": v.number, "name": v.name, "trainable": v.trainable, "array": self._array(f"variable/{k}", v.value)}
            for k, v in enumerate(graph.state.variables)
        ]
        for symbol in graph.inputs:
            if not symbol.fed_shape:
                raise UsageError("a graph with a placeholder without a shape, or of a scalar, cannot be saved")
        inputs = [
            {"id": s.number, "name": s.input_node.name, "shape": list(s.input_node.shape), "dtype": s.input_node.dtype}
            for s in graph.inputs
        ]
        return {
            "inputs": inputs, "variables": variables, "calls": [self._call(c) for c in graph.program.calls],
            "outputs": [self._symbol(s) for s in graph.outputs], "updates": [self._symbol(s) for s in graph.updates],
            "gives_list": graph.gives_list, "device": graph.declared_device,
        }  # fmt: skip

    def _symbol(self, symbol: SymbolicTensor) -> list[int]:
        return [symbol.number if symbol.call is None else symbol.call.number, symbol.index]

    def _array(self, path: str, array: np.ndarray) -> str:
        self.arrays[path] = np.asarray(array, order="C")
        return path

    def _argument(self, value: Any) -> Any:
        return encode_argument(value, self._symbol, lambda a: self._array(f"constant/{len(self.arrays)}", a))

    def _call(self, call: Call) -> dict[str, Any]:
        if isinstance(call, SymbolicCall):
            options = {name: self._argument(v) for name, v in call.options.items()}
            entry = {
                "kind": "function",
                "name": call.name,
                "args": list(map(self._argument, call.args)),
                "options": options,
            }
        elif isinstance(call, LayerCall):
            entry = {"kind": "layer", "inputs": list(map(self._symbol, call.inputs)), **self._layer(call.layer)}
        elif isinstance(call, GradientsCall):
            entry = {
                "kind": "gradients",
                "outputs": list(map(self._symbol, call.outputs)),
                "targets": list(map(self._symbol, call.targets)),
            }
        elif isinstance(call, VariableCall):
            entry = {"kind": "variable", "variable": call.variable.number}
        elif isinstance(call, AssignCall):
            entry = {"kind": "assign", "variable": call.variable.number, "value": self._symbol(call.inputs[0])}
        elif isinstance(call, GroupCall):
            entry = {"kind": "group", "members": list(map(self._symbol, call.inputs))}
        else:
            assert isinstance(call, MinimizeCall)
            entry = self._minimize(call)
        return {"id": call.number, **entry}

    def _layer(self, layer: Any) -> dict[str, Any]:
        number = self.layers.get(id(layer))
        if number is not None:
            return {"layer": number}
        number = self.layers[id(layer)] = len(self.layers)
        weights = {
            name: self._array(f"layer/{number}/{name}", np.array(w.numpy()))
            for name, w in layer_state(layer).weights.items()
        }
        return {"layer": number, "text": block_text(layer), "weights": weights}

    def _minimize(self, call: MinimizeCall) -> dict[str, Any]:
        slots = {
            name: {k: self._array(f"slot/{call.number}/{i}/{k}", np.array(t.numpy())) for k, t in own.items()}
            for i, (name, own) in enumerate(call.slots.items())
        }
        variables = None if call.variables is None else [v.number for v in call.variables]
        return {"kind": "minimize", "optimizer": block_text(call.optimizer), "loss": self._symbol(call.inputs[0]),
                "variables": variables, "steps": step_counts.get(call, 0), "slots": slots}  # fmt: skip


def write_graph(graph: Any, path: str | PathLike[str]) -> None:
    """Write a graph atomically. Raises UsageError for what a file cannot hold, and SnapshotError where the file cannot
    be written."""
    check_ending(path)
    writer = _GraphWriter(graph)
    text = json.dumps(writer.write(), allow_nan=False)
    container.write(path, writer.arrays, {"format": FORMAT_VERSION, "kind": KIND, "graph": text})
