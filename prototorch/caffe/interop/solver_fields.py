"""What the fields of a Caffe solver say: its optimizer, and the learning rate of each iteration.

Source: ``src/caffe/solvers`` of BVLC/caffe at 9b89154.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.errors import PrototorchError, did_you_mean
from prototorch.optimizers import SGD, Adadelta, Adagrad, Adam, Optimizer, RMSprop
from prototorch.optimizers.schedules import (
    ConstantSchedule,
    ExponentialDecay,
    InversePowerDecay,
    PiecewiseConstantDecay,
    PolynomialDecay,
    Schedule,
    SigmoidSchedule,
    StepDecay,
)

__all__ = ["HISTORY_SLOTS", "LearningRate", "check_solver", "translate_optimizer", "translate_schedule"]

#: by type: the slots of our optimizer in the order of Caffe's history, and the factor of their values there
HISTORY_SLOTS: dict[str, dict[str, float]] = {
    "SGD": {"momentum": -1.0},
    "Nesterov": {"momentum": -1.0},
    "AdaGrad": {"accumulator": 1.0},
    "RMSProp": {"velocity": 1.0},
    "AdaDelta": {"accumulated_grad": 1.0, "accumulated_delta": 1.0},
    "Adam": {"momentum": 1.0, "velocity": 1.0},
}
POLICIES = ("fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid")
_SMALLEST_NORM = 1e-38  # clip_gradients: 0 makes all gradients 0


def check_solver(solver: Message) -> None:
    """Raise TextError, with the place, for a SolverParameter whose optimizer or learning rate means nothing."""
    kind, policy = solver["type"], solver["lr_policy"]
    if kind not in HISTORY_SLOTS:
        _fail(
            solver,
            "type",
            f"there is no solver type {kind!r}; there are {', '.join(HISTORY_SLOTS)}."
            f"{did_you_mean(kind, HISTORY_SLOTS)}",
        )
    if policy not in POLICIES:
        stated = f"there is no lr_policy {policy!r}" if policy else "the solver has no lr_policy"
        _fail(solver, "lr_policy", f"{stated}; there are {', '.join(POLICIES)}.{did_you_mean(policy, POLICIES)}")
    if kind in ("AdaGrad", "RMSProp") and solver["momentum"]:
        _fail(solver, "momentum", f"{kind} has no momentum; leave out momentum: {solver['momentum']:g}")
    if solver["weight_decay"] and solver["regularization_type"] not in ("L1", "L2"):
        _fail(solver, "regularization_type", f"regularization_type is L1 or L2, not {solver['regularization_type']!r}")
    if policy in ("step", "sigmoid") and solver["stepsize"] < 1:
        _fail(solver, "stepsize", f"lr_policy {policy!r} needs a stepsize of at least 1, not {solver['stepsize']}")
    if policy in ("step", "exp", "inv", "multistep", "sigmoid") and not solver["gamma"] >= 0:
        _fail(solver, "gamma", f"lr_policy {policy!r} needs a gamma of at least 0, not {solver['gamma']:g}")
    if policy == "poly" and solver["max_iter"] < 1:
        _fail(solver, "max_iter", "lr_policy 'poly' needs a max_iter of at least 1")
    for name in ("iter_size", "average_loss"):
        if solver[name] < 1:
            _fail(solver, name, f"{name} must be at least 1, not {solver[name]}")


def translate_optimizer(solver: Message, learning_rate: float | Schedule = 1.0) -> Optimizer:
    """The optimizer of a SolverParameter in its newest form. Raises TextError for values that it cannot have.

    Its steps are Caffe's: clipping of the sum over ``iter_size`` batches, their mean, weight decay through the
    gradient, and the update. learning_rate: of the optimizer; `translate_schedule` gives the solver's own.
    """
    check_solver(solver)
    decay, count = solver["weight_decay"], solver["iter_size"]
    fields: dict[str, Any] = {"learning_rate": learning_rate}
    if decay:
        fields[solver["regularization_type"].lower()] = decay
    if solver["clip_gradients"] >= 0:  # Caffe clips the sum of the gradients, we their mean
        fields["global_clipnorm"] = max(solver["clip_gradients"], _SMALLEST_NORM) / count
    if count > 1:
        fields["gradient_accumulation_steps"] = count
    try:
        return _OPTIMIZERS[solver["type"]](solver, fields)
    except PrototorchError as error:
        fail_at(f"solver {solver['type']}: {error}", solver.span)


def _sgd(solver: Message, fields: dict[str, Any]) -> Optimizer:
    return SGD(momentum=solver["momentum"], nesterov=solver["type"] == "Nesterov", **fields)


def _adagrad(solver: Message, fields: dict[str, Any]) -> Optimizer:
    return Adagrad(initial_accumulator_value=0.0, epsilon=solver["delta"], epsilon_inside_root=False, **fields)


def _rmsprop(solver: Message, fields: dict[str, Any]) -> Optimizer:
    return RMSprop(rho=solver["rms_decay"], epsilon=solver["delta"], epsilon_inside_root=False, **fields)


def _adadelta(solver: Message, fields: dict[str, Any]) -> Optimizer:
    return Adadelta(rho=solver["momentum"], epsilon=solver["delta"], **fields)


def _adam(solver: Message, fields: dict[str, Any]) -> Optimizer:
    return Adam(beta_1=solver["momentum"], beta_2=solver["momentum2"], epsilon=solver["delta"], **fields)


_OPTIMIZERS: dict[str, Callable[[Message, dict[str, Any]], Optimizer]] = {
    "SGD": _sgd,
    "Nesterov": _sgd,
    "AdaGrad": _adagrad,
    "RMSProp": _rmsprop,
    "AdaDelta": _adadelta,
    "Adam": _adam,
}


def translate_schedule(solver: Message) -> Schedule:
    """The learning rate of a SolverParameter as a schedule over updates."""
    check_solver(solver)
    policy, rate, gamma = solver["lr_policy"], solver["base_lr"], solver["gamma"]
    if policy == "step":
        return StepDecay(rate, step_size=solver["stepsize"], gamma=gamma)
    if policy == "exp":
        return ExponentialDecay(rate, decay_steps=1, decay_rate=gamma)
    if policy == "inv":
        return InversePowerDecay(rate, gamma=gamma, power=solver["power"])
    if policy == "multistep":
        steps = sorted({max(value - 1, 0) for value in solver["stepvalue"]})
        return PiecewiseConstantDecay(steps, [rate * gamma**i for i in range(len(steps) + 1)])
    if policy == "poly":
        return PolynomialDecay(rate, decay_steps=solver["max_iter"], end_learning_rate=0.0, power=solver["power"])
    if policy == "sigmoid":
        return SigmoidSchedule(rate, gamma=gamma, step_size=solver["stepsize"])
    return ConstantSchedule(rate)


class LearningRate:
    """The learning rate of each iteration, in Caffe's own arithmetic.

    current_step: the falls so far of the policies step and multistep; a part of the solver's state. Of multistep it
    rises by at most one in an iteration, so that the rate is no function of the iteration alone.
    """

    def __init__(self, solver: Message):
        self._solver = solver
        self.current_step = 0

    def peek(self, iteration: int) -> float:
        """The rate that `next` would give."""
        step = self.current_step
        try:
            return self.next(iteration)
        finally:
            self.current_step = step

    def next(self, iteration: int) -> float:
        """The rate of an iteration (from 0), for which this is called once. Raises TextError for one that is no finite
        number."""
        try:
            rate = self._compute(iteration)
        except (OverflowError, ZeroDivisionError):
            rate = math.inf
        if not math.isfinite(rate):
            _fail(
                self._solver,
                "lr_policy",
                f"the learning rate of iteration {iteration} is {rate}, by lr_policy {self._solver['lr_policy']!r}",
            )
        return rate

    def _compute(self, iteration: int) -> float:
        solver = self._solver
        policy, base, gamma = solver["lr_policy"], solver["base_lr"], solver["gamma"]
        if policy == "step":
            self.current_step = iteration // solver["stepsize"]
        elif policy == "multistep":
            values = solver["stepvalue"]
            if self.current_step < len(values) and iteration >= values[self.current_step]:
                self.current_step += 1
        if policy in ("step", "multistep"):
            return float(base * gamma**self.current_step)
        if policy == "inv":  # gamma * iteration is a float32 product there, in double precision, too
            product = float(np.float32(gamma) * np.float32(iteration))
            return float(base * (1.0 + product) ** -solver["power"])
        if policy == "poly":
            return _power(base, 1.0 - iteration / solver["max_iter"], solver["power"], solver)
        return float(translate_schedule(solver).value(iteration))


def _power(base: float, left: float, power: float, solver: Message) -> float:
    """base * left ^ power of the policy poly."""
    if left < 0 and not float(power).is_integer():
        _fail(solver, "max_iter", "lr_policy 'poly' has no learning rate behind max_iter; raise max_iter")
    return math.nan if left == 0 and power < 0 else float(base * left**power)


def _fail(solver: Message, field: str, text: str) -> NoReturn:
    fail_at(f"{text}", solver.field_span(field))
