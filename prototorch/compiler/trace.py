"""The trace: the interpreter of ops on tensors that records them into a graph.

While it is active, what the package does on tensors is what it does eagerly (the tape, views, versions, in-place
changes), but an array is a `TracedArray`, and an op becomes a node. Tensors from outside are captured: their arrays
become states of the graph, and what is written to them becomes the states' new values.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from prototorch import ops
from prototorch.compiler.traced_array import TracedArray
from prototorch.eager.interpreter import EagerInterpreter, TensorInterpreter
from prototorch.eager.random_keys import RandomKeys
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.eager.view_info import ViewInfo
from prototorch.errors import UsageError
from prototorch.graph.ir import Graph, Value
from prototorch.ops.core import Op
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.view_update import ViewSteps, view_update
from prototorch.spec import Spec

#: the folder of the package's own code, with a separator at its end
PACKAGE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

__all__ = [
    "PACKAGE_FOLDER",
    "CapturedArray",
    "GuardedStep",
    "TraceInterpreter",
    "UnknownElementsError",
    "user_location",
]


@dataclass
class CapturedArray:
    """An array from outside: the tensor that brought it, its memory in the trace, and its name in the graph.

    It is a state, or an input that is fed at each call: where its elements are not contiguous, and for a scalar of the
    host beside tensors of a GPU.
    """

    tensor: Tensor
    array: Any
    cell: TracedArray
    name: str
    is_state: bool


@dataclass(frozen=True)
class GuardedStep:
    """What a traced function says of the steps of optimizers in it.

    loss: a scalar of the graph, not finite where the step must not count. tensors: from outside, which the step changes
    and which must stay finite. is_bounded: whether their new values are finite as long as all that they are computed
    from is moderate (see `engine/backends/watching.py`). refuse: called with the loss as LOSS and GUARD, and with the
    tensors that would not be finite as OVERFLOWED; it raises an error where the step must not count.
    """

    loss: Value
    tensors: Sequence[Tensor]
    is_bounded: bool
    refuse: Callable[[Mapping[str, Any]], None]


class UnknownElementsError(UsageError):
    """The elements of a tensor are needed while a function is traced."""


class TraceInterpreter(TensorInterpreter):
    """Records ops on tensors into ``graph``."""

    is_trace = True

    def __init__(self, host: EagerInterpreter):
        super().__init__()
        self.host, self.device = host, host.device
        self.graph = Graph()
        self.captured: dict[int, CapturedArray] = {}  # by the id of the array
        self.leaves: dict[int, Tensor] = {}  # captured tensors that require a gradient, by id
        self.numbers: dict[str, Callable[[], float]] = {}  # inputs that are read at each call
        self._number_names: dict[tuple[int, str], str] = {}
        self.tensors: list[weakref.ref[Tensor]] = []
        self.initial_grads: dict[int, Tensor | None] = {}  # of leaves from outside, by id
        self.large_arrays: Sequence[tuple[np.ndarray, str]] = ()  # from outside, whose elements no call compares
        self.num_keys = 0
        self.keys: dict[int, tuple[RandomKeys, list[str]]] = {}  # inputs that are drawn at each call
        self.guarded_step: GuardedStep | None = None  # where an optimizer's step must not count if it is not finite

    # ------------------------------------------------------------------ tensors and their memory

    def new_tensor(self, cell: TracedArray, storage: Storage | None = None) -> Tensor:
        """A tensor of memory of the trace."""
        tensor = make_tensor(cell, Spec(cell.shape, cell.dtype), self, storage or Storage())
        self.tensors.append(weakref.ref(tensor))
        return tensor

    def input(self, name: str, spec: Spec) -> Tensor:
        """A tensor that is given at each call."""
        return self.new_tensor(TracedArray(self.graph.input(name, spec), spec))

    def argument(self, number: int, tensor: Tensor) -> Tensor:
        """The tensor that stands for an argument."""
        argument_tensor = self.input(f"argument:{number}", tensor.spec)
        argument_tensor.leaf_requires_grad = tensor.requires_grad
        return argument_tensor

    def restore_grads(self) -> None:
        """Give the leaves from outside the gradients that they had before the trace."""
        for key, leaf in self.leaves.items():
            leaf.grad = self.initial_grads[key]

    def cell(self, tensor: Tensor) -> TracedArray:
        """The memory of a tensor; that of a tensor from outside is captured."""
        array = tensor.array
        if type(array) is TracedArray:
            if tensor.interpreter is not self:
                raise UsageError("a tensor that another compiled function has made while it was traced is used here")
            view = tensor.view_info
            if view is not None and view.graph_version != tensor.storage.graph_version:
                tensor.edge  # noqa: B018  it finds its place on the tape, and its memory, anew
                array = tensor.array
            return array
        captured = self.captured.get(id(array))
        return self._capture(tensor) if captured is None else captured.cell

    def _capture(self, tensor: Tensor) -> TracedArray:
        array = tensor.array
        if (
            tensor.interpreter is not self.host
            and tensor.interpreter is not self
            and (tensor.spec.shape or tensor.requires_grad)
        ):
            raise UsageError(
                f"a compiled function takes tensors of one device, and gets some on {self.host.device} and on "
                f"{tensor.device}"
            )
        view = tensor.view_info
        name = f"captured:{len(self.captured)}"
        is_here = tensor.interpreter is self.host
        is_state = view is None and is_here and bool(array.flags.c_contiguous)
        layout = (
            array
            if isinstance(array, np.ndarray)
            else as_strided(np.empty((), tensor.spec.dtype), tensor.spec.shape, array.strides)
        )
        if view is not None and is_here:
            cell = TracedArray(None, tensor.spec, layout, self.cell(view.base), view.steps)
        elif is_state:
            cell = TracedArray(self.graph.state(name, tensor.spec), tensor.spec, layout)
        else:
            cell = TracedArray(self.graph.input(name, tensor.spec), tensor.spec, layout)
        self.captured[id(array)] = CapturedArray(tensor, array, cell, name, is_state)
        return cell

    # ------------------------------------------------------------------ recording

    def apply(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Record the op; gives a tensor, or a tuple of them."""
        cells = [self.cell(t) for t in inputs]
        for t in inputs:
            if t.leaf_requires_grad and t.interpreter is not self and id(t) not in self.leaves:
                self.leaves[id(t)] = t
                self.initial_grads.setdefault(id(t), t.grad)
        if op in (ops.bounded_index, ops.bounded_values):
            with self.graph.scope(user_location()):
                result = self.graph.apply(op, [c.value for c in cells], attrs)
        else:
            result = self.graph.apply(op, [c.value for c in cells], attrs)
        several = isinstance(result, tuple)
        values: tuple[Value, ...] = result if isinstance(result, tuple) else (result,)
        attrs_key = tuple(sorted(attrs.items())) if attrs else ()
        layout = op.array_view(cells[0].layout, **attrs) if len(cells) == 1 else None
        if layout is not None:
            source = inputs[0]
            out = self.new_tensor(
                cells[0].view(values[0], values[0].spec, layout, (op.name, attrs_key)), source.storage
            )
            out.view_info = ViewInfo.extend(source, op.name, attrs_key)
            outputs: tuple[Tensor, ...] = (out,)
        else:
            outputs = tuple([self.new_tensor(TracedArray(v, v.spec)) for v in values])
        self.record(op, inputs, attrs, outputs, attrs_key)
        return outputs if several else outputs[0]

    def constant(self, array: Any) -> Tensor:
        """A tensor whose elements are known now."""
        for large, path in self.large_arrays:
            if isinstance(array, np.ndarray) and np.may_share_memory(array, large):
                raise UsageError(
                    f"the array {path} {list(large.shape)} of NumPy becomes a tensor in a compiled function, which "
                    "would keep its elements as they are now; make the tensor outside, from_numpy(array), of the same "
                    "memory, or pass it as an argument"
                )
        value_array = array if isinstance(array, LazyArray) else np.array(array, order="C")
        value = self.graph.constant(value_array)
        return self.new_tensor(TracedArray(value, value.spec))

    def wrap(self, array: Any, storage: Storage | None = None) -> Tensor:
        """As `constant`: an array that is made while the function is traced is the same one at each call."""
        return self.constant(array)

    def zeros(self, spec: Spec) -> Tensor:
        """A tensor of zeros."""
        return self.constant(LazyArray(spec.shape, spec.dtype, lambda: np.zeros(spec.shape, spec.dtype)))

    def copy(self, tensor: Tensor) -> Tensor:
        """See `TensorInterpreter.copy`."""
        return self.new_tensor(self.cell(tensor).copy())

    def write(self, target: Tensor, value: Tensor) -> None:
        """Overwrite the elements of a tensor."""
        new = self.cell(value).value
        if new.spec.shape != target.spec.shape:
            new = ops.broadcast_to(new, shape=target.spec.shape)
        self.cell(target).write(new)
        target.storage.mark_changed()

    def add_into(self, target: Tensor, value: Tensor) -> None:
        """Add a tensor of the same shape and type to another, without the tape."""
        cell = self.cell(target)
        cell.write(cell.value + self.cell(value).value)
        target.storage.mark_changed()

    def view_update(self, base: Tensor, value: Tensor, steps: ViewSteps) -> Tensor:
        """The tensor ``base`` after its view by ``steps`` has been overwritten with a value."""
        out = make_tensor(self.cell(base), base.spec, self, base.storage)
        self.record(view_update, (base, value), {"steps": steps}, (out,), (("steps", steps),))
        return out

    def lift(self, tensor: Tensor) -> Tensor:
        """Tensors from outside are captured when an op reads them."""
        return tensor

    # ------------------------------------------------------------------ what differs from call to call

    def number(self, owner: MutableMapping[str, Any], key: str) -> Tensor:
        """A tensor float32[] that takes the value of ``owner[key]`` at each call."""
        name = self._number_names.get((id(owner), key))
        if name is None:
            name = self._number_names[id(owner), key] = f"number:{len(self.numbers)}"
            self.numbers[name] = lambda: np.float32(owner[key])  # type: ignore[assignment,return-value]
            self.graph.input(name, Spec((), "float32"))
        return self.new_tensor(TracedArray(self.graph.inputs[name], Spec((), "float32")))

    def key(self, keys: RandomKeys) -> Tensor:
        """The key of a random op: the keys that a call draws are those that it would draw without being compiled."""
        names = self.keys.setdefault(id(keys), (keys, []))[1]
        name = f"key:{sum(len(n) for _, n in self.keys.values())}"
        names.append(name)
        return self.input(name, Spec((2,), "uint64"))

    # ------------------------------------------------------------------ what is not possible

    def to_numpy(self, array: Any) -> NoReturn:
        """Raise UsageError: the elements are not known."""
        where = user_location()
        raise UnknownElementsError(
            f"{f'{where}: ' if where else ''}the elements of a tensor are needed here, and they are not known while a "
            "function is compiled. An `if`, a loop, item(), numpy() or a print that depends on them cannot be part of "
            "a plan: choose between values by where(condition, a, b), return what is to be printed, or leave this part "
            "out of the compiled function"
        )


def user_location() -> str:
    """The innermost line of the stack that is no code of the package: ``file:line``; "" where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
