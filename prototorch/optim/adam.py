"""Adam and AdamW, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from prototorch import ops
from prototorch.optim.formula_optimizer import FormulaOptimizer, Progress, check_betas, check_options, check_range

__all__ = ["Adam", "AdamW", "moments"]


class _Flags(NamedTuple):
    amsgrad: bool
    maximize: bool


def moments(c: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any]:
    """The moments of the gradient, decayed by c.beta2 and the complements of the decay rates."""
    return m + c.rest1 * (g - m), c.beta2 * v + c.rest2 * g * g


class Adam(FormulaOptimizer):
    """Adam (Kingma and Ba, 2015): p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps).

    Args:
        params: as for `Optimizer`.
        lr: the learning rate.
        betas: the decay rates of the moments.
        eps: added to the root.
        weight_decay: added to the gradient as weight_decay p; with ``decoupled_weight_decay`` p first shrinks by
            lr weight_decay instead (AdamW).
        amsgrad: whether the largest second moment so far is used (Reddi et al., 2018).
        maximize: whether the objective is to grow.
        foreach, fused: accepted as in PyTorch, where they choose an implementation; here all updates are fused.
        capturable, differentiable: refused.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False):  # fmt: skip
        check_options(type(self).__name__, capturable=capturable, differentiable=differentiable)
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            check_range(name, value, 0)
        check_betas(betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return names if group["amsgrad"] else names[:2]

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["amsgrad"], group["maximize"])

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        (t,) = progress
        beta1, beta2 = map(float, group["betas"])
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        is_decoupled = group.get("decoupled_weight_decay", False)
        return {
            "rest1": 1 - beta1,
            "beta2": beta2,
            "rest2": 1 - beta2,
            "rate": lr / (1 - beta1**t),
            "root": 1 / math.sqrt(1 - beta2**t),
            "eps": float(group["eps"]),
            "added": 0.0 if is_decoupled else decay,
            "shrunk": 1 - lr * decay if is_decoupled else 1.0,
        }

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, m: Any, v: Any, *top: Any) -> tuple[Any, ...]:
        g = (-g if flags.maximize else g) + c.added * w
        w = w * c.shrunk
        m, v = moments(c, g, m, v)
        top = tuple(ops.maximum(t, v) for t in top)
        return w - c.rate * (m / (ops.sqrt(top[0] if flags.amsgrad else v) * c.root + c.eps)), m, v, *top


class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019): p first shrinks by lr weight_decay."""

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None):  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)  # fmt: skip
