"""A function of tensors as an op of a plan: what it computes, and the gradient that its tape has.

The ops of the function and those of its backward pass are recorded once, on the tape of a trace, so that `detach`,
`no_grad` and the backward of a `Function` mean in a plan what they mean on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.compiler.signature import collect_tensors
from prototorch.compiler.trace import CapturedArray, TraceInterpreter
from prototorch.compiler.traced_array import TracedArray
from prototorch.eager.backward import run_backward
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.random_keys import RandomKeys
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.errors import UsageError
from prototorch.graph.ir import Node, Value
from prototorch.ops.core import Op
from prototorch.spec import Spec

__all__ = ["RecordedCall", "RecordedFunction"]


class _KeyedTrace(TraceInterpreter):
    """A trace whose random keys follow from one key, an input."""

    key_input: Value | None = None

    def key(self, keys: RandomKeys) -> Tensor:
        """See `TraceInterpreter.key`."""
        if self.key_input is None:
            self.key_input = self.graph.input("key", Spec((2,), "uint64"))
        self.num_keys += 1
        shift = self.graph.constant(np.array([self.num_keys * 0x9E3779B97F4A7C15 % 2**64, 0], np.uint64))
        value = self.key_input + shift
        return self.new_tensor(TracedArray(value, value.spec))


class RecordedFunction:
    """The recording of a function of tensors.

    Args:
        function: takes tensors of ``specs``, and gives a tensor or a nest of tensors.
        states: tensors that it reads beside its arguments; their values are further inputs, after those of ``specs``.

    Attributes:
        num_outputs: of the function itself; the new values of the states in ``changed`` (by position) follow them.
        needs_key: whether a random key, uint64[2], is the last input.

    Raises UsageError where the function needs elements, or changes other tensors.
    """

    def __init__(self, function: Callable[..., Any], specs: Sequence[Spec], states: Sequence[Tensor] = ()):
        trace = _KeyedTrace(cpu_interpreter())
        arguments = [trace.input(f"input:{k}", spec) for k, spec in enumerate(specs)]
        for argument in arguments:
            argument.leaf_requires_grad = argument.spec.is_float
        values = [argument.array.value for argument in arguments]
        for k, state in enumerate(states, len(arguments)):
            cell = TracedArray(trace.graph.input(f"input:{k}", state.spec), state.spec, state.array)
            trace.captured[id(state.array)] = CapturedArray(state, state.array, cell, f"input:{k}", False)
            values.append(cell.value)
        cells = [trace.captured[id(s.array)].cell for s in states]
        token = active_trace.set(trace)
        try:
            with enable_grad():
                outputs = collect_tensors(function(*arguments))
                if not outputs:
                    raise UsageError("it must return a tensor, or a tuple of tensors")
                self.num_outputs = len(outputs)
                self.changed = [k for k, cell in enumerate(cells) if cell.version]
                others = [c for c in trace.captured.values() if c.cell.version and c.cell not in cells]
                if others:
                    raise UsageError(
                        f"it changes a tensor {list(others[0].tensor.spec.shape)} that is no parameter and no buffer"
                    )
                results = [trace.cell(t).value for t in outputs] + [cells[k].value for k in self.changed]
                self._seeds, self._gradients = _record_backward(trace, outputs, [*arguments, *states])
        finally:
            active_trace.reset(token)
        self.needs_key = trace.key_input is not None
        self._inputs = [*values, trace.key_input] if trace.key_input is not None else values
        self._results, self._nodes = results, trace.graph.nodes
        self._constants = {
            c.cell.value: c.array for c in trace.captured.values() if c.cell not in cells and c.cell.base is None
        }
        self.output_specs = tuple(v.spec for v in results)

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs, and the new values of states, for values of any interpreter."""
        return tuple(self._replay(dict(zip(self._inputs, inputs, strict=True)), self._results))

    def backward(self, inputs: Sequence[Any], grads: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """The gradients of the inputs that need one (else None), from those of the outputs (None: zero)."""
        values = dict(zip(self._inputs, inputs, strict=True))
        for seed, k in self._seeds:
            values[seed] = np.zeros(seed.shape, seed.dtype) if grads[k] is None else grads[k]
        gradients = [*self._gradients, *[None] * (len(inputs) - len(self._gradients))]
        targets = [g for g, need in zip(gradients, needs, strict=True) if need and g is not None]
        target_gradients = iter(self._replay(values, targets))
        return [
            next(target_gradients) if need and g is not None else None for g, need in zip(gradients, needs, strict=True)
        ]

    def _replay(self, values: dict[Value, Any], targets: Sequence[Value]) -> list[Any]:
        """Apply the recorded ops that values depend on."""

        def value_of(value: Value) -> Any:
            if value in values:
                return values[value]
            return self._constants.get(value, value.array)

        for node in _live_nodes(self._nodes, targets):
            outputs = node.op(*[value_of(v) for v in node.inputs], **node.attrs)
            values.update(zip(node.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
        return [value_of(v) for v in targets]


def _record_backward(
    trace: TraceInterpreter, outputs: Sequence[Tensor], leaves: Sequence[Tensor]
) -> tuple[list[tuple[Value, int]], list[Value | None]]:
    """The seeds, each with the number of its output, and the gradients of the leaves."""
    differentiable = [(k, t) for k, t in enumerate(outputs) if t.spec.is_float and isinstance(t.edge, Edge)]
    targets = [(k, t) for k, t in enumerate(leaves) if t.requires_grad]
    gradients: list[Value | None] = [None] * len(leaves)
    seeds = [trace.input(f"seed:{k}", t.spec) for k, t in differentiable]
    if differentiable and targets:
        _, target_gradients = run_backward(
            [t for _, t in differentiable], seeds, [t for _, t in targets], retain_graph=True, create_graph=False
        )
        for (k, _), g in zip(targets, target_gradients, strict=True):
            gradients[k] = None if g is None else trace.cell(g).value
    return [(s.array.value, k) for s, (k, _) in zip(seeds, differentiable, strict=True)], gradients


def _live_nodes(nodes: Sequence[Node], targets: Sequence[Value]) -> list[Node]:
    live, live_nodes = set(targets), []
    for node in reversed(nodes):
        if not live.isdisjoint(node.outputs):
            live.update(node.inputs)
            live_nodes.append(node)
    return live_nodes[::-1]


class RecordedCall(Op):
    """``recorded_call(*inputs, call=)``: what a `RecordedFunction` computes, always a tuple."""

    name = "recorded_call"

    def __init__(self) -> None:
        """It is no op of the package: no text and no file can name it."""

    def infer_spec(self, *specs: Spec, **attrs: Any) -> Any:
        return attrs["call"].output_specs

    def decompose(self, *inputs: Any, **attrs: Any) -> Any:
        return attrs["call"].forward(*inputs)

    def vjp(
        self,
        grads: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        needs: Sequence[bool],
        attrs: dict[str, Any],
    ) -> Sequence[Any]:
        call: RecordedFunction = attrs["call"]
        return call.backward(inputs, grads, needs)
