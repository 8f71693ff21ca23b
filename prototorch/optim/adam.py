"""Adam and AdamW, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from prototorch import ops
from prototorch.optim.formula_optimizer import FormulaOptimizer, StepCounts, check_betas, check_options, check_range

__all__ = ["Adam", "AdamW", "moments"]


class _Variant(NamedTuple):
    amsgrad: bool
    maximize: bool


def moments(hyper: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any]:
    """The moments of the gradient, decayed by hyper.beta2 and the complements of the decay rates."""
    return m + hyper.one_minus_beta1 * (g - m), hyper.beta2 * v + hyper.one_minus_beta2 * g * g


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

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):
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

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["amsgrad"], group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        (t,) = counts
        beta1, beta2 = map(float, group["betas"])
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        is_decoupled = group.get("decoupled_weight_decay", False)
        return {
            "one_minus_beta1": 1 - beta1,
            "beta2": beta2,
            "one_minus_beta2": 1 - beta2,
            "step_size": lr / (1 - beta1**t),
            "inv_sqrt_bias2": 1 / math.sqrt(1 - beta2**t),
            "eps": float(group["eps"]),
            "coupled_decay": 0.0 if is_decoupled else decay,
            "decay_factor": 1 - lr * decay if is_decoupled else 1.0,
        }

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, m: Any, v: Any, *v_max: Any) -> tuple[Any, ...]:
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        w = w * hyper.decay_factor
        m, v = moments(hyper, g, m, v)
        v_max = tuple(ops.maximum(t, v) for t in v_max)
        root = ops.sqrt(v_max[0] if variant.amsgrad else v)
        return w - hyper.step_size * (m / (root * hyper.inv_sqrt_bias2 + hyper.eps)), m, v, *v_max


class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019): p first shrinks by lr weight_decay."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
