"""RMSprop, Adagrad and Adadelta, as PyTorch defines them: steps divided by the size of past gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch import ops
from prototorch.eager.tensor import Tensor
from prototorch.optim.formula_optimizer import FormulaOptimizer, Progress, check_options, check_range, full_tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class _Flags(NamedTuple):
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

    def __init__(self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False):  # fmt: skip
        check_options("RMSprop", capturable=capturable, differentiable=differentiable)
        for name, value in (("lr", lr), ("eps", eps), ("momentum", momentum), ("weight_decay", weight_decay),
                            ("alpha", alpha)):  # fmt: skip
            check_range(name, value, 0)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        })  # fmt: skip

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["maximize"], group["momentum"] > 0, group["centered"])

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        alpha = float(group["alpha"])
        return {
            "lr": float(group["lr"]),
            "alpha": alpha,
            "rest": 1 - alpha,
            "eps": float(group["eps"]),
            "momentum": float(group["momentum"]),
            "added": float(group["weight_decay"]),
        }

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        v, *others = slots
        g = (-g if flags.maximize else g) + c.added * w
        v = c.alpha * v + c.rest * g * g
        spread = v
        if flags.centered:
            mean = others[-1] + c.rest * (g - others[-1])
            others[-1] = mean
            spread = v - mean * mean
        step = g / (ops.sqrt(spread) + c.eps)
        if flags.momentum:
            step = others[0] = c.momentum * others[0] + step
        return w - c.lr * step, v, *others


class Adagrad(FormulaOptimizer):
    """Adagrad (Duchi et al., 2011): p - lr / (1 + (t - 1) lr_decay) g / (sqrt(sum of squares) + eps).

    Args:
        params, lr, weight_decay, maximize, foreach, fused, differentiable: as for `prototorch.optim.Adam`.
        lr_decay: of the learning rate.
        initial_accumulator_value: of the sums.
        eps: added to the root.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None):  # fmt: skip
        check_options("Adagrad", differentiable=differentiable)
        for name, value in (("lr", lr), ("lr_decay", lr_decay), ("weight_decay", weight_decay), ("eps", eps),
                            ("initial_accumulator_value", initial_accumulator_value)):  # fmt: skip
            check_range(name, value, 0)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self.begin(group, p, self.state[p], self.slots(group))

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def initial_slot(self, group: dict[str, Any], name: str, p: Tensor) -> Tensor:
        return full_tensor(p, float(group["initial_accumulator_value"]))

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["maximize"])

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        rate = float(group["lr"]) / (1 + (progress[0] - 1) * float(group["lr_decay"]))
        return {"rate": rate, "eps": float(group["eps"]), "added": float(group["weight_decay"])}

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        (total,) = slots
        g = (-g if flags.maximize else g) + c.added * w
        total = total + g * g
        return w - c.rate * (g / (ops.sqrt(total) + c.eps)), total


class Adadelta(FormulaOptimizer):
    """Adadelta (Zeiler, 2012): p - lr sqrt(mean square of steps + eps) / sqrt(mean square + eps) g.

    Args:
        params, lr, weight_decay, maximize, foreach, capturable, differentiable: as for `prototorch.optim.Adam`.
        rho: the decay rate of the mean squares.
        eps: added under the roots.

    Raises UsageError for hyperparameters out of range.
    """

    def __init__(self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False):  # fmt: skip
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

    def flags(self, group: dict[str, Any], progress: Progress) -> _Flags:
        return _Flags(group["maximize"])

    def coefficients(self, group: dict[str, Any], progress: Progress) -> dict[str, float]:
        rho = float(group["rho"])
        return {
            "lr": float(group["lr"]),
            "rho": rho,
            "rest": 1 - rho,
            "eps": float(group["eps"]),
            "added": float(group["weight_decay"]),
        }

    @staticmethod
    def formula(flags: _Flags, w: Any, g: Any, c: Any, *slots: Any) -> tuple[Any, ...]:
        squares, steps = slots
        g = (-g if flags.maximize else g) + c.added * w
        squares = c.rho * squares + c.rest * g * g
        step = ops.sqrt(steps + c.eps) / ops.sqrt(squares + c.eps) * g
        steps = c.rho * steps + c.rest * step * step
        return w - c.lr * step, squares, steps
