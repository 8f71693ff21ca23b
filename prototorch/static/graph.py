"""Static graphs: symbols in, symbols out, run many times with arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, NoReturn

import numpy as np

from prototorch.compiler.compiled_function import CompiledFunction
from prototorch.eager.device import Device
from prototorch.eager.fed_values import fed_array
from prototorch.eager.functions.conversion import from_numpy
from prototorch.eager.interpreter import EagerInterpreter
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.device_name import name_of_device
from prototorch.engine.backends.device_scope import default_device, without_default_device
from prototorch.errors import (
    BackendError,
    ModelFileError,
    PrototorchError,
    ShapeError,
    UsageError,
    explain_word,
)
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.graph.symbolic_functions import AssignCall, GroupCall, MinimizeCall
from prototorch.spec import Spec
from prototorch.static.evaluation import Evaluation, StaticProgram, make_run, next_step, step_counts
from prototorch.static.loading import read_graph
from prototorch.static.placement import Placement, input_title
from prototorch.static.saving import write_graph
from prototorch.static.state import GraphState, GraphVariables
from prototorch.static.step_refusal import RefusedStepError

__all__ = ["StaticGraph"]


class StaticGraph:
    """A computation between symbols, run by calling it with arrays (TensorFlow 1's Session.run, Theano's function).

    inputs: the `Input` symbols that a call feeds, in order. outputs: a symbol, or a list, whose values a call gives as
    NumPy arrays; assignments may be among them, and give the new value. updates: assignments, groups of them, and steps
    of optimizers (`Optimizer.minimize`) that every call carries out. A variable is read as it was before the call.
    device: where it runs, and its variables, weights of layers and optimizers' state live: "cuda:0"; default the one
    that its inputs, variables and calls name (``device=``, ``with pt.device(...)``), else that of the first tensors of
    a GPU that it is fed, else the CPU.

    Raises UsageError where a symbol depends on an input that is not listed, and where two parts name two devices;
    BackendError for a device that cannot be used.
    """

    def __init__(self, inputs: Any, outputs: Any = (), updates: Sequence[Any] = (), *, device: Any = None):
        self.inputs: list[Any] = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        self.gives_list = isinstance(outputs, list | tuple)
        self.outputs: list[Any] = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        self.updates: list[Any] = list(updates) if isinstance(updates, list | tuple) else [updates]
        for what, symbols in (("inputs", self.inputs), ("outputs", self.outputs), ("updates", self.updates)):
            for symbol in symbols:
                if not isinstance(symbol, SymbolicTensor):
                    raise UsageError(f"Graph: its {what} must be symbolic tensors, got {type(symbol).__name__}")
        for symbol in self.inputs:
            if symbol.input_node is None:
                raise UsageError(f"Graph: its inputs must be pt.Input symbols, got {symbol!r:.60}")
        for symbol in self.updates:
            if not isinstance(symbol.call, AssignCall | GroupCall | MinimizeCall):
                raise UsageError(f"Graph: updates are assignments, groups and steps of optimizers, got {symbol!r:.60}")
        self.program = StaticProgram([*self.outputs, *self.updates])
        self.state = GraphState(self.program.calls)
        name = default_device() if device is None else name_of_device(device)
        self._placement = Placement(self.inputs, self.program.calls, self.state, name, self.program.constants)
        self._function = make_run(self.program, self.inputs, self.outputs)
        self._runs: dict[EagerInterpreter, CompiledFunction] = {}
        self._is_built = False
        input_numbers = {s.number for s in self.inputs}
        read = [s for c in self.program.calls for s in c.inputs] + self.outputs
        for symbol in read:
            if symbol.call is None and symbol.number not in input_numbers:
                raise UsageError(f"Graph: a symbol depends on {symbol!r}, which is not among the inputs")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph, its variables, the weights of its layers and the state of its optimizers to one HDF5 file,
        from which `load` makes it again without the code that made it.

        Raises UsageError for layers and arguments that a file cannot hold, SnapshotError where it cannot be written.
        """
        write_graph(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], device: Any = None) -> StaticGraph:
        """The graph of a file that `save` has written.

        device: where it runs; default that on which it was saved. Raises ModelFileError for a damaged file, or another
        kind, BackendError where the device cannot be used.
        """
        saved = read_graph(path)
        try:
            with without_default_device():
                graph = cls(saved.inputs, saved.outputs if saved.gives_list else saved.outputs[0], saved.updates)
        except (UsageError, IndexError) as error:
            raise ModelFileError(f"{path}: its graph cannot be read: {error!s:.200}") from error
        place = saved.device if device is None else name_of_device(device)
        if place is not None:
            try:
                graph.to(place)
            except BackendError as error:
                hint = "" if device is not None else "; Graph.load(path, device='cpu') opens it here"
                raise BackendError(f"{path} is to run on {place}: {error}{hint}") from None
        return graph

    @property
    def device(self) -> Device:
        """Where it runs, and its arrays live."""
        return self._placement.device

    @property
    def declared_device(self) -> str | None:
        """The name of the device on which it runs whatever it is fed; None where it has no place yet."""
        return str(self.device) if self._placement.is_settled else None

    def to(self, device: Any) -> StaticGraph:
        """Move its variables, weights of layers and the state of its optimizers to a device, on which it runs from now
        on; gives the graph itself.

        Raises BackendError for a device that cannot be used, UsageError for weights that belong to a model.
        """
        self._placement.move(name_of_device(device))
        return self

    @property
    def variables(self) -> GraphVariables:
        """The variables that it reads or changes, and the weights of its layers, in order and by name:
        ``graph.variables["dense_1/kernel"].value`` is a copy, and setting it writes the array, where it lives.

        The weights of a layer are there where the sizes of the inputs are known, else from the first call on.
        """
        self._build_known()
        return self.state.all_variables()

    def _build_known(self) -> None:
        """Create the weights of layers, where the shapes of the inputs say of what sizes."""
        shapes = [symbol.input_node.shape for symbol in self.inputs]
        if self._is_built or not self.state.layers or any(n is None for shape in shapes for n in shape):
            return
        specs = [Spec((1, *s.input_node.shape), s.input_node.dtype) for s in self.inputs]
        # where a graph is for batches of another size, its first call creates them
        with suppress(PrototorchError):
            Evaluation.build(self.program, self.inputs, specs, self._placement.interpreter(()))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a graph has no {name!r}{explain_word(name)}")

    def __call__(self, *arrays: Any, as_tensors: bool | None = None, **options: Any) -> Any:
        """The values of the outputs for these arrays: one array, or a list where a list of outputs was given.

        Arrays and tensors of the CPU are copied to the graph's device once; tensors of a GPU are read where they are.
        as_tensors: whether the values are tensors on the graph's device, and not NumPy arrays; default: where a fed
        value is a tensor on a GPU.

        Raises UsageError for another number of arrays, for elements that the input's dtype cannot hold, and for a
        tensor on another GPU than the graph; ShapeError for an array that does not fit its input, and ResourceError,
        before anything is computed, where the graph needs more memory than there is; TrainingError where the loss of an
        optimizer's step is not finite, or the step would make a trained array or its state so: all arrays are then as
        they were before the call.
        """
        for name in [*options, *("feed_dict" for a in arrays if isinstance(a, dict))]:
            raise UsageError(f"a graph's call takes no {name!r}{explain_word(name)}")
        if len(arrays) != len(self.inputs):
            raise UsageError(f"the graph has {len(self.inputs)} inputs, got {len(arrays)} arrays")
        fed_tensors = [
            (f"the value fed to the input {input_title(self.inputs[k], k)}", a)
            for k, a in enumerate(arrays)
            if isinstance(a, Tensor)
        ]
        interpreter = self._placement.settle(fed_tensors)
        states = {id(t.storage) for t in self.state.tensors()}
        feeds = [self._feed(symbol, array, states) for symbol, array in zip(self.inputs, arrays, strict=True)]
        rules = tuple(zip(*map(next_step, self.program.minimizers), strict=True)) or ((), ())
        if not self._is_built:
            Evaluation.build(self.program, self.inputs, [f.spec for f in feeds], interpreter)
            self._is_built = True
            self._placement.fix()
        if interpreter not in self._runs:
            if states:  # plans on another device keep the arrays that were there
                self._runs.clear()
            self._runs[interpreter] = CompiledFunction(self._function, interpreter)
        run = self._runs[interpreter]
        try:
            values = run(feeds, *rules)
        except RefusedStepError as error:
            raise error.describe(self.state.names()) from None
        for call in self.program.minimizers:
            step_counts[call] = step_counts.get(call, 0) + 1
        if as_tensors is None:
            as_tensors = any(t.device.type != "cpu" for _, t in fed_tensors)
        shared = states | {id(f.storage) for f in feeds}
        results = [_result(v, interpreter, shared, as_tensors) for v in values]
        return results if self.gives_list else results[0]

    def _feed(self, symbol: SymbolicTensor, array: Any, states: Collection[int]) -> Tensor:
        """A fed value as a tensor of the input's shape and element type, where it is. states: the ids of the storages
        that runs change."""
        node = symbol.input_node
        assert node is not None
        receiver = f"the input {input_title(symbol, self.inputs.index(symbol))}"
        if isinstance(array, Tensor) and array.dtype == node.dtype:
            is_own = id(array.storage) in states or not array.array.flags.c_contiguous
            value = array.detach().clone() if is_own else array.detach()
        else:
            value = from_numpy(fed_array(array, node.dtype, receiver))
        sizes = symbol.fed_shape
        fits = sizes is None or (
            len(value.shape) == len(sizes) and all(n is None or n == m for n, m in zip(sizes, value.shape, strict=True))
        )
        if not fits or value.dtype != node.dtype:
            want = "..." if sizes is None else ", ".join("any" if n is None else str(n) for n in sizes)
            raise ShapeError(f"{receiver} takes {node.dtype}[{want}], got {value.spec}")
        return value


def _result(value: Any, host: EagerInterpreter, shared: Collection[int], as_tensors: bool) -> Any:
    """The value of an output for the caller, in memory of its own. shared: the ids of storages that the graph changes,
    or that the caller has fed."""
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise UsageError(f"an output of the graph is a {type(value).__name__} of tensors: take one of them, as x[0]")
    if not as_tensors:
        return np.array(value.numpy())
    if value.interpreter is not host:  # a fed array of the host that is an output itself
        return host.constant(value.numpy())
    return value.clone() if id(value.storage) in shared else value
