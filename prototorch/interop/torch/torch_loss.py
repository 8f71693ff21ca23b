"""The losses in PyTorch, for a training step of the same net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from prototorch import losses
from prototorch.errors import UsageError
from prototorch.losses.base import EPSILON
from prototorch.train.loss_terms import LossTerm

TorchLoss = Callable[[Tensor, Tensor], Tensor]


def torch_losses(terms: Sequence[LossTerm]) -> Callable[[dict[str, Tensor], dict[str, Tensor]], Tensor]:
    """The sum of a model's losses as a function of outputs and targets by output.

    Raises UsageError that names a loss which is not translated.
    """
    weighted_losses = [(t.output, t.factor, _translate_loss(t.loss)) for t in terms]

    def total(outputs: dict[str, Tensor], targets: dict[str, Tensor]) -> Tensor:
        loss: Any = sum(factor * work(outputs[name], targets[name]) for name, factor, work in weighted_losses)
        return loss

    return total


def _translate_loss(loss: Any) -> TorchLoss:
    for kind, make in _TRANSLATORS.items():
        if type(loss) is kind:
            function = make(loss)
            if function is not None:
                return function
    raise UsageError(
        f"the loss {loss!r} cannot be built in PyTorch here; --phase predict compares the nets without a loss"
    )


def _sparse(loss: Any) -> TorchLoss | None:
    if loss.ignore_class is not None:
        return None
    if loss.from_logits:
        return lambda y, t: F.cross_entropy(y if loss.axis == 1 else y.movedim(loss.axis, 1), t)
    return lambda y, t: F.nll_loss(
        (y / y.sum(loss.axis, keepdim=True)).clamp(EPSILON, 1 - EPSILON).log().movedim(loss.axis, 1), t
    )


def _categorical(loss: Any) -> TorchLoss | None:
    if loss.label_smoothing or not loss.from_logits:
        return None
    return lambda y, t: F.cross_entropy(y.movedim(loss.axis, 1), t.movedim(loss.axis, 1))


def _binary(loss: Any) -> TorchLoss | None:
    if loss.label_smoothing:
        return None
    if loss.from_logits:
        return F.binary_cross_entropy_with_logits
    return lambda y, t: F.binary_cross_entropy(y.clamp(EPSILON, 1 - EPSILON), t)


_TRANSLATORS: dict[type[losses.Loss], Callable[[Any], TorchLoss | None]] = {
    losses.SparseCategoricalCrossentropy: _sparse,
    losses.CategoricalCrossentropy: _categorical,
    losses.BinaryCrossentropy: _binary,
    losses.MeanSquaredError: lambda loss: F.mse_loss,
    losses.MeanAbsoluteError: lambda loss: F.l1_loss,
}
