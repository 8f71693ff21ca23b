"""Adamax, NAdam and RAdam, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from prototorch import ops
from prototorch.optim.adam import moments
from prototorch.optim.formula_optimizer import FormulaOptimizer, Progress, check_betas, check_options, check_range

__all__ = ["Adamax", "NAdam", "RAdam"]


class _Flags(NamedTuple):
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

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["maximize"])

    def shared_coefficients(self, group: dict[str, Any]) -> dict[str, float]:
        """Those of the moments and of weight decay."""
        beta1, beta2 = map(float, group["betas"])
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        is_decoupled = group.get("decoupled_weight_decay", False)
        return {
            "rest1": 1 - beta1,
            "beta2": beta2,
            "rest2": 1 - beta2,
            "eps": float(group["eps"]),
            "added": 0.0 if is_decoupled else decay,
            "shrunk": 1 - lr * decay if is_decoupled else 1.0,
        }


class Adamax(_TwoMoments):
    """Adamax (Kingma and Ba, 2015), Adam with the infinity norm: u = max(beta2 u, |g| + eps);
    p - lr / (1 - beta1^t) m / u. Arguments as for `Adam`."""

    def __init__(self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        beta1 = float(group["betas"][0])
        return {**self.shared_coefficients(group), "rate": float(group["lr"]) / (1 - beta1 ** progress[0])}

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        m, u = slots
        g = (-g if flags.maximize else g) + c.added * w
        m = m + c.rest1 * (g - m)
        u = ops.maximum(c.beta2 * u, ops.abs(g) + c.eps)
        return w - c.rate * (m / u), m, u


class NAdam(_TwoMoments):
    """Adam with Nesterov momentum (Dozat, 2016) and its schedule mu_t = beta1 (1 - 0.5 0.96^(t momentum_decay)).

    Arguments as for `Adam`. State: also ``mu_product``, the product of all mu so far.
    """

    def __init__(self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False):  # fmt: skip
        check_range("momentum_decay", momentum_decay, 0)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })  # fmt: skip

    def initial_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "mu_product": 1.0}

    def advance(self, group: dict[str, Any], state: dict[str, Any]) -> Progress:
        (t,) = super().advance(group, state)
        product = state["mu_product"].array
        product *= self._mu(group, t)
        return t, float(product)

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        t, product = progress
        lr, mu, mu_next = float(group["lr"]), self._mu(group, t), self._mu(group, t + 1)
        return {
            **self.shared_coefficients(group),
            "root": 1 / math.sqrt(1 - float(group["betas"][1]) ** t),
            "gradient_rate": lr * (1 - mu) / (1 - product),
            "momentum_rate": lr * mu_next / (1 - product * mu_next),
        }

    @staticmethod
    def _mu(group: dict[str, Any], t: float) -> float:
        return float(group["betas"][0]) * (1 - 0.5 * 0.96 ** (t * float(group["momentum_decay"])))

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        m, v = slots
        g = (-g if flags.maximize else g) + c.added * w
        w = w * c.shrunk
        m, v = moments(c, g, m, v)
        scale = ops.sqrt(v) * c.root + c.eps
        return w - c.gradient_rate * (g / scale) - c.momentum_rate * (m / scale), m, v


class RAdam(_TwoMoments):
    """Rectified Adam (Liu et al., 2020): without the second moment while its variance is not tractable.

    Arguments as for `Adam`.
    """

    def __init__(self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False):  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })  # fmt: skip

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        (t,) = progress
        beta1, beta2 = map(float, group["betas"])
        correction = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * t * beta2**t / correction  # of the average that the second moment is like
        adaptive, constant = 0.0, 1.0
        if length > 5:
            rectified = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            adaptive, constant = math.sqrt(rectified * correction), 0.0
        rate = float(group["lr"]) / (1 - beta1**t)
        return {**self.shared_coefficients(group), "rate": rate, "adaptive": adaptive, "constant": constant}

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        m, v = slots
        g = (-g if flags.maximize else g) + c.added * w
        w = w * c.shrunk
        m, v = moments(c, g, m, v)
        return w - c.rate * m * (c.adaptive / (ops.sqrt(v) + c.eps) + c.constant), m, v
