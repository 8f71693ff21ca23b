"""Static graphs: symbols in, symbols out, run many times with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from prototorch.compiler.compiled_function import compile
from prototorch.eager.fed_values import fed_array
from prototorch.eager.functions.conversion import from_numpy
from prototorch.eager.layer_call import layer_state
from prototorch.eager.tensor import Tensor
from prototorch.errors import ModelFileError, ShapeError, TrainingError, UsageError
from prototorch.graph.symbolic import LayerCall, SymbolicTensor
from prototorch.graph.symbolic_functions import AssignCall, GroupCall, MinimizeCall, VariableCall
from prototorch.static.evaluation import Evaluation, StaticProgram, make_run, next_step, step_counts, trained_tensors
from prototorch.static.loading import read_graph
from prototorch.static.saving import write_graph
from prototorch.static.variable import GraphVariable

__all__ = ["StaticGraph"]


class StaticGraph:
    """A computation between symbols, run by calling it with arrays (TensorFlow 1's Session.run, Theano's function).

    inputs: the `Input` symbols that a call feeds, in order. outputs: a symbol, or a list, whose values a call gives as
    NumPy arrays; assignments may be among them, and give the new value. updates: assignments, groups of them, and steps
    of optimizers (`Optimizer.minimize`) that every call carries out. A variable is read as it was before the call.

    Raises UsageError where a symbol depends on an input that is not listed.
    """

    def __init__(self, inputs: Any, outputs: Any = (), updates: Sequence[Any] = ()):
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
        losses = [call.inputs[0] for call in self.program.minimizers]
        self._run = compile(make_run(self.program, self.inputs, [*self.outputs, *losses]))
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
    def load(cls, path: str | PathLike[str]) -> StaticGraph:
        """The graph of a file that `save` has written. Raises ModelFileError for a damaged file, or another kind."""
        saved = read_graph(path)
        try:
            return cls(saved.inputs, saved.outputs if saved.gives_list else saved.outputs[0], saved.updates)
        except (UsageError, IndexError) as error:
            raise ModelFileError(f"{path}: its graph cannot be read: {error!s:.200}") from error

    @property
    def variables(self) -> list[GraphVariable]:
        """The variables that it reads or changes."""
        calls = self.program.calls
        own = [c.variable for c in calls if isinstance(c, VariableCall | AssignCall)]
        listed_variables = [v for c in self.program.minimizers for v in c.variables or ()]
        return list({v.number: v for v in [*own, *listed_variables]}.values())

    def __call__(self, *arrays: Any) -> Any:
        """The values of the outputs for these arrays: one array, or a list where a list of outputs was given.

        Raises UsageError for another number of arrays and for elements that the input's dtype cannot hold, ShapeError
        for an array that does not fit its input, and ResourceError, before anything is computed, where the graph needs
        more memory than there is; TrainingError where the loss of an optimizer's step is not finite, or the step would
        make a trained array or its state so: all arrays are then as they were before the call.
        """
        if len(arrays) != len(self.inputs):
            raise UsageError(f"the graph has {len(self.inputs)} inputs, got {len(arrays)} arrays")
        feeds = [self._feed(symbol, array) for symbol, array in zip(self.inputs, arrays, strict=True)]
        rules = tuple(zip(*map(next_step, self.program.minimizers), strict=True)) or ((), ())
        if not self._is_built:
            Evaluation.build(self.program, self.inputs, feeds)
            self._is_built = True
        values = self._run_guarded(feeds, rules) if self.program.minimizers else self._run(feeds, *rules)
        for call in self.program.minimizers:
            step_counts[call] = step_counts.get(call, 0) + 1
        results = [None if v is None else np.array(v.numpy()) for v in values[: len(self.outputs)]]
        return results if self.gives_list else results[0]

    def _run_guarded(self, feeds: list[Tensor], rules: Any) -> list[Any]:
        """A run with steps of optimizers, which is undone where a loss, or what they train, would not be finite."""
        guarded: dict[str, Tensor] = {}
        for call in self.program.minimizers:
            guarded.update(trained_tensors(call))
            guarded.update({f"{slot} of {name}": t for name, slots in call.slots.items() for slot, t in slots.items()})
        layers = [c.layer for c in self.program.calls if isinstance(c, LayerCall)]
        tensors = [*guarded.values(), *(v.tensor for v in self.variables)]
        tensors += [t for layer in layers for t in layer_state(layer).weights.values()]
        before = {id(t): (t, np.array(t.array)) for t in tensors}
        values: list[Any] = self._run(feeds, *rules)
        bad = [name for name, t in guarded.items() if t.spec.is_float and not np.isfinite(t.array).all()]
        reasons = [
            f"the loss is {float(v.numpy()):g}" for v in values[len(self.outputs) :] if not np.isfinite(v.numpy())
        ]
        if bad and all(np.isfinite(before[id(guarded[name])][1]).all() for name in bad):
            reasons.append(f"the step would make {', '.join(map(repr, bad[:4]))} not finite")
        if reasons:
            for t, array in before.values():
                t.array[...] = array
                t.storage.mark_changed()
            raise TrainingError(
                f"{' and '.join(reasons)}, which is no finite number; nothing has been changed by the step. Try a "
                "smaller learning rate or clipnorm, or look for odd values in the data"
            )
        return values

    def _feed(self, symbol: SymbolicTensor, array: Any) -> Tensor:
        node = symbol.input_node
        assert node is not None
        receiver = f"the input {node.name or self.inputs.index(symbol)!r}"
        if isinstance(array, Tensor) and array.dtype == node.dtype:
            value = array.detach().clone()
        else:
            value = from_numpy(fed_array(array, node.dtype, receiver))
        shape = tuple(value.shape)[1:]
        fits = len(value.shape) == len(node.shape) + 1 and all(
            n is None or n == m for n, m in zip(node.shape, shape, strict=True)
        )
        if not fits or value.dtype != node.dtype:
            want = ", ".join("any" if n is None else str(n) for n in (None, *node.shape))
            raise ShapeError(f"{receiver} takes {node.dtype}[{want}], got {value.spec}")
        return value
