"""Losses as modules. ``reduction``: "mean" (the default), "sum" or "none"; the older ``size_average`` and ``reduce``
become one of them, with a warning."""

from __future__ import annotations

from typing import Any

from prototorch.nn import functional as F
from prototorch.nn.module import Module
from prototorch.nn.reduction import check_reduction

__all__ = ["BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HuberLoss", "KLDivLoss", "L1Loss",
           "MSELoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss"]  # fmt: skip


class Loss(Module):
    """A loss with a reduction."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        name = type(self).__name__
        self.reduction = (
            reduction
            if reduction == "batchmean" and size_average is None and reduce is None
            else (check_reduction(name, reduction, size_average, reduce))
        )


class WeightedLoss(Loss):
    """A loss with weights, a buffer ``weight``."""

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(Loss):
    """|input - target|."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """(input - target)^2."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, of the difference d."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), of the difference d."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(Loss):
    """target * (log(target) - input), of log probabilities; reduction also "batchmean". See `nn.functional.kl_div`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of log probabilities and probabilities of one shape."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(Loss):
    """The negative log likelihood of Poisson distributions; see `nn.functional.poisson_nll_loss`."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Any, target: Any) -> Any:
        """The loss of rates (or their logarithms) and counts of one shape."""
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(Loss):
    """The negative log likelihood of normal distributions; see `nn.functional.gaussian_nll_loss`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        """The loss of means, targets and variances."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class NLLLoss(WeightedLoss):
    """The negative log probability of the label; see `nn.functional.nll_loss`."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of log probabilities [batch, classes, ...] and labels [batch, ...]."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """PyTorch's older name of `NLLLoss`."""


class CrossEntropyLoss(WeightedLoss):
    """The cross entropy of logits with labels or probabilities; see `nn.functional.cross_entropy`."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of logits [batch, classes, ...] and labels [batch, ...], or probabilities."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(WeightedLoss):
    """The binary cross entropy of probabilities; see `nn.functional.binary_cross_entropy`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of probabilities and targets of one shape."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """The binary cross entropy of logits; see `nn.functional.binary_cross_entropy_with_logits`."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of logits and targets of one shape."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
