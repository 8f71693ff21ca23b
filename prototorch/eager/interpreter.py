"""Interpreters of ops on tensors: what runs at once on a backend, and the recording on the tape that all share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import eager_backend
from prototorch.backends.devices import backend_for
from prototorch.backends.registry import KernelFn
from prototorch.eager.device import CPU, Device, as_device
from prototorch.eager.grad_mode import recording
from prototorch.eager.storage import Storage
from prototorch.eager.tape import Edge, SavedArray, TapeEntry
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.eager.tracing import active_trace
from prototorch.eager.view_info import ViewInfo
from prototorch.errors import UsageError
from prototorch.ops.core import Op, set_default_interpreter
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.saved_values import saved_positions
from prototorch.ops.shape import reshape
from prototorch.ops.view_update import ViewSteps, view_update
from prototorch.spec import Spec

__all__ = ["EagerInterpreter", "TensorInterpreter", "cpu_interpreter", "interpreter_for"]


class CollectedApplication:
    """An op as `Interpreter.collect` reports it."""

    __slots__ = ("attrs", "inputs", "op", "outputs")

    def __init__(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor]):
        self.op, self.inputs, self.attrs, self.outputs = op, inputs, attrs, outputs


class TensorInterpreter:
    """What interpreters of ops on tensors have in common: the tape."""

    device: Device = CPU
    is_trace = False  #: whether it records ops, so that elements are not known

    @property
    def has_memory(self) -> bool:
        """Whether the elements of tensors are known: not while a function is traced, those from outside included."""
        return active_trace.get() is None

    def __init__(self) -> None:
        self._collections: list[list[CollectedApplication]] = []

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor of another interpreter as one of this; raises UsageError where that is not possible."""
        raise UsageError(
            f"the tensors are on different devices, {self.device} and {tensor.device}: move one of them, by to(device)"
        )

    def record(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: tuple[Tensor, ...],
               attrs_key: tuple[tuple[str, Any], ...] | None = None) -> None:  # fmt: skip
        """Put an op on the tape, where a gradient may be needed, and in the collections.

        attrs_key: the attributes as pairs; None for an op that keeps itself what its derivative reads.
        """
        for collection in self._collections:
            collection.append(CollectedApplication(op, inputs, attrs, outputs))
        if not recording.get():
            return
        edges = tuple([t.edge for t in inputs])
        needs = tuple([e is not None for e in edges])
        if True not in needs:
            return
        in_specs, out_specs = tuple([t.spec for t in inputs]), tuple([t.spec for t in outputs])
        entry = TapeEntry(self, op, attrs, edges, in_specs, out_specs)
        if attrs_key is not None:
            positions = saved_positions(op, in_specs, out_specs, needs, attrs_key)
            entry.saved_inputs = {k: SavedArray(inputs[k]._array, inputs[k].storage) for k in positions.inputs}
            entry.saved_outputs = {k: SavedArray(outputs[k]._array, outputs[k].storage) for k in positions.outputs}
        for k, t in enumerate(outputs):
            if t.spec.is_float:
                t._edge = Edge(entry, k)

    def copy(self, tensor: Tensor) -> Tensor:
        """A tensor of its own memory with the same elements, without the tape."""
        raise NotImplementedError

    def clone(self, tensor: Tensor) -> Tensor:
        """As `copy`, with its place on the tape."""
        out, attrs = self.copy(tensor), {"shape": tensor.spec.shape}
        self.record(reshape, (tensor,), attrs, (out,), tuple(attrs.items()))
        return out

    def identity_edge(self, value: Tensor) -> Edge:
        """The place on the tape of what an op without effect makes of a tensor."""
        return self._edge_of(reshape, (value,), {"shape": value.spec.shape}, value)

    def _edge_of(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], like: Tensor) -> Any:
        """The place on the tape of an op's output, for an op that need not run because the elements are there."""
        out = make_tensor(like._array, like.spec, self, like.storage)
        self.record(op, inputs, attrs, (out,), tuple(sorted(attrs.items())))
        return out._edge

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[CollectedApplication]]:
        """The result of ``work()``, and the applications of its ops."""
        self._collections.append([])
        try:
            return work(), self._collections[-1]
        finally:
            self._collections.pop()


class EagerInterpreter(TensorInterpreter):
    """Runs ops at once on one backend."""

    def __init__(self, backend: Backend, device: Device = CPU):
        super().__init__()
        self.backend, self.device = backend, device
        self._prepared: dict[Any, tuple[tuple[Spec, ...], bool, KernelFn]] = {}
        #: native kernels read contiguous arrays alone
        self._makes_contiguous = backend.is_shape_specialized and not backend.has_device_memory

    def _prepare(self, op: Op, ins: tuple[Spec, ...],
                 attrs: dict[str, Any]) -> tuple[tuple[Spec, ...], bool, KernelFn]:  # fmt: skip
        outs = op.infer_spec(*ins, **attrs)
        several = isinstance(outs, tuple)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return outs, several, self.backend.prepare(op, ins, outs, attrs)

    def apply(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Run the op now; gives a tensor, or a tuple of them for an op with several outputs."""
        trace = active_trace.get()
        if trace is not None:
            return trace.apply(op, inputs, attrs)
        for k, t in enumerate(inputs):
            if t.interpreter is not self:
                other = t.interpreter
                if not isinstance(other, EagerInterpreter):
                    return other.apply(op, inputs, attrs)
                inputs = (*inputs[:k], self.lift(t), *inputs[k + 1 :])
        ins = tuple([t.spec for t in inputs])
        attrs_key = tuple(sorted(attrs.items())) if attrs else ()
        key = (op, ins, attrs_key)
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) > 16384:
                self._prepared.clear()
            prepared = self._prepared[key] = self._prepare(op, ins, attrs)
        outs, several, run = prepared
        arrays = tuple([t._array for t in inputs])
        view = op.array_view(*arrays, **attrs) if len(arrays) == 1 else None
        if view is not None:
            source = inputs[0]
            out = make_tensor(view, outs[0], self, source.storage)
            out._view = ViewInfo.extend(source, op.name, attrs_key)
            outputs: tuple[Tensor, ...] = (out,)
        else:
            if self._makes_contiguous:
                arrays = tuple([np.ascontiguousarray(a).reshape(a.shape) for a in arrays])
            results = tuple([self.backend.empty(s) for s in outs])
            with self.backend.run_context():
                run(arrays, results)
            outputs = tuple([make_tensor(a, s, self, Storage()) for a, s in zip(results, outs, strict=True)])
        self.record(op, inputs, attrs, outputs, attrs_key)
        return outputs if several else outputs[0]

    def lift(self, tensor: Tensor) -> Tensor:
        if tensor.spec.shape == () and isinstance(tensor.interpreter, EagerInterpreter):  # as in PyTorch
            return self.constant(tensor.interpreter.to_numpy(tensor._array))
        return super().lift(tensor)

    def constant(self, array: Any) -> Tensor:
        """A tensor without a gradient."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.constant(array))
        return self.wrap(self.backend.asarray(np.asarray(array) if isinstance(array, LazyArray) else array))

    def wrap(self, array: Any, storage: Storage | None = None) -> Tensor:
        """A tensor of an array of the backend itself, without a copy."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.wrap(array, storage))
        return make_tensor(array, Spec(tuple(array.shape), array.dtype.name), self, storage or Storage())

    def to_numpy(self, array: Any) -> np.ndarray:
        """An array of the backend as NumPy's, without a copy where it is in the host's memory."""
        trace = active_trace.get()
        if trace is not None:
            trace.to_numpy(array)
        found: np.ndarray = self.backend.to_numpy(array)
        return found

    def view_update(self, base: Tensor, value: Tensor, steps: ViewSteps) -> Tensor:
        """The tensor ``base`` after its view by ``steps`` has been overwritten with a value."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.view_update(base, value, steps))
        out = make_tensor(base._array, base.spec, self, base.storage)
        self.record(view_update, (base, value), {"steps": steps}, (out,), (("steps", steps),))
        return out

    def copy(self, tensor: Tensor) -> Tensor:
        """A tensor of its own memory with the same elements, without the tape."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.copy(tensor))
        return self.wrap(tensor._array.copy())

    def zeros(self, spec: Spec) -> Tensor:
        """A tensor of zeros."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.zeros(spec))
        return self.wrap(self.backend.xp.zeros(spec.shape, dtype=spec.dtype))

    def add_into(self, target: Tensor, value: Tensor) -> None:
        """Add a tensor of the same shape and type to another, without the tape."""
        trace = active_trace.get()
        if trace is not None:
            trace.add_into(target, value)
            return
        target._array += value._array
        target.storage.mark_changed()

    def write(self, target: Tensor, value: Tensor) -> None:
        """Overwrite the elements of a tensor with those of another, of a shape that broadcasts to its own."""
        trace = active_trace.get()
        if trace is not None:
            trace.write(target, value)
            return
        target._array[...] = value._array
        target.storage.mark_changed()


@cache
def cpu_interpreter() -> EagerInterpreter:
    """The interpreter of tensors on the CPU."""
    return EagerInterpreter(eager_backend())


@cache
def _gpu_interpreter(index: int) -> EagerInterpreter:
    device = Device("cuda", index)
    return EagerInterpreter(backend_for(str(device)), device)


def interpreter_for(device: Any = None) -> EagerInterpreter:
    """The interpreter of tensors on a device; None is the CPU. Raises BackendError for a GPU that cannot be used."""
    found = CPU if device is None else as_device(device)
    return cpu_interpreter() if found.type == "cpu" else _gpu_interpreter(found.index or 0)


set_default_interpreter(cpu_interpreter())
