"""Rprop and averaged gradient descent, as PyTorch defines them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prototorch import ops
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.optim.formula_optimizer import FormulaOptimizer, StepCounts, check_options, check_range, full_tensor

__all__ = ["ASGD", "Rprop"]


class _Variant(NamedTuple):
    maximize: bool


class Rprop(FormulaOptimizer):
    """Resilient backpropagation (Riedmiller and Braun, 1993): a step size for each element, from the gradient's sign.

    Args:
        params, lr, maximize, foreach, capturable, differentiable: as for `prototorch.optim.Adam`; lr is the first step
            size.
        etas: the factors of a step size after a change of sign, and without one.
        step_sizes: the smallest and the largest step size.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options("Rprop", capturable=capturable, differentiable=differentiable)
        check_range("lr", lr, 0)
        if not 0 < etas[0] < 1 < etas[1]:
            raise UsageError(f"etas must be one number below and one above 1, got {etas}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size")

    def initial_slot(self, group: dict[str, Any], name: str, p: Tensor) -> Tensor:
        return full_tensor(p, float(group["lr"]) if name == "step_size" else 0.0)

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        (small, large), (lowest, highest) = group["etas"], group["step_sizes"]
        return {"small": float(small), "large": float(large), "lowest": float(lowest), "highest": float(highest)}

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        before, size = slots
        g = -g if variant.maximize else g
        agreement = g * before
        has_turned = ops.less(agreement, 0.0)
        factor = ops.where(ops.greater(agreement, 0.0), hyper.large, ops.where(has_turned, hyper.small, 1.0))
        size = ops.minimum(ops.maximum(size * factor, hyper.lowest), hyper.highest)
        g = ops.where(has_turned, 0.0, g)
        return w - ops.sign(g) * size, g, size


class ASGD(FormulaOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992): the state ``ax`` is the average of p.

    Args:
        params, weight_decay, maximize, foreach, capturable, differentiable: as for `prototorch.optim.Adam`.
        lr: the learning rate at first; eta = lr / (1 + lambd lr t)^alpha in step t + 1.
        lambd: p shrinks by lambd eta in each step.
        alpha: the power of the decay of eta.
        t0: the step from which on p is averaged.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        check_options("ASGD", capturable=capturable, differentiable=differentiable)
        check_range("lr", lr, 0)
        check_range("weight_decay", weight_decay, 0)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def initial_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "eta": float(group["lr"]), "mu": 1.0}

    def increment_step(self, group: dict[str, Any], state: dict[str, Any]) -> StepCounts:
        (t,) = super().increment_step(group, state)
        eta, mu = state["eta"].array, state["mu"].array
        used = float(eta), float(mu)
        lr = float(group["lr"])
        # PyTorch keeps both as float32 numbers, whatever the parameter's dtype
        eta[...] = np.float32(lr / (1 + float(group["lambd"]) * lr * t) ** float(group["alpha"]))
        mu[...] = np.float32(1 / max(1.0, t - float(group["t0"])))
        return used

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        eta, mu = counts
        decay_factor = 1 - float(group["lambd"]) * eta
        return {
            "eta": eta,
            "mu": mu,
            "one_minus_mu": 1 - mu,
            "decay_factor": decay_factor,
            "coupled_decay": float(group["weight_decay"]),
        }

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        (average,) = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        w = w * hyper.decay_factor - hyper.eta * g
        return w, hyper.mu * w + hyper.one_minus_mu * average
