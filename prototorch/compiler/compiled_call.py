"""One plan of a compiled function: bound to the arrays that it reads and writes, and run at each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.compiler.gradient import CompiledGradient
from prototorch.compiler.guards import Guards
from prototorch.compiler.plan_run import PlanRun, check_memory, shares_memory
from prototorch.compiler.signature import map_tensors
from prototorch.compiler.trace import CapturedArray, TraceInterpreter
from prototorch.compiler.trace_result import ResultTensor, TraceResult
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.eager.view_info import ViewInfo
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import GUARD, LOSS, OVERFLOWED
from prototorch.errors import UsageError
from prototorch.graph.plan import make_plan
from prototorch.ops.view_update import array_view
from prototorch.spec import Spec

__all__ = ["CompiledCall"]


class CompiledCall:
    """A plan with what a call does around it.

    Args:
        trace, result: of the function. num_arguments: the tensors among its arguments. guards: what it has read beside
            them.
    """

    def __init__(
        self,
        trace: TraceInterpreter,
        result: TraceResult,
        num_arguments: int,
        guards: Guards,
        backend: Backend,
        name: str,
    ):
        self.result, self.guards, self._host = result, guards, trace.host
        captured = list(trace.captured.values())
        self._step, self._guarded_tensors = trace.guarded_step, dict[str, Tensor]()
        outputs = dict(result.outputs)
        if self._step is not None:
            outputs[LOSS] = outputs[GUARD] = self._step.loss
            arrays = {id(t.array): t for t in self._step.tensors}
            self._guarded_tensors = {c.name: arrays[id(c.array)] for c in captured if id(c.array) in arrays}
        self.plan = make_plan(trace.graph, outputs, result.updates, backend)
        if self._step is not None:
            self.plan.guarded_states = frozenset(self._guarded_tensors)
            self.plan.has_bounded_updates = self._step.is_bounded
        check_memory(self.plan, backend, name)
        self._captured = [(c.tensor, c.array) for c in captured]
        self._leaves = _grad_guards(trace, captured)
        states = {c.name: c.tensor for c in captured if c.is_state}
        self._plan_run = PlanRun(self.plan, trace.host, states, backend)
        needed = self.plan.inputs
        self._arguments = [(f"argument:{k}", k) for k in range(num_arguments) if f"argument:{k}" in needed]
        readers: dict[str, Callable[[], Any]] = dict(trace.numbers)
        readers.update({c.name: _reader(c.array) for c in captured if not c.is_state})
        self._readers = [(name, read) for name, read in readers.items() if name in needed]
        self._keys = [(keys, names) for keys, names in trace.keys.values()]
        self._changed_arrays = [(c.array, c.tensor.storage) for c in result.changed]
        self._gradient = None
        if result.gradient is not None:
            self._gradient = CompiledGradient(result.gradient, backend, trace.host, name)
        self._lock = threading.RLock()

    # ------------------------------------------------------------------ whether it serves a call

    def stale_reason(self) -> str:
        """Why it does not serve a call any more; "" where it does."""
        for tensor, array in self._captured:
            if tensor.array is not array:
                return f"a tensor {list(tensor.spec.shape)} has taken another array"
        for leaf, has_grad, grad in self._leaves:
            if (leaf.grad is not None) != has_grad or (grad is not None and leaf.grad is not grad):
                return f"the gradient of a tensor {list(leaf.spec.shape)} is another one than before"
        return self.guards.failure()

    # ------------------------------------------------------------------ running

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """Run the plan, and give what the function returns."""
        inputs = {name: arguments[k].array for name, k in self._arguments}
        for name, read in self._readers:
            inputs[name] = read()
        for keys, names in self._keys:
            for name in names:
                inputs[name] = keys.next_key()
        self._check_aliases(arguments)
        result = self.result
        with self._lock:
            arrays = self._plan_run(inputs, result.outputs, None if self._step is None else self._refuse)
        for captured, name in result.copied_back:
            self._write(captured.tensor, arrays[name])
        for _, storage in self._changed_arrays:
            storage.mark_changed()
        self._plan_run.finish()
        for k, name in result.argument_updates:
            self._write(arguments[k], arrays[name])
        tensors = {key: self._tensor(source, arguments, arrays) for key, source in result.tensors.items()}
        if self._gradient is not None:
            self._record(arguments, arrays, tensors)
        self._set_grads(arguments, arrays)
        if result.escaped:
            self._materialize_escaped(arguments, arrays)
        if isinstance(result.value, Tensor):
            return tensors.get(id(result.value), result.value)
        return map_tensors(result.value, lambda t: tensors.get(id(t), t))

    def _refuse(self, outputs: Mapping[str, Any]) -> None:
        """The guard of a step of an optimizer, see `GuardedStep.refuse`."""
        assert self._step is not None
        tensors = [self._guarded_tensors[name] for name in outputs.get(OVERFLOWED, ())]
        self._step.refuse({**outputs, OVERFLOWED: tensors})

    def _record(
        self, arguments: Sequence[Tensor], arrays: Mapping[str, np.ndarray], tensors: dict[int, Tensor]
    ) -> None:
        """Put the call on the tape, and the results that have a gradient in the place of those that have none."""
        assert self._gradient is not None
        trace = self._gradient.trace
        saved = [self._wrap(arrays[one]) if isinstance(one, str) else one.tensor for one in self.result.saved]
        leaves = [arguments[leaf] if isinstance(leaf, int) else leaf for leaf in trace.leaves]
        placed = self._gradient.record(leaves, [tensors[id(t)] for t in trace.outputs], saved)
        tensors.update((id(t), new) for t, new in zip(trace.outputs, placed, strict=True))

    def _wrap(self, array: np.ndarray) -> Tensor:
        return make_tensor(array, Spec(array.shape, array.dtype.name), self._host, Storage())

    def _write(self, tensor: Tensor, array: Any) -> None:
        """Overwrite a tensor with what the plan gives; a scalar of the host may stand beside tensors of a GPU."""
        if tensor.interpreter is self._host:
            self._host.write(tensor, self._wrap(array))
        else:
            tensor.array[...] = self._host.backend.to_numpy(array)
            tensor.storage.mark_changed()

    def _check_aliases(self, arguments: Sequence[Tensor]) -> None:
        for array, _ in self._changed_arrays:
            for k, argument in enumerate(arguments):
                if argument.interpreter is self._host and shares_memory(self._host, array, argument.array):
                    raise UsageError(
                        f"tensor argument {k} shares its memory with a tensor that the compiled function changes; pass "
                        "a clone() of it"
                    )

    def _set_grads(self, arguments: Sequence[Tensor], arrays: Mapping[str, np.ndarray]) -> None:
        for leaf, source in self.result.leaf_grads:
            leaf.grad = None if source is None else self._tensor(source, arguments, arrays)
        for k, source in self.result.argument_grads:
            arguments[k].grad = None if source is None else self._tensor(source, arguments, arrays)

    def _tensor(self, source: ResultTensor, arguments: Sequence[Tensor], arrays: Mapping[str, np.ndarray]) -> Tensor:
        """A result: elements of its own, a tensor from outside, or a view of one."""
        if source.output:
            return make_tensor(arrays[source.output], source.traced.spec, self._host, Storage())
        base = arguments[source.argument] if source.argument is not None else _owner(source.captured)
        if not source.steps:
            return base if source.argument is not None else base.detach()
        array = array_view(base.array, source.steps)
        view = make_tensor(array, source.traced.spec, self._host, base.storage)
        view.view_info = ViewInfo(base, source.steps, base.storage.graph_version, base.array)
        return view

    def _materialize_escaped(self, arguments: Sequence[Tensor], arrays: Mapping[str, np.ndarray]) -> None:
        """Give tensors of the trace that something outside has kept memory, after the first and only run."""
        for source in self.result.escaped:
            real = self._tensor(source, arguments, arrays)
            tensor = source.traced
            tensor.rebind(real.array, real.storage, self._host)
            tensor.view_info, tensor.recorded_edge = real.view_info, None


def _owner(captured: CapturedArray | None) -> Tensor:
    assert captured is not None
    return captured.tensor


def _reader(array: Any) -> Callable[[], Any]:
    return lambda: array


def _grad_guards(trace: TraceInterpreter, captured: Sequence[CapturedArray]) -> list[tuple[Tensor, bool, Any]]:
    """Leaves from outside, with whether they have a gradient, and it itself where the plan reads it."""
    arrays = {id(c.array) for c in captured}
    leaves = [t for t in trace.leaves.values() if t.interpreter is trace.host]
    return [
        (t, t.grad is not None, t.grad if t.grad is not None and id(t.grad.array) in arrays else None) for t in leaves
    ]
