"""Gradient descent with momentum, as PyTorch defines it."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.errors import UsageError
from prototorch.optim.formula_optimizer import FormulaOptimizer, Progress, check_options, check_range

__all__ = ["SGD"]


class _Flags(NamedTuple):
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

    def __init__(self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None):  # fmt: skip
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

    def advance(self, group: dict[str, Any], state: dict[str, Any]) -> Progress:
        is_first = state.pop("is_first", False)
        return (float(is_first),)

    def begin(self, group: dict[str, Any], p: Any, state: dict[str, Any], names: Any) -> None:
        super().begin(group, p, state, names)
        if names:
            state["is_first"] = True

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["momentum"] != 0, group["nesterov"], group["maximize"])

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        is_first = progress[0]
        momentum = float(group["momentum"])
        return {
            "lr": float(group["lr"]),
            "weight_decay": float(group["weight_decay"]),
            "momentum": momentum,
            "kept": 0.0 if is_first else momentum,
            "added": 1.0 if is_first else 1.0 - group["dampening"],
        }

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        g = (-g if flags.maximize else g) + c.weight_decay * w
        if not flags.momentum:
            return (w - c.lr * g,)
        (v,) = slots
        v = c.kept * v + c.added * g
        return w - c.lr * (g + c.momentum * v if flags.nesterov else v), v
