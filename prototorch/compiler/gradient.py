"""Gradients through a compiled function: the plan of its backward pass, and its place on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prototorch.compiler.plan_run import PlanRun
from prototorch.compiler.signature import collect_tensors
from prototorch.compiler.trace import TraceInterpreter
from prototorch.compiler.traced_array import TracedArray
from prototorch.eager.backward import run_backward
from prototorch.eager.edge import Edge
from prototorch.eager.function import Function
from prototorch.eager.grad_mode import recording
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.engine.backends.core import Backend
from prototorch.errors import GradientError, UsageError
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.plan import make_plan
from prototorch.spec import Spec

__all__ = ["CompiledGradient", "GradientTrace", "trace_gradient"]


@dataclass
class GradientTrace:
    """The backward pass of a trace.

    outputs: the traced results that have a gradient. leaves: what it is taken with respect to, tensors from outside,
    or the positions of arguments. graph: the nodes of the backward pass; its inputs are ``seed:k``, the gradients of
    the outputs, and ``saved:k``. gradients: by the position of the leaf. saved: the values of the forward graph that
    the inputs ``saved:k`` are. failure: why there is no backward pass, where the function has run it itself.
    """

    outputs: list[Tensor]
    leaves: list[Tensor | int]
    graph: Graph = field(default_factory=Graph)
    gradients: dict[int, Value] = field(default_factory=dict)
    saved: list[Value] = field(default_factory=list)
    failure: str = ""


def trace_gradient(trace: TraceInterpreter, arguments: Sequence[Tensor], value: Any) -> GradientTrace | None:
    """Record the backward pass of what a traced function has returned; None where nothing in it has a gradient."""
    outputs = [t for t in collect_tensors(value) if isinstance(t.array, TracedArray) and t.spec.is_float]
    outputs = [t for t in dict.fromkeys(outputs) if isinstance(t.edge, Edge)] if recording.get() else []
    if not outputs:
        return None
    inner = [k for k, t in enumerate(arguments) if t.leaf_requires_grad]
    targets = [*trace.leaves.values(), *(arguments[k] for k in inner)]
    result = GradientTrace(outputs, [*trace.leaves.values(), *inner])
    before = trace.graph.num_nodes
    hooks = [t.__dict__.pop("hooks", None) for t in targets]  # they run when the real gradient is there
    try:
        seeds = [trace.input(f"seed:{k}", t.spec) for k, t in enumerate(outputs)]
        with trace.graph.phase("backward"):
            _, gradients = run_backward(outputs, seeds, targets, retain_graph=True, create_graph=False)
            values = {k: trace.cell(g).value for k, g in enumerate(gradients) if g is not None}
    except UsageError as error:
        result.failure = str(error)
        return result
    finally:
        for k in range(len(outputs)):
            trace.graph.inputs.pop(f"seed:{k}", None)
        for tensor, hook in zip(targets, hooks, strict=True):
            if hook is not None:
                tensor.__dict__["hooks"] = hook
    _extract(trace.graph, trace.graph.nodes[before:], values, result)
    return result


def _extract(forward: Graph, nodes: Sequence[Node], gradients: dict[int, Value], result: GradientTrace) -> None:
    """Make a graph of its own of the nodes of the backward pass."""
    graph, copies = result.graph, dict[Value, Value]()

    def copy_of(value: Value) -> Value:
        copy = copies.get(value)
        if copy is None:
            if value.kind == "constant":
                copy = Value(graph, value.spec, value.kind, value.name, value.stored_array)
            elif value.kind == "input" and value.name.startswith("seed:"):
                copy = graph.input(value.name, value.spec)
            else:
                copy = graph.input(f"saved:{len(result.saved)}", value.spec)
                result.saved.append(value)
            copies[value] = copy
        return copy

    for node in nodes:
        inputs = tuple(copy_of(v) for v in node.inputs)
        outputs = tuple(Value(graph, v.spec, "node", v.name) for v in node.outputs)
        copies.update(zip(node.outputs, outputs, strict=True))
        graph.append(Node(node.op, inputs, node.attrs, outputs, node.scope, node.phase))
    result.gradients = {k: copy_of(v) for k, v in gradients.items()}


class CompiledGradient:
    """The plan of a backward pass, made when it is first needed."""

    def __init__(self, trace: GradientTrace, backend: Backend, host: Any, name: str):
        self.trace, self.backend, self.host, self.name = trace, backend, host, name
        self._run: PlanRun | None = None
        self._needed: tuple[str, ...] = ()

    def record(self, leaves: Sequence[Tensor], outputs: Sequence[Tensor], saved: Sequence[Tensor]) -> tuple[Any, ...]:
        """Put one call on the tape: the outputs with their place on it. saved: what the backward pass reads."""
        placed: tuple[Any, ...] = _CompiledCall.apply(self, list(saved), list(outputs), *leaves)
        return placed

    def gradients(self, seeds: Sequence[Any], saved: Sequence[Any]) -> dict[int, Any]:
        """The gradients of the leaves by position."""
        if self._run is None:
            plan = make_plan(self.trace.graph, {f"{k}": v for k, v in self.trace.gradients.items()}, {}, self.backend)
            self._run, self._needed = PlanRun(plan, self.host, {}, self.backend), tuple(plan.inputs)
        arrays = {f"seed:{k}": array for k, array in enumerate(seeds)}
        arrays.update((f"saved:{k}", array) for k, array in enumerate(saved))
        outputs = self._run({name: arrays[name] for name in self._needed}, [f"{k}" for k in self.trace.gradients])
        return {k: outputs[f"{k}"] for k in self.trace.gradients}


class _CompiledCall(Function):
    """One call of a compiled function on the tape."""

    @staticmethod
    def forward(
        ctx: Any, gradient: CompiledGradient, saved: list[Tensor], outputs: list[Tensor], *leaves: Tensor
    ) -> Any:
        """The outputs are there already."""
        ctx.gradient, ctx.num_leaves = gradient, len(leaves)
        ctx.save_for_backward(*saved)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Run the plan of the backward pass."""
        gradient: CompiledGradient = ctx.gradient
        if gradient.trace.failure:
            raise GradientError(f"in {gradient.name}, a compiled function: {gradient.trace.failure}")
        if recording.get():
            raise GradientError(
                f"{gradient.name} is compiled, and its gradient cannot be differentiated again (create_graph=True): "
                "leave it uncompiled, or compute the second derivative inside of it"
            )
        gradients = gradient.gradients([g.array for g in grads], [t.array for t in ctx.saved_tensors])
        host, leaves = gradient.host, range(ctx.num_leaves)
        grads_of_inputs = [
            make_tensor(gradients[k], Spec(gradients[k].shape, gradients[k].dtype.name), host, Storage())
            if k in gradients
            else None
            for k in leaves
        ]
        return (None, None, None, *grads_of_inputs)
