"""Losses of margins as modules; ``reduction`` as in the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.nn import functional as F
from prototorch.nn.modules.distance import PairwiseDistance
from prototorch.nn.modules.loss import Loss, WeightedLoss

__all__ = ["CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "MultiLabelMarginLoss",
           "MultiLabelSoftMarginLoss", "MultiMarginLoss", "SoftMarginLoss", "TripletMarginLoss",
           "TripletMarginWithDistanceLoss"]  # fmt: skip


class HingeEmbeddingLoss(Loss):
    """The input where the target is 1, max(0, margin - input) where it is -1."""

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + exp(-target * input)), with a target of 1 or -1."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and a target of one shape."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1."""

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss of inputs [batch, n] and a target [batch]."""
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(Loss):
    """max(0, -target * (input1 - input2) + margin), with a target of 1 or -1."""

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss of two inputs and a target of one shape."""
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """The margins of the label to all other classes; see `nn.functional.multi_margin_loss`."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.p, self.margin = p, margin

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input [batch, classes] and labels [batch]."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(Loss):
    """The margins of several labels to all other classes; see `nn.functional.multilabel_margin_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of an input and labels [batch, classes]."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """The mean over classes of the binary cross entropy of sigmoid(input)."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of logits and targets [batch, classes]."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); see `nn.functional.triplet_margin_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss of three inputs [batch, n]."""
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(Loss):
    """As `TripletMarginLoss`, with a distance of one's own."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ):
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss of three inputs."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
