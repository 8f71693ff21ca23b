"""Adamax, NAdam and RAdam, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from prototorch import ops
from prototorch.optim.adam import moments
from prototorch.optim.formula_optimizer import FormulaOptimizer, StepCounts, check_betas, check_options, check_range

__all__ = ["Adamax", "NAdam", "RAdam"]


class _Variant(NamedTuple):
    maximize: bool


class _TwoMoments(FormulaOptimizer):
    """What methods with two decay rates have in common."""

    def __init__(self, params: Any, options: dict[str, Any]):
        check_options(type(self).__name__, capturable=options["capturable"], differentiable=options["differentiable"])
        for name in ("lr", "eps", "weight_decay"):
            check_range(name, options[name], 0)
        check_betas(options["betas"])
        super().__init__(params, options)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"])

    def shared_coefficients(self, group: dict[str, Any]) -> dict[str, float]:
        """Those of the moments and of weight decay."""
        beta1, beta2 = map(float, group["betas"])
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        is_decoupled = group.get("decoupled_weight_decay", False)
        return {
            "one_minus_beta1": 1 - beta1,
            "beta2": beta2,
            "one_minus_beta2": 1 - beta2,
            "eps": float(group["eps"]),
            "coupled_decay": 0.0 if is_decoupled else decay,
            "decay_factor": 1 - lr * decay if is_decoupled else 1.0,
        }


class Adamax(_TwoMoments):
    """Adamax (Kingma and Ba, 2015), Adam with the infinity norm: u = max(beta2 u, |g| + eps);
    p - lr / (1 - beta1^t) m / u. Arguments as for `Adam`."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        beta1 = float(group["betas"][0])
        return {**self.shared_coefficients(group), "step_size": float(group["lr"]) / (1 - beta1 ** counts[0])}

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        m, u = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        m = m + hyper.one_minus_beta1 * (g - m)
        u = ops.maximum(hyper.beta2 * u, ops.abs(g) + hyper.eps)
        return w - hyper.step_size * (m / u), m, u


class NAdam(_TwoMoments):
    """Adam with Nesterov momentum (Dozat, 2016) and its schedule mu_t = beta1 (1 - 0.5 0.96^(t momentum_decay)).

    Arguments as for `Adam`. State: also ``mu_product``, the product of all mu so far.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        check_range("momentum_decay", momentum_decay, 0)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })  # fmt: skip

    def initial_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "mu_product": 1.0}

    def increment_step(self, group: dict[str, Any], state: dict[str, Any]) -> StepCounts:
        (t,) = super().increment_step(group, state)
        product = state["mu_product"].array
        product *= self._mu(group, t)
        return t, float(product)

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        t, product = counts
        lr, mu, mu_next = float(group["lr"]), self._mu(group, t), self._mu(group, t + 1)
        return {
            **self.shared_coefficients(group),
            "inv_sqrt_bias2": 1 / math.sqrt(1 - float(group["betas"][1]) ** t),
            "gradient_rate": lr * (1 - mu) / (1 - product),
            "momentum_rate": lr * mu_next / (1 - product * mu_next),
        }

    @staticmethod
    def _mu(group: dict[str, Any], t: float) -> float:
        return float(group["betas"][0]) * (1 - 0.5 * 0.96 ** (t * float(group["momentum_decay"])))

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        m, v = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        w = w * hyper.decay_factor
        m, v = moments(hyper, g, m, v)
        scale = ops.sqrt(v) * hyper.inv_sqrt_bias2 + hyper.eps
        return w - hyper.gradient_rate * (g / scale) - hyper.momentum_rate * (m / scale), m, v


class RAdam(_TwoMoments):
    """Rectified Adam (Liu et al., 2020): without the second moment while its variance is not tractable.

    Arguments as for `Adam`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })  # fmt: skip

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        (t,) = counts
        beta1, beta2 = map(float, group["betas"])
        correction = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * t * beta2**t / correction  # of the average that the second moment is like
        adaptive, constant = 0.0, 1.0
        if length > 5:
            rectified = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            adaptive, constant = math.sqrt(rectified * correction), 0.0
        step_size = float(group["lr"]) / (1 - beta1**t)
        return {**self.shared_coefficients(group), "step_size": step_size, "adaptive": adaptive, "constant": constant}

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        m, v = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        w = w * hyper.decay_factor
        m, v = moments(hyper, g, m, v)
        return w - hyper.step_size * m * (hyper.adaptive / (ops.sqrt(v) + hyper.eps) + hyper.constant), m, v
