"""Interpreters of ops on tensors: what runs at once on a backend, and the recording on the tape that all share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from prototorch.eager.compute_modes import MODES
from prototorch.eager.device import CPU, Device, as_device, current_gpu
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import recording
from prototorch.eager.kernel_context import ALREADY_ENTERED, kernel_context
from prototorch.eager.observers import Observers, caller_traceback, observers, use_observers
from prototorch.eager.saved_array import SavedArray, pack_arrays
from prototorch.eager.signature import Signature
from prototorch.eager.storage import Storage
from prototorch.eager.tape import entry_class
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.eager.tracing import active_trace
from prototorch.eager.view_info import ViewInfo
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import eager_backend
from prototorch.engine.backends.cpu.worker_pool import NumpyRunContext
from prototorch.engine.backends.device_scope import default_device
from prototorch.engine.backends.devices import backend_for
from prototorch.errors import UsageError
from prototorch.ops.core import Op, set_default_interpreter
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.shape import reshape
from prototorch.ops.view_update import ViewSteps, view_update
from prototorch.spec import FLOAT_DTYPES, Spec

__all__ = ["EagerInterpreter", "TensorInterpreter", "cpu_interpreter", "interpreter_for"]

_MAX_SIGNATURES = 16384  # of one interpreter; more than any program has, unless its shapes differ at each call


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
        self._signatures: dict[Any, Signature] = {}
        self._specs: dict[Spec, Spec] = {}  #: one object for equal specs, so that they are found by their ids

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor of another interpreter as one of this; raises UsageError where that is not possible."""
        raise UsageError(
            f"the tensors are on different devices, {self.device} and {tensor.device}: move one of them, by to(device)"
        )

    def scalar(self, array: np.ndarray) -> Tensor:
        """A scalar that ops read and nothing changes."""
        return cast(Tensor, self.constant(array))  # type: ignore[attr-defined]

    def ones(self, spec: Spec) -> Tensor:
        """A tensor of ones."""
        return cast(Tensor, self.constant(np.ones(spec.shape, spec.dtype)))  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ signatures

    def intern_spec(self, spec: Spec) -> Spec:
        """The interpreter's own object for a spec."""
        return self._specs.setdefault(spec, spec)

    def find_signature(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor] | None = None
    ) -> Signature:
        """The signature of an op on tensors, made at the first call. outputs: where they are known."""
        if len(self._signatures) > _MAX_SIGNATURES:
            self._signatures.clear()
            self._specs.clear()
        for t in inputs:
            t.spec = self.intern_spec(t.spec)
        attrs_key = tuple(sorted(attrs.items())) if attrs else ()
        key = (op, attrs_key, *[id(t.spec) for t in inputs])
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._make_signature(op, tuple([t.spec for t in inputs]), attrs, attrs_key, outputs)
            self._signatures[key] = signature
        if attrs:
            self._signatures[(op, tuple(attrs.items()), *[id(t.spec) for t in inputs])] = signature
        return signature

    def _make_signature(
        self,
        op: Op,
        ins: tuple[Spec, ...],
        attrs: dict[str, Any],
        attrs_key: tuple[tuple[str, Any], ...],
        outputs: Sequence[Tensor] | None,
    ) -> Signature:
        assert outputs is not None
        outs = tuple([self.intern_spec(t.spec) for t in outputs])
        return Signature(self, op, attrs, attrs_key, ins, outs, node_class=entry_class(op.name))

    # ------------------------------------------------------------------ the tape

    def record(
        self,
        op: Op,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        outputs: tuple[Tensor, ...],
        attrs_key: tuple[tuple[str, Any], ...] | None = None,
    ) -> None:
        """Put an op on the tape, where a gradient may be needed, and in the collections of the thread.

        attrs_key: the attributes as pairs; it is computed where it is None.
        """
        watching = observers.get()
        if not (recording.get() or watching is not None):
            return
        self.put_on_tape(self.find_signature(op, inputs, attrs, outputs), inputs, outputs, watching)

    def put_on_tape(
        self, signature: Signature, inputs: Sequence[Tensor], outputs: Sequence[Tensor], watching: Observers | None
    ) -> None:
        """As `record`, by the signature of the op."""
        if watching is not None:
            for collection in watching.collections:
                collection.append(CollectedApplication(signature.op, inputs, signature.attrs, outputs))
        if not recording.get():
            return
        edges = tuple(
            [
                t.edge
                if t.view_info is not None
                else e
                if (e := t.recorded_edge) is not None
                else t
                if t.leaf_requires_grad
                else None
                for t in inputs
            ]
        )
        for edge in edges:
            if edge is not None:
                break
        else:
            return
        needs = tuple([e is not None for e in edges])
        positions = signature.positions(needs)
        if watching is None or not watching.pack_hooks:
            saved = [SavedArray((t := inputs[k]).array, t.storage, t.storage.version) for k in positions.inputs]
            for k in positions.outputs:
                t = outputs[k]
                saved.append(SavedArray(t.array, t.storage, t.storage.version))
        else:
            saved = pack_arrays(watching, [inputs[k] for k in positions.inputs]) + pack_arrays(
                watching, [outputs[k] for k in positions.outputs]
            )
        entry = signature.node_class(signature, edges, positions, saved)
        if watching is not None and watching.anomaly is not None:
            entry.ensure_extras().traceback = caller_traceback()
        for k, t in enumerate(outputs):
            if t.spec.dtype in FLOAT_DTYPES:
                t.recorded_edge = Edge(entry, k)

    def copy(self, tensor: Tensor) -> Tensor:
        """A tensor of its own memory with the same elements, without the tape."""
        raise NotImplementedError

    def copy_array(self, array: Any) -> Any:
        """A copy of an array that is about to be changed in place."""
        return array.copy()

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
        out = make_tensor(like.array, like.spec, self, like.storage)
        self.record(op, inputs, attrs, (out,), tuple(sorted(attrs.items())))
        return out.recorded_edge

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[CollectedApplication]]:
        """The result of ``work()``, and the applications of its ops."""
        collection: list[CollectedApplication] = []
        watching = observers.get()
        with use_observers(collections=(*(() if watching is None else watching.collections), collection)):
            return work(), collection


class EagerInterpreter(TensorInterpreter):
    """Runs ops at once on one backend."""

    def __init__(self, backend: Backend, device: Device = CPU):
        super().__init__()
        self.backend, self.device = backend, device
        #: native kernels read contiguous arrays alone
        self._makes_contiguous = backend.is_shape_specialized and not backend.has_device_memory
        self._empty = backend.device.empty_pooled if backend.has_device_memory else backend.xp.empty
        #: the context of kernel calls; entering it takes a tenth of the time of `NumpyRunContext`
        self._context = None if backend.run_context is not NumpyRunContext else kernel_context()
        self._spec_of: dict[tuple[tuple[int, ...], Any], Spec] = {}
        self._scalars: dict[tuple[Any, bytes], Any] = {}

    def _make_signature(
        self,
        op: Op,
        ins: tuple[Spec, ...],
        attrs: dict[str, Any],
        attrs_key: tuple[tuple[str, Any], ...],
        outputs: Sequence[Tensor] | None,
    ) -> Signature:
        outs = op.infer_spec(*ins, **attrs)
        has_several = isinstance(outs, tuple)
        specs = tuple([self.intern_spec(s) for s in (outs if isinstance(outs, tuple) else (outs,))])
        run = self.backend.prepare(op, ins, specs, attrs)
        return Signature(self, op, attrs, attrs_key, ins, specs, has_several, run, entry_class(op.name))

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
        attrs_key = tuple(attrs.items()) if attrs else ()
        key: tuple[Any, ...]
        if len(inputs) == 2:  # as below, in half the time
            a, b = inputs
            key, arrays = (op, attrs_key, id(a.spec), id(b.spec)), [a.array, b.array]
        else:
            key, arrays = (op, attrs_key, *[id(t.spec) for t in inputs]), [t.array for t in inputs]
        signature = self._signatures.get(key)
        if signature is None:
            signature = self.find_signature(op, inputs, attrs)
        view = op.array_view(arrays[0], **attrs) if signature.is_view_op else None
        if view is not None:
            source = inputs[0]
            out = make_tensor(view, signature.outs[0], self, source.storage)
            out.view_info = ViewInfo.extend(source, op.name, signature.attrs_key)
            outputs: tuple[Tensor, ...] = (out,)
        else:
            if self._makes_contiguous:
                arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
            empty = self._empty
            if len(signature.outs) == 1:
                spec = signature.outs[0]
                result = empty(spec.shape, spec.dtype)
                self.call_kernel(signature, arrays, (result,))
                outputs = (make_tensor(result, spec, self, Storage()),)
            else:
                results = [empty(s.shape, s.dtype) for s in signature.outs]
                self.call_kernel(signature, arrays, results)
                outputs = tuple(
                    [make_tensor(a, s, self, Storage()) for a, s in zip(results, signature.outs, strict=True)]
                )
        watching = observers.get()
        if watching is not None or recording.get():
            self.put_on_tape(signature, inputs, outputs, watching)
        return outputs if signature.has_several_outputs else outputs[0]

    def call_kernel(self, signature: Signature, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Run the kernel of a signature on arrays, into others."""
        if self._context is not None and not signature.op.calls_user_code:
            try:
                self._context.run(signature.run, arrays, results)
                return
            except RuntimeError as exc:
                if ALREADY_ENTERED not in str(exc):
                    raise
        with self.backend.run_context():
            signature.run(arrays, results)

    def lift(self, tensor: Tensor) -> Tensor:
        if tensor.spec.shape == () and isinstance(tensor.interpreter, EagerInterpreter):  # as in PyTorch
            return self.scalar(tensor.interpreter.to_numpy(tensor.array))
        return super().lift(tensor)

    def scalar(self, array: np.ndarray) -> Tensor:
        """See `TensorInterpreter.scalar`: on a device equal ones are in the same memory, and nothing waits."""
        if not self.backend.has_device_memory or active_trace.get() is not None:
            return self.constant(array)
        key = array.dtype, array.tobytes()
        array_of_scalar = self._scalars.get(key)
        if array_of_scalar is None:
            if len(self._scalars) > _MAX_SIGNATURES:
                self._scalars.clear()
            array_of_scalar = self._scalars[key] = self.backend.asarray(array)
        return self.wrap(array_of_scalar)

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
        spec = self._spec_of.get((array.shape, array.dtype))
        if spec is None:
            spec = self.intern_spec(Spec(tuple(array.shape), array.dtype.name))
            if len(self._spec_of) > _MAX_SIGNATURES:
                self._spec_of.clear()
            self._spec_of[array.shape, array.dtype] = spec
        return make_tensor(array, spec, self, storage or Storage())

    def to_numpy(self, array: Any) -> np.ndarray:
        """An array of the backend as NumPy's, without a copy where it is in the host's memory."""
        trace = active_trace.get()
        if trace is not None:
            trace.to_numpy(array)
        host_array: np.ndarray = self.backend.to_numpy(array)
        return host_array

    def view_update(self, base: Tensor, value: Tensor, steps: ViewSteps) -> Tensor:
        """The tensor ``base`` after its view by ``steps`` has been overwritten with a value."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.view_update(base, value, steps))
        out = make_tensor(base.array, base.spec, self, base.storage)
        self.record(view_update, (base, value), {"steps": steps}, (out,), (("steps", steps),))
        return out

    def copy(self, tensor: Tensor) -> Tensor:
        """A tensor of its own memory with the same elements, without the tape."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.copy(tensor))
        return self.wrap(self.copy_array(tensor.array))

    def copy_array(self, array: Any) -> Any:
        return self.backend.copy(array)

    def zeros(self, spec: Spec) -> Tensor:
        """A tensor of zeros."""
        trace = active_trace.get()
        if trace is not None:
            return cast(Tensor, trace.zeros(spec))
        if not self.backend.has_device_memory:
            return self.wrap(self.backend.xp.zeros(spec.shape, dtype=spec.dtype))
        return self._full(spec, 0)

    def ones(self, spec: Spec) -> Tensor:
        """See `TensorInterpreter.ones`; on a device nothing waits."""
        if active_trace.get() is not None or not self.backend.has_device_memory:
            return super().ones(spec)
        return self._full(spec, 1)

    def _full(self, spec: Spec, value: int) -> Tensor:
        array = self._empty(spec.shape, spec.dtype)
        self.backend.enqueue("fill", lambda: operator.setitem(array, ..., value))
        return self.wrap(array)

    def add_into(self, target: Tensor, value: Tensor) -> None:
        """Add a tensor of the same shape and type to another, without the tape."""
        trace = active_trace.get()
        if trace is not None:
            trace.add_into(target, value)
            return
        array, source = target.array, value.array
        if not self.backend.has_device_memory:
            array += source
        else:
            self.backend.enqueue("accumulate", lambda: operator.iadd(array, source))
        target.storage.mark_changed()

    def write(self, target: Tensor, value: Tensor) -> None:
        """Overwrite the elements of a tensor with those of another, of a shape that broadcasts to its own."""
        trace = active_trace.get()
        if trace is not None:
            trace.write(target, value)
            return
        array, source = target.array, value.array
        if not self.backend.has_device_memory:
            array[...] = source
        else:
            self.backend.enqueue("write", lambda: operator.setitem(array, ..., source))
        target.storage.mark_changed()


@cache
def cpu_interpreter() -> EagerInterpreter:
    """The interpreter of tensors on the CPU."""
    return EagerInterpreter(eager_backend())


@cache
def _gpu_interpreter(index: int) -> EagerInterpreter:
    device = Device("cuda", index)
    return EagerInterpreter(backend_for(str(device), **MODES.backend_options(str(device))), device)


def interpreter_for(device: Any = None) -> EagerInterpreter:
    """The interpreter of tensors on a device; None is the default device, the CPU outside of all scopes. Raises
    BackendError for a GPU that cannot be used."""
    device = default_device() if device is None else device
    device_of_interpreter = CPU if device is None else as_device(device)
    if device_of_interpreter.type == "cpu":
        return cpu_interpreter()
    return _gpu_interpreter(current_gpu.get() if device_of_interpreter.index is None else device_of_interpreter.index)


set_default_interpreter(cpu_interpreter())
