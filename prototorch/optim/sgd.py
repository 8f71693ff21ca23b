"""Gradient descent with momentum, as PyTorch defines it."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.errors import UsageError
from prototorch.optim.formula_optimizer import FormulaOptimizer, StepCounts, check_options, check_range

__all__ = ["SGD"]


class _Variant(NamedTuple):
    momentum: bool
    nesterov: bool
    maximize: bool


class SGD(FormulaOptimizer):
    """Stochastic gradient descent: g + weight_decay p; v = momentum v + (1 - dampening) g (the first v is g); p - lr v,
    or with ``nesterov`` p - lr (g + momentum v).

    Args:
        params: as for `Optimizer`.
        lr: the learning rate.
        momentum, dampening, weight_decay: 0 is none.
        nesterov: Nesterov momentum; needs momentum and no dampening.
        maximize: whether the objective is to grow.
        foreach, fused: accepted as in PyTorch, where they choose an implementation; here all updates are fused.
        differentiable: refused.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_options("SGD", differentiable=differentiable)
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            check_range(name, value, 0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise UsageError("nesterov needs momentum above 0 and no dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def initial_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {}

    def increment_step(self, group: dict[str, Any], state: dict[str, Any]) -> StepCounts:
        is_first = state.pop("is_first", False)
        return (float(is_first),)

    def init_state(self, group: dict[str, Any], p: Any, state: dict[str, Any], names: Any) -> None:
        super().init_state(group, p, state, names)
        if names:
            state["is_first"] = True

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["momentum"] != 0, group["nesterov"], group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        is_first = counts[0]
        momentum = float(group["momentum"])
        return {
            "lr": float(group["lr"]),
            "weight_decay": float(group["weight_decay"]),
            "momentum": momentum,
            "buffer_decay": 0.0 if is_first else momentum,
            "gradient_factor": 1.0 if is_first else 1.0 - group["dampening"],
        }

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        g = (-g if variant.maximize else g) + hyper.weight_decay * w
        if not variant.momentum:
            return (w - hyper.lr * g,)
        (v,) = slots
        v = hyper.buffer_decay * v + hyper.gradient_factor * g
        return w - hyper.lr * (g + hyper.momentum * v if variant.nesterov else v), v
