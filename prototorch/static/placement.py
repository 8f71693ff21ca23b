"""Where a static graph runs: the one device that its parts name, and the move of its arrays there.

What names no device goes where the graph runs. A graph that has no place yet runs on the CPU, or on the GPU of the
first tensors that it is fed; from its first run on its arrays have their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from prototorch.eager.device import CPU, Device
from prototorch.eager.interpreter import EagerInterpreter, interpreter_for
from prototorch.eager.storage import Storage, VariableStorage
from prototorch.eager.tensor import Tensor
from prototorch.errors import BackendError, UsageError
from prototorch.graph.symbolic import LayerCall, SymbolicTensor
from prototorch.graph.symbolic_functions import Call
from prototorch.static.state import GraphState

__all__ = ["Placement", "mark_placed"]

_PLACED = "is placed on its device"  # in the attributes of a tensor


def mark_placed(tensor: Tensor) -> Tensor:
    """The tensor as one that stays where it is, unless `Placement.move` is called."""
    tensor.__dict__[_PLACED] = True
    return tensor


class Placement:
    """The device of one graph.

    inputs, calls: its parts, which may name a device. device: that of the whole graph, a name or None. constants: takes
    the copies of tensors among the arguments of functions, by the id of the tensor. Raises UsageError where two parts
    name two devices, BackendError for a device that cannot be used.
    """

    def __init__(
        self,
        inputs: Sequence[SymbolicTensor],
        calls: Iterable[Call],
        state: GraphState,
        device: str | None,
        constants: dict[int, Tensor],
    ):
        self._state, self._constants = state, constants
        layer_names = {id(layer): name for name, layer in state.layers.items()}
        parts = [("the graph", device)]
        parts += [(f"the input {input_title(s, k)}", s.input_device) for k, s in enumerate(inputs)]
        for call in calls:
            name = layer_names.get(id(call.layer)) if isinstance(call, LayerCall) else None
            parts.append((call.title if name is None else f"the layer {name!r}", call.device))
        device_parts = [(title, _resolve(name, title)) for title, name in parts if name is not None]
        _check_one_device(device_parts, "give them one device, or none and Graph(device=...)")
        #: the device that is declared for the graph, None where no part names one
        self.declared: Device | None = device_parts[0][1] if device_parts else None
        self._interpreter: EagerInterpreter | None = None  # of the last run
        self._constant_versions: dict[int, int] = {}  # of tensors, when they were copied

    @property
    def device(self) -> Device:
        """Where the graph runs when arrays of the host are fed."""
        return self.interpreter(()).device

    @property
    def is_settled(self) -> bool:
        """Whether the device does not depend on what is fed."""
        return self.declared is not None or any(map(_is_placed, self._state.tensors()))

    def interpreter(self, fed_tensors: Iterable[tuple[str, Tensor]]) -> EagerInterpreter:
        """The interpreter of the device that the graph, its arrays and fed tensors of a GPU name.

        Raises UsageError, with both devices and the names of what is there, where they are several.
        """
        device_parts = [] if self.declared is None else [("the graph", self.declared)]
        device_parts += [(title, t.device) for title, t in self._state.titled_tensors() if _is_placed(t)]
        device_parts += [(title, t.device) for title, t in fed_tensors if t.device.type != "cpu"]
        _check_one_device(device_parts, "graph.to(device) moves all that the graph keeps, x.to(device) what is fed")
        return interpreter_for(device_parts[0][1] if device_parts else CPU)

    def settle(self, fed_tensors: Sequence[tuple[str, Tensor]]) -> EagerInterpreter:
        """The interpreter of a run, to whose device what has had no place is moved."""
        interpreter = self._interpreter
        tensors = self._state.tensors()
        if (
            interpreter is None
            or not (tensors or self.declared)
            or any(t.interpreter is not interpreter for t in tensors)
            or any(t.interpreter is not interpreter and t.device.type != "cpu" for _, t in fed_tensors)
        ):
            interpreter = self._interpreter = self.interpreter(fed_tensors)
            self._move_state(interpreter)
        self._refresh_constants(interpreter)
        return interpreter

    def fix(self) -> None:
        """Give all arrays of the graph their place: where they are."""
        for tensor in self._state.tensors():
            mark_placed(tensor)

    def move(self, device: Any) -> EagerInterpreter:
        """Move all that the graph keeps to a device, which becomes that of the graph."""
        interpreter = interpreter_for(device)
        self._move_state(interpreter)
        self.declared, self._interpreter = interpreter.device, interpreter
        self.fix()
        return interpreter

    def _move_state(self, interpreter: EagerInterpreter) -> None:
        layer = self._state.layer_of_model()
        if layer is not None and interpreter.backend.has_device_memory:
            raise UsageError(
                f"the weights of the layer {layer!r} are those of a model, in the memory of the CPU: a graph with them "
                f"does not run on {interpreter.device}; use a layer of its own, or train the model by fit"
            )
        for tensor in self._state.tensors():
            if tensor.interpreter is not interpreter and not isinstance(tensor.storage, VariableStorage):
                tensor.rebind(_array_on(interpreter, tensor), Storage(), interpreter)

    def _refresh_constants(self, interpreter: EagerInterpreter) -> None:
        """Copy tensors of the CPU among the arguments of functions to the device, where they have changed."""
        for _, tensor in self._state.constants:
            copy, version = self._constants.get(id(tensor)), tensor.storage.version
            if tensor.interpreter is interpreter:
                self._constants.pop(id(tensor), None)
            elif copy is None or copy.interpreter is not interpreter:
                self._constants[id(tensor)] = interpreter.wrap(_array_on(interpreter, tensor))
            elif self._constant_versions[id(tensor)] != version:
                interpreter.write(copy, interpreter.constant(tensor.numpy()))
            self._constant_versions[id(tensor)] = version


def input_title(symbol: SymbolicTensor, number: int) -> str:
    """The name of an input in quotes, or its number."""
    node = symbol.input_node
    return repr((node.name if node is not None else "") or number)


def _array_on(interpreter: EagerInterpreter, tensor: Tensor) -> Any:
    """A copy of a tensor's elements in the memory of another device."""
    host_array = tensor.numpy()
    is_copy = tensor.interpreter.backend.has_device_memory or interpreter.backend.has_device_memory
    return interpreter.backend.asarray(host_array if is_copy else np.array(host_array))


def _is_placed(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu" or _PLACED in tensor.__dict__


def _resolve(name: str, title: str) -> Device:
    """The device of a name: "cuda" is the current GPU."""
    try:
        return interpreter_for(name).device
    except BackendError as error:
        raise BackendError(f"{title} is to be on {name}: {error}") from None


def _check_one_device(device_parts: Sequence[tuple[str, Device]], remedy: str) -> None:
    first_title, first = device_parts[0] if device_parts else ("", CPU)
    for title, device in device_parts:
        if device != first:
            raise UsageError(
                f"a graph runs on one device: {first_title} is on {first}, and {title} on {device}; {remedy}"
            )
