"""Optimizers whose update is one formula of each element, which runs as one fused op."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from prototorch.eager.functions.creation import tensor
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace, outside_trace
from prototorch.errors import UsageError
from prototorch.optim.fused_update import FusedUpdate, update_backend
from prototorch.optim.optimizer import Optimizer
from prototorch.optim.state_dict import NUMBERS
from prototorch.optim.traced_update import CallCoefficients, record_update

__all__ = ["FormulaOptimizer", "check_betas", "check_options", "check_range", "full_tensor"]

StepCounts = tuple[float, ...]  #: numbers of a parameter's state that its coefficients depend on, such as its step


class FormulaOptimizer(Optimizer, abstract=True):
    """The base class of the methods of this package. A subclass defines what stands below, in this order."""

    has_elementwise_states = True

    def __init__(self, params: Any, defaults: dict[str, Any]):
        super().__init__(params, defaults)
        self._updates: dict[Any, FusedUpdate] = {}

    # ------------------------------------------------------------------ defined by subclasses

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The names of the states that have the parameter's shape, in the order in which the formula takes them."""
        return ()

    def initial_slot(self, group: dict[str, Any], name: str, p: Tensor) -> Tensor:
        """A slot before the first step; zeros."""
        return full_tensor(p, 0.0)

    def initial_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        """The numbers of a parameter's state, by name, before the first step."""
        return {"step": 0.0}

    def increment_step(self, group: dict[str, Any], state: dict[str, Any]) -> StepCounts:
        """Count a step of a parameter; gives the numbers that the coefficients depend on: the step's, from 1."""
        step = state["step"].array
        step += 1
        return (float(step),)

    def variant(self, group: dict[str, Any], counts: StepCounts) -> Hashable:
        """What chooses between formulas."""
        return None

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        """The scalars of the formula, by name."""
        return {}

    @staticmethod
    def formula(variant: Any, w: Any, g: Any, hyper: Any, *slots: Any) -> Sequence[Any]:
        """The new parameter and slots, in elementwise ops; ``hyper`` has the coefficients as attributes."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters that have a gradient. Gives the loss that the closure returns, or None."""
        loss = self.evaluate(closure)
        is_traced = active_trace.get() is not None
        for number, group in enumerate(self.param_groups):
            kinds: dict[Any, list[tuple[Tensor, dict[str, Any]]]] = {}
            names = self.slots(group)
            has_state = bool(names) or bool(self.initial_numbers(group))
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p] if has_state else {}
                if not state or (names and names[-1] not in state):
                    with outside_trace():
                        self.init_state(group, p, state, names)
                counts = self.step_counts(state) if is_traced else self.increment_step(group, state)
                kinds.setdefault((p.spec.dtype, p.interpreter, counts), []).append((p, state))
            for (dtype, _, counts), members in kinds.items():
                if is_traced:
                    self._record(group, names, members)
                else:
                    self._update(number, group, dtype, counts, names, members)
        return loss

    def step_counts(self, state: dict[str, Any]) -> StepCounts:
        """What distinguishes parameters that have not made the same steps."""
        return tuple(float(state[name].array) for name in NUMBERS if name in state)

    def _record(
        self, group: dict[str, Any], names: Sequence[str], members: list[tuple[Tensor, dict[str, Any]]]
    ) -> None:
        """As `_update`, in the plan of a compiled function, each of whose calls is a step."""
        states = [state for _, state in members]

        def compute() -> dict[str, float]:
            steps = [self.increment_step(group, state) for state in states]  # equal: that is what brought them together
            return self.coefficients(group, steps[0])

        with outside_trace():
            copies = {name: tensor(float(states[0][name].array), device="cpu") for name in NUMBERS if name in states[0]}
            first = self.increment_step(group, {**states[0], **copies})
        variant, keys = self.variant(group, first), tuple(self.coefficients(group, first))
        rows = [[p, *(state[name] for name in names)] for p, state in members]
        record_update(type(self).formula, variant, keys, CallCoefficients(compute), rows)

    def init_state(self, group: dict[str, Any], p: Tensor, state: dict[str, Any], names: Sequence[str]) -> None:
        """Fill in what a parameter's state lacks."""
        for name, value in self.initial_numbers(group).items():
            if name not in state:
                state[name] = tensor(value, device="cpu")
        for name in names:
            if name not in state:
                state[name] = self.initial_slot(group, name, p)

    def _update(
        self,
        number: int,
        group: dict[str, Any],
        dtype: str,
        counts: StepCounts,
        names: Sequence[str],
        members: list[tuple[Tensor, dict[str, Any]]],
    ) -> None:
        coefficients = self.coefficients(group, counts)
        variant = self.variant(group, counts)
        arrays = [[p.array, *(state[name].array for name in names)] for p, state in members]
        gradients = [_gradient_of(p) for p, _ in members]
        key = (number, dtype, variant, len(members))
        update = self._updates.get(key)
        if update is None or not update.matches(arrays):
            backend = update_backend(members[0][0])
            update = FusedUpdate(type(self).formula, variant, tuple(coefficients), arrays, backend)
            self._updates[key] = update
        update.run(list(coefficients.values()), gradients)
        for p, _ in members:
            p.storage.mark_changed()

    def load_state_dict(self, state_dict: Any) -> None:
        """As `Optimizer.load_state_dict`."""
        super().load_state_dict(state_dict)
        self._updates = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._updates = {}


def _gradient_of(p: Tensor) -> Any:
    """The array of a parameter's gradient. Raises UsageError where it is not of the parameter's kind."""
    gradient: Any = p.grad
    if gradient.spec != p.spec or gradient.interpreter is not p.interpreter:
        _refuse_gradient(p, gradient)
    return gradient.array


def _refuse_gradient(p: Tensor, gradient: Tensor) -> NoReturn:
    raise UsageError(
        f"the gradient of a parameter is {gradient.spec.dtype} {list(gradient.shape)} on {gradient.device}, the "
        f"parameter {p.spec.dtype} {list(p.shape)} on {p.device}"
    )


def full_tensor(p: Tensor, value: float) -> Tensor:
    """A tensor like a parameter, of one value."""
    result: Tensor = p.interpreter.zeros(p.spec)
    p.interpreter.write(result, p.interpreter.constant(np.asarray(value, p.spec.dtype)))
    return result


def check_range(name: str, value: Any, low: float, high: float = float("inf"), is_high_excluded: bool = False) -> None:
    """Raise UsageError unless a hyperparameter lies in low .. high; a tensor of one element counts as its number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, got {value!r:.60}") from None
    if not (low <= number and (number < high if is_high_excluded else number <= high)):
        bounds = f"at least {low:g}" if high == float("inf") else f"in {low:g} .. {high:g}"
        raise UsageError(f"{name} must be {bounds}{' (excluded)' if is_high_excluded else ''}, got {value}")


def check_betas(betas: Any) -> None:
    """Raise UsageError unless these are two decay rates."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise UsageError(f"betas are two numbers (beta1, beta2), got {betas!r:.60}")
    for i, beta in enumerate(betas):
        check_range(f"betas[{i}]", beta, 0, 1, is_high_excluded=True)


def check_options(optimizer: str, **options: Any) -> None:
    """Raise UsageError for what is accepted where it has no effect alone: ``differentiable``, ``capturable``. (All
    updates are fused: ``foreach`` and ``fused`` may be anything.)"""
    for name, value in options.items():
        if value:
            raise UsageError(f"{optimizer}({name}=True) is not possible: a step is not recorded; leave {name} out")
