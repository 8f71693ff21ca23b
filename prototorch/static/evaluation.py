"""The values of symbols: each call of a static graph computed once, on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from prototorch import ops
from prototorch.compiler.trace import GuardedStep, TraceInterpreter
from prototorch.eager.backward import run_backward
from prototorch.eager.functions.creation import tensor
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.interpreter import EagerInterpreter
from prototorch.eager.layer_call import layer_state, training, weight_tensor
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.engine.backends import host_memory
from prototorch.errors import ResourceError, UsageError
from prototorch.graph.symbolic import LayerCall, SymbolicTensor, calls_before
from prototorch.graph.symbolic_functions import (
    SYMBOLIC_FUNCTIONS,
    AssignCall,
    Call,
    GradientsCall,
    GroupCall,
    MinimizeCall,
    SymbolicCall,
    VariableCall,
    argument_values,
)
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers.base import compute_fans
from prototorch.spec import Spec
from prototorch.static.step_refusal import refuse_step

__all__ = [
    "Evaluation",
    "StaticProgram",
    "existing_tensors",
    "make_run",
    "next_step",
    "step_counts",
    "tensors_in",
    "trained_tensors",
]

Run = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], list[Any]]


class StaticProgram:
    """The calls that some symbols need, in order, and which of them must be on the tape."""

    def __init__(self, symbols: Sequence[SymbolicTensor]):
        self.calls = calls_before(symbols)
        self.minimizers = [c for c in self.calls if isinstance(c, MinimizeCall)]
        gradient_calls = [c for c in self.calls if isinstance(c, GradientsCall)]
        self.targets = {
            (t.number if t.call is None else t.call.number, t.index) for c in gradient_calls for t in c.targets
        }
        needed = [s for c in [*gradient_calls, *self.minimizers] for s in c.inputs]
        inner = {c.number for c in calls_before(needed)}
        #: gradients that are differentiated again
        self.differentiated = {c.number for c in gradient_calls if c.number in inner}
        self.is_training = bool(self.minimizers)
        for call in self.minimizers:
            if call.variables is None:
                _check_untrained(calls_before(call.inputs))
        #: tensors of the CPU among the arguments of functions: their copies on the device of the graph, by their ids
        self.constants: dict[int, Tensor] = {}


def _check_untrained(calls: Sequence[Call]) -> None:
    """Raises UsageError where a step would leave out what asks for a gradient: weights of modules are no variables."""
    for call in (c for c in calls if isinstance(c, SymbolicCall)):
        for argument in tensors_in([call.args, call.options]):
            if argument.requires_grad:
                raise UsageError(
                    f"minimize: an argument of {call.name} is a tensor {list(argument.shape)} that requires a "
                    "gradient, as weights of pt.nn modules do, and a step of a graph changes variables and weights of "
                    "layers alone: take pt.Variable or pt.layers, detach() of what is to stay, or name the variables"
                )


def _check_unchanged(program: StaticProgram, trace: TraceInterpreter) -> None:
    """Raises UsageError where a function has written to a tensor among its arguments."""
    changed = {id(c.tensor.storage) for c in trace.captured.values() if c.cell.base is None and c.cell.version}
    for call in (c for c in program.calls if changed and isinstance(c, SymbolicCall)):
        for argument in tensors_in([call.args, call.options]):
            if id(program.constants.get(id(argument), argument).storage) in changed:
                raise UsageError(
                    f"{call.name} would change a tensor {list(argument.shape)} that is given to it, and a graph "
                    "changes variables alone: give it a pt.Variable"
                )


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments, also in lists, tuples, dicts and slices."""
    return argument_values(value, lambda one: isinstance(one, Tensor))


class Evaluation:
    """One run over a program."""

    def __init__(
        self, program: StaticProgram, feeds: Mapping[int, Tensor], rates: Sequence[Tensor], steps: Sequence[Tensor]
    ):
        self.program, self.feeds = program, dict(feeds)
        self.values: dict[int, Any] = {}
        self.rates = dict(zip((c.number for c in program.minimizers), zip(rates, steps, strict=True), strict=True))
        self.gradients: dict[MinimizeCall, Sequence[Tensor | None]] = {}

    @classmethod
    def build(
        cls, program: StaticProgram, inputs: Sequence[SymbolicTensor], specs: Sequence[Spec], host: EagerInterpreter
    ) -> None:
        """Create the weights of layers and the slots of optimizers for inputs of these specs, on the device of
        ``host``; all else is traced, and nothing of it computed.

        Raises ResourceError where a weight, or a value of a call, would need more memory than there is, UsageError
        where a function would change a tensor that is given to it.
        """
        trace = TraceInterpreter(host)
        values = {s.number: trace.input(f"argument:{k}", p) for k, (s, p) in enumerate(zip(inputs, specs, strict=True))}
        rates = [tensor(0.0, device="cpu")] * len(program.minimizers)
        token = active_trace.set(trace)
        try:
            cls(program, values, rates, rates)._build(host.backend.free_bytes())
            _check_unchanged(program, trace)
        except MemoryError as error:
            if isinstance(error, ResourceError):
                raise
            raise ResourceError(f"the graph needs more memory than there is: {error!s:.200}") from None
        finally:
            active_trace.reset(token)
            trace.restore_grads()

    def _build(self, free: int | None) -> None:
        with training(False), no_grad():
            for call in self.program.calls:
                if isinstance(call, MinimizeCall):
                    for name, weight in trained_tensors(call).items():
                        self._slots(call, name, weight)
                    self.values[call.number] = self.value(call.inputs[0])
                elif isinstance(call, GradientsCall):
                    targets = [self.value(s) for s in call.targets]
                    self.values[call.number] = tuple(t.interpreter.zeros(t.spec) for t in targets)
                else:
                    self.values[call.number] = value = self._compute(call)
                    need = sum(
                        t.spec.nbytes
                        for t in (value if isinstance(value, tuple | list) else (value,))
                        if isinstance(t, Tensor)
                    )
                    if free is not None and need > free:
                        raise ResourceError(
                            f"{call.title} in a graph needs {need:,} bytes of memory, and {free:,} are free"
                        )

    def run(self, outputs: Sequence[SymbolicTensor]) -> list[Any]:
        """Compute all calls, and give the values of the outputs; assignments take place at the end, and not where the
        loss of a step, or what it trains, would not be finite (`refuse_step`)."""
        for number, value in self.feeds.items():
            own = self.feeds[number] = value.interpreter.copy(
                value
            ).detach()  # no function changes what the caller has fed
            if (number, 0) in self.program.targets and own.spec.is_float:
                own.requires_grad_()
        with training(self.program.is_training):
            for call in self.program.calls:
                self.values[call.number] = self._with_gradient(call, self._compute(call))
        changed = {id(t.storage) for t in guarded_tensors(self.program)}
        changed |= {id(c.variable.tensor.storage) for c in self.program.calls if isinstance(c, AssignCall)}

        def unaliased(value: Any) -> Any:
            """The value without its place on the tape, in memory that no assignment changes."""
            if not isinstance(value, Tensor):
                return value
            return value.clone() if id(value.storage) in changed else value.detach()

        with no_grad():
            results = [unaliased(self.value(symbol)) for symbol in outputs]
            self._guard_steps()
            with self._phase("update" if self.program.minimizers else "forward"):
                assignments = list(self._assignments())
                values = [unaliased(value) for _, value in assignments]
                for (target, _), value in zip(assignments, values, strict=True):
                    assign(target, value, "assign")
        return results

    @staticmethod
    def _phase(name: str) -> AbstractContextManager[None]:
        """What is recorded inside belongs to this part of the step."""
        trace = active_trace.get()
        return nullcontext() if trace is None else trace.graph.phase(name)

    def _guard_steps(self) -> None:
        """Say what the run must keep finite."""
        trace, minimizers = active_trace.get(), self.program.minimizers
        if trace is None or not minimizers:
            return
        loss, *others = (_scalar(self.value(call.inputs[0])) for call in minimizers)
        for other in others:
            loss = ops.where(ops.isfinite(loss), other, loss)
        tensors = guarded_tensors(self.program)
        target_ids = {id(call.variable.tensor) for call in self.program.calls if isinstance(call, AssignCall)}
        is_bounded = all(call.optimizer.has_bounded_updates for call in minimizers)
        is_bounded = is_bounded and not any(id(t) in target_ids for t in tensors)
        trace.guarded_step = GuardedStep(trace.cell(loss).value, tensors, is_bounded, refuse_step)

    def value(self, symbol: SymbolicTensor) -> Any:
        """The value of a symbol that has been computed."""
        if symbol.call is None:
            return self.feeds[symbol.number]
        results = self.values[symbol.call.number]
        is_one = not isinstance(results, tuple | list) or isinstance(symbol.call, SymbolicCall)
        return results if is_one else results[symbol.index]

    def _with_gradient(self, call: Call, value: Any) -> Any:
        """The value of a call; with a gradient of its own where that is asked for and nothing before it has one."""
        for index, one in enumerate(value if isinstance(value, tuple | list) else (value,)):
            is_target = (call.number, index) in self.program.targets and isinstance(one, Tensor)
            if is_target and one.spec.is_float and not one.requires_grad:
                one.requires_grad_()
        return value

    def _compute(self, call: Call) -> Any:
        if isinstance(call, SymbolicCall):
            return SYMBOLIC_FUNCTIONS[call.name](*self._substitute(call.args), **self._substitute(call.options))
        if isinstance(call, LayerCall):
            return call.layer(*map(self.value, call.inputs))
        if isinstance(call, VariableCall):
            return call.variable.tensor
        if isinstance(call, GradientsCall):
            return self._gradients(call)
        if isinstance(call, MinimizeCall):
            return self._minimize(call)
        if isinstance(call, AssignCall):
            return self.value(call.inputs[0])
        assert isinstance(call, GroupCall)
        return None

    def _substitute(self, value: Any) -> Any:
        """Arguments with the values of symbols in their places."""
        if isinstance(value, SymbolicTensor):
            return self.value(value)
        if isinstance(value, Tensor):
            return self.program.constants.get(id(value), value)
        if isinstance(value, list | tuple):
            return type(value)(self._substitute(one) for one in value)
        if isinstance(value, dict):
            return {name: self._substitute(one) for name, one in value.items()}
        if isinstance(value, slice):
            return slice(*(self._substitute(one) for one in (value.start, value.stop, value.step)))
        return value

    def _gradients(self, call: GradientsCall) -> tuple[Tensor, ...]:
        outputs = [self.value(s) for s in call.outputs]
        targets = [self.value(s) for s in call.targets]
        create = call.number in self.program.differentiated
        with_grad = [o for o in outputs if o.requires_grad]
        seeds = [o.interpreter.constant(np.ones(o.spec.shape, o.spec.dtype)) for o in with_grad]
        gradients: list[Any] = [None] * len(targets)
        if with_grad:
            _, gradients = run_backward(with_grad, seeds, targets, retain_graph=True, create_graph=create)
        return tuple(t.interpreter.zeros(t.spec) if g is None else g for t, g in zip(targets, gradients, strict=True))

    def _minimize(self, call: MinimizeCall) -> Tensor:
        loss = self.value(call.inputs[0])
        weights = trained_tensors(call)
        if loss.spec.size != 1:
            raise UsageError(f"minimize: the loss has the shape {list(loss.shape)}, and must be one number: reduce it")
        with self._phase("backward"):
            _, self.gradients[call] = run_backward(
                [loss], [None], list(weights.values()), retain_graph=True, create_graph=False
            )
        return loss

    def _assignments(self) -> Iterator[tuple[Tensor, Tensor]]:
        """What takes another value at the end, and that value, in the order of the calls."""
        for call in self.program.calls:
            if isinstance(call, AssignCall):
                yield call.variable.tensor, self.values[call.number]
            elif isinstance(call, MinimizeCall):
                yield from self._updates(call)

    def _updates(self, call: MinimizeCall) -> Iterator[tuple[Tensor, Tensor]]:
        """The new values of what a step trains, and of its state."""
        weights, gradients = trained_tensors(call), self.gradients[call]
        rate, step = self.rates[call.number]
        grads = call.optimizer.clip(
            [t.interpreter.zeros(t.spec) if g is None else g for t, g in zip(weights.values(), gradients, strict=True)]
        )
        for (name, weight), g in zip(weights.items(), grads, strict=True):
            slots = self._slots(call, name, weight)
            new, new_slots = call.optimizer.apply(weight.detach(), g, slots, rate, step, weight_spec(name, weight))
            yield weight, new
            yield from ((slots[k], v) for k, v in new_slots.items())

    def _slots(self, call: MinimizeCall, name: str, weight: Tensor) -> dict[str, Tensor]:
        """The optimizer's state of a weight, created where there is none yet."""
        if name not in call.slots:
            place = weight.interpreter
            if not place.backend.has_device_memory:  # a GPU's allocation says so itself
                host_memory.check_free(weight.spec.nbytes, f"the state of {type(call.optimizer).__name__} of {name!r}")
            arrays = call.optimizer.initial_slots(weight_spec(name, weight))
            call.slots[name] = {k: weight_tensor(np.array(a), False, interpreter=place) for k, a in arrays.items()}
        return call.slots[name]


def weight_spec(name: str, weight: Tensor) -> WeightSpec:
    """A variable or a weight as optimizers know it."""
    return WeightSpec(name, weight.spec, initializer=None, fans=compute_fans(weight.spec.shape))  # type: ignore[arg-type]


def trained_tensors(call: MinimizeCall) -> dict[str, Tensor]:
    """The tensors that a step changes, by name: variables, and weights of layers that have been called. Raises
    UsageError where there are none."""
    tensors = existing_tensors(call)
    if not tensors:
        raise UsageError("minimize: the loss depends on no trainable variable, and on no layer with weights")
    return tensors


def existing_tensors(call: MinimizeCall) -> dict[str, Tensor]:
    """As `trained_tensors`, also where there are none yet."""
    if call.variables is not None:
        return {v.name: v.tensor for v in call.variables}
    tensors: dict[str, Tensor] = {}
    for number, before in enumerate(calls_before(call.inputs)):
        if isinstance(before, VariableCall) and before.variable.trainable and before.variable.tensor.requires_grad:
            tensors.setdefault(before.variable.name, before.variable.tensor)
        elif isinstance(before, LayerCall):
            name = f"{before.layer.name or type(before.layer).__name__}_{number}"
            variable_ids = {id(t) for t in tensors.values()}
            tensors.update(
                {
                    f"{name}/{k}": t
                    for k, t in layer_state(before.layer).weights.items()
                    if t.requires_grad and id(t) not in variable_ids
                }
            )
    return tensors


#: how many steps a call has done; not in the call, which a compiled run must find unchanged
step_counts: WeakKeyDictionary[MinimizeCall, int] = WeakKeyDictionary()


def next_step(call: MinimizeCall) -> tuple[Tensor, Tensor]:
    """The learning rate and the number of the next step, as scalars."""
    rate, steps = call.optimizer.learning_rate, step_counts.get(call, 0)
    value = rate if isinstance(rate, int | float) else rate.value(steps)
    return tensor(float(value), dtype="float32", device="cpu"), tensor(steps + 1, dtype="int64", device="cpu")


def _scalar(loss: Tensor) -> Tensor:
    """A loss as a scalar, float32 or float64."""
    scalar = ops.reshape(loss.detach(), shape=())
    return scalar if scalar.spec.dtype in ("float32", "float64") else ops.cast(scalar, dtype="float32")


def guarded_tensors(program: StaticProgram) -> list[Tensor]:
    """What steps of optimizers train, and their state: the tensors that must stay finite."""
    tensors: dict[int, Tensor] = {}
    for call in program.minimizers:
        slots = [t for own in call.slots.values() for t in own.values()]
        tensors.update((id(t), t) for t in [*trained_tensors(call).values(), *slots] if t.spec.is_float)
    return list(tensors.values())


def make_run(program: StaticProgram, inputs: Sequence[SymbolicTensor], outputs: Sequence[SymbolicTensor]) -> Run:
    """The run of a graph as a function of tensors: inputs, learning rates, numbers of steps. See `Evaluation.run`."""
    numbers = [symbol.number for symbol in inputs]

    def run(feeds: Sequence[Tensor], rates: Sequence[Tensor], steps: Sequence[Tensor]) -> list[Any]:
        values = Evaluation(program, dict(zip(numbers, feeds, strict=True)), rates, steps)
        return values.run(outputs)

    return run
