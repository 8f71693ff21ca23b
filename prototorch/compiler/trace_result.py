"""What a trace has found: the graph with its results, and what a call does before and after its plan runs."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prototorch import ops
from prototorch.compiler.gradient import GradientTrace
from prototorch.compiler.signature import map_tensors
from prototorch.compiler.trace import CapturedArray, TraceInterpreter
from prototorch.compiler.traced_array import TracedArray
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.graph.ir import Value
from prototorch.ops.core import use_interpreter
from prototorch.ops.view_update import ViewSteps

__all__ = ["ResultTensor", "TraceResult", "collect_results"]


@dataclass(frozen=True)
class ResultTensor:
    """A tensor that a call gives: elements of its own (``output``, a name of the plan's), or a view by ``steps`` of an
    array from outside (``captured``) or of an argument."""

    traced: Tensor
    output: str = ""
    captured: CapturedArray | None = None
    argument: int | None = None
    steps: ViewSteps = ()


@dataclass
class TraceResult:
    """``value`` is what the function has returned: a nest whose traced tensors are in ``tensors``, by id.

    outputs, updates: of the graph. changed: arrays from outside that the plan changes. copied_back: the same where it
    is no state: the name of the output with the new elements. argument_updates: (argument, output). leaf_grads,
    argument_grads: captured leaves, arguments (by position) with the new ``grad``, None or a result. escaped: tensors
    of the trace that something outside has kept.
    """

    value: Any
    tensors: dict[int, ResultTensor] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    updates: dict[str, Value] = field(default_factory=dict)
    changed: list[CapturedArray] = field(default_factory=list)
    copied_back: list[tuple[CapturedArray, str]] = field(default_factory=list)
    argument_updates: list[tuple[int, str]] = field(default_factory=list)
    leaf_grads: list[tuple[Tensor, ResultTensor | None]] = field(default_factory=list)
    argument_grads: list[tuple[int, ResultTensor | None]] = field(default_factory=list)
    escaped: list[ResultTensor] = field(default_factory=list)
    gradient: GradientTrace | None = None
    saved: list[str | CapturedArray] = field(default_factory=list)  # what the backward pass reads: outputs, states


class _Collector:
    def __init__(self, trace: TraceInterpreter, arguments: Sequence[Tensor], result: TraceResult):
        self.trace, self.result = trace, result
        self.arguments = {id(t.array): k for k, t in enumerate(arguments)}
        self._names: dict[tuple[Value, int], str] = {}

    def describe(self, tensor: Tensor) -> ResultTensor:
        """How a call gives a traced tensor."""
        cell = self.trace.cell(tensor)
        base = cell if cell.base is None else cell.base
        for captured in self.trace.captured.values():
            if captured.cell is base:
                return ResultTensor(tensor, captured=captured, steps=cell.steps)
        if id(base) in self.arguments:
            return ResultTensor(tensor, argument=self.arguments[id(base)], steps=cell.steps)
        return ResultTensor(tensor, output=self.output(cell.value, cell))

    def output(self, value: Value, owner: TracedArray | None = None) -> str:
        """Have the plan give a value in memory of its own, or in that of ``owner``; its name."""
        name = self._names.get((value, id(owner)))
        if name is None:
            name = self._names[value, id(owner)] = f"output:{len(self.result.outputs)}"
            self.result.outputs[name] = value
        return name


def collect_results(
    trace: TraceInterpreter,
    arguments: Sequence[Tensor],
    argument_grads: Sequence[Any],
    value: Any,
    gradient: GradientTrace | None,
) -> TraceResult:
    """The results of a trace whose function has returned ``value``. arguments: the traced ones; argument_grads: the
    ``grad`` that each of them had before."""
    result = TraceResult(value)
    collector = _Collector(trace, arguments, result)
    _collect_writes(trace, collector, arguments)
    for leaf in trace.leaves.values():
        new = leaf.grad
        if new is not trace.initial_grads[id(leaf)]:
            result.leaf_grads.append((leaf, None if new is None else collector.describe(new)))
    for k, (argument, before) in enumerate(zip(arguments, argument_grads, strict=True)):
        new = argument.grad
        if new is not before:
            result.argument_grads.append((k, None if new is None else collector.describe(new)))

    def note_result(tensor: Tensor) -> Tensor:
        if isinstance(tensor.array, TracedArray):
            result.tensors[id(tensor)] = collector.describe(tensor)
        return tensor

    map_tensors(value, note_result)
    _collect_escaped(trace, collector, arguments)
    if gradient is not None:
        result.gradient = gradient
        result.saved = [_saved_value(trace, collector, value) for value in gradient.saved]
    _copy_aliases(trace, result)
    return result


def _saved_value(trace: TraceInterpreter, collector: _Collector, value: Value) -> str | CapturedArray:
    """Where a call finds what its backward pass reads: an output, or an array from outside that it does not change."""
    if value.kind == "state" and value.name not in collector.result.updates:
        return next(c for c in trace.captured.values() if c.name == value.name)
    return collector.output(value)


def _collect_writes(trace: TraceInterpreter, collector: _Collector, arguments: Sequence[Tensor]) -> None:
    result = collector.result
    for captured in trace.captured.values():
        cell = captured.cell
        if cell.base is not None or not cell.version:
            continue
        result.changed.append(captured)
        if captured.is_state:
            result.updates[captured.name] = cell.value
        else:
            result.copied_back.append((captured, collector.output(cell.value)))
    for k, argument in enumerate(arguments):
        cell = argument.array
        if cell.base is None and cell.version:
            result.argument_updates.append((k, collector.output(cell.value)))


def _collect_escaped(trace: TraceInterpreter, collector: _Collector, arguments: Sequence[Tensor]) -> None:
    """The tensors of the trace that are alive and no results."""
    result = collector.result
    known_ids = {*result.tensors, *map(id, arguments)}
    known_ids.update(id(r.traced) for _, r in (*result.leaf_grads, *result.argument_grads) if r is not None)
    known_ids.update(id(r.traced.view_info.base) for r in result.tensors.values() if r.traced.view_info is not None)

    def live_tensors() -> list[Tensor]:
        tensors = [reference() for reference in trace.tensors]
        return [t for t in tensors if t is not None and id(t) not in known_ids]

    if live_tensors():
        gc.collect()
    result.escaped = [collector.describe(t) for t in live_tensors()]


def _copy_aliases(trace: TraceInterpreter, result: TraceResult) -> None:
    """Outputs and new values that are states which the plan changes are copied: their memory is overwritten."""
    changed = {trace.graph.states[name] for name in result.updates}

    def source(value: Value) -> Value:
        while value.producer is not None and value.producer.op.is_view:
            value = value.producer.inputs[0]
        return value

    with use_interpreter(trace.graph):
        for results in (result.outputs, result.updates):
            for name, value in results.items():
                root = source(value)
                if root in changed and not (results is result.updates and value is trace.graph.states[name]):
                    results[name] = _copy_of(value)


def _copy_of(value: Value) -> Value:
    """The same elements by an op that is no view."""
    copy = ops.logical_or(value, value) if value.dtype == "bool" else value * 1
    if copy.spec != value.spec:
        raise UsageError(f"a compiled function cannot return a tensor of dtype {value.dtype} that it also overwrites")
    return copy
