"""RMSprop, Adagrad and Adadelta, as PyTorch defines them: steps divided by the size of past gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch import ops
from prototorch.eager.tensor import Tensor
from prototorch.optim.formula_optimizer import FormulaOptimizer, StepCounts, check_options, check_range, full_tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class _Variant(NamedTuple):
    maximize: bool
    momentum: bool = False
    centered: bool = False


class RMSprop(FormulaOptimizer):
    """RMSprop (Hinton's lecture 6): p - lr g / (sqrt(mean square) + eps).

    Args:
        params, lr, weight_decay, maximize, foreach, capturable, differentiable: as for `prototorch.optim.Adam`.
        alpha: the decay rate of the mean square.
        eps: added to the root.
        momentum: of the steps; 0 is none.
        centered: whether the mean of the gradient is subtracted: the variance, in place of the mean square.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options("RMSprop", capturable=capturable, differentiable=differentiable)
        for name, value in (
            ("lr", lr),
            ("eps", eps),
            ("momentum", momentum),
            ("weight_decay", weight_decay),
            ("alpha", alpha),
        ):
            check_range(name, value, 0)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"], group["momentum"] > 0, group["centered"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        alpha = float(group["alpha"])
        return {
            "lr": float(group["lr"]),
            "alpha": alpha,
            "one_minus_alpha": 1 - alpha,
            "eps": float(group["eps"]),
            "momentum": float(group["momentum"]),
            "coupled_decay": float(group["weight_decay"]),
        }

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        v, *others = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        v = hyper.alpha * v + hyper.one_minus_alpha * g * g
        variance = v
        if variant.centered:
            mean = others[-1] + hyper.one_minus_alpha * (g - others[-1])
            others[-1] = mean
            variance = v - mean * mean
        step = g / (ops.sqrt(variance) + hyper.eps)
        if variant.momentum:
            step = others[0] = hyper.momentum * others[0] + step
        return w - hyper.lr * step, v, *others


class Adagrad(FormulaOptimizer):
    """Adagrad (Duchi et al., 2011): p - lr / (1 + (t - 1) lr_decay) g / (sqrt(sum of squares) + eps).

    Args:
        params, lr, weight_decay, maximize, foreach, fused, differentiable: as for `prototorch.optim.Adam`.
        lr_decay: of the learning rate.
        initial_accumulator_value: of the sums.
        eps: added to the root.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_options("Adagrad", differentiable=differentiable)
        for name, value in (
            ("lr", lr),
            ("lr_decay", lr_decay),
            ("weight_decay", weight_decay),
            ("eps", eps),
            ("initial_accumulator_value", initial_accumulator_value),
        ):
            check_range(name, value, 0)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self.init_state(group, p, self.state[p], self.slots(group))

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def initial_slot(self, group: dict[str, Any], name: str, p: Tensor) -> Tensor:
        return full_tensor(p, float(group["initial_accumulator_value"]))

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        step_size = float(group["lr"]) / (1 + (counts[0] - 1) * float(group["lr_decay"]))
        return {"step_size": step_size, "eps": float(group["eps"]), "coupled_decay": float(group["weight_decay"])}

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        (total,) = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        total = total + g * g
        return w - hyper.step_size * (g / (ops.sqrt(total) + hyper.eps)), total


class Adadelta(FormulaOptimizer):
    """Adadelta (Zeiler, 2012): p - lr sqrt(mean square of steps + eps) / sqrt(mean square + eps) g.

    Args:
        params, lr, weight_decay, maximize, foreach, capturable, differentiable: as for `prototorch.optim.Adam`.
        rho: the decay rate of the mean squares.
        eps: added under the roots.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options("Adadelta", capturable=capturable, differentiable=differentiable)
        check_range("rho", rho, 0, 1)
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            check_range(name, value, 0)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def variant(self, group: dict[str, Any], counts: StepCounts) -> _Variant:
        return _Variant(group["maximize"])

    def coefficients(self, group: dict[str, Any], counts: StepCounts) -> dict[str, float]:
        rho = float(group["rho"])
        return {
            "lr": float(group["lr"]),
            "rho": rho,
            "one_minus_rho": 1 - rho,
            "eps": float(group["eps"]),
            "coupled_decay": float(group["weight_decay"]),
        }

    @staticmethod
    def formula(variant: _Variant, w: Any, g: Any, hyper: Any, *slots: Any) -> tuple[Any, ...]:
        squares, steps = slots
        g = (-g if variant.maximize else g) + hyper.coupled_decay * w
        squares = hyper.rho * squares + hyper.one_minus_rho * g * g
        step = ops.sqrt(steps + hyper.eps) / ops.sqrt(squares + hyper.eps) * g
        steps = hyper.rho * steps + hyper.one_minus_rho * step * step
        return w - hyper.lr * step, squares, steps
