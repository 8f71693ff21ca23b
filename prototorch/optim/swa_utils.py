"""Averages of a model's parameters during training (Izmailov et al., 2018), by PyTorch's names."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prototorch.eager.functions.creation import tensor
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.nn.module import Module
from prototorch.optim.lr_scheduler.base import GroupScheduler, check_optimizer, per_group
from prototorch.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

#: (average, new value, number of values in the average) -> the new average
AverageFn = Callable[[Tensor, Tensor, Tensor], Tensor]
#: the same for all parameters, in place
MultiAverageFn = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def get_swa_avg_fn() -> AverageFn:
    """The mean of all values."""
    return lambda average, value, count: average + (value - average) / (count + 1)


def get_ema_avg_fn(decay: float = 0.999) -> AverageFn:
    """The exponential moving average: decay average + (1 - decay) value. Raises UsageError unless 0 <= decay <= 1."""
    if not 0 <= decay <= 1:
        raise UsageError(f"decay must be in 0 .. 1, got {decay}")
    return lambda average, value, count: average * decay + value * (1 - decay)


def _for_all(function: AverageFn) -> MultiAverageFn:
    def update(averages: Sequence[Tensor], values: Sequence[Tensor], count: Tensor) -> None:
        for average, value in zip(averages, values, strict=True):
            assign(average, function(average, value, count), "an average")

    return update


def get_swa_multi_avg_fn() -> MultiAverageFn:
    """As `get_swa_avg_fn`, of all parameters in place."""
    return _for_all(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverageFn:
    """As `get_ema_avg_fn`, of all parameters in place."""
    return _for_all(get_ema_avg_fn(decay))


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those that the model has at each `update_parameters`.

    Args:
        model: is copied, as ``module``.
        device: where the copy is; default: where the model is.
        avg_fn: makes a new average of (average, parameter, number of updates); default: the mean.
        multi_avg_fn: in its place, overwrites lists of averages.
        use_buffers: whether buffers are averaged as well; otherwise they are copied.

    Raises UsageError where both functions are given.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageFn | None = None,
        multi_avg_fn: MultiAverageFn | None = None,
        use_buffers: bool = False,
    ):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise UsageError("give one of avg_fn and multi_avg_fn")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The averaged model's."""
        return self.module(*inputs, **options)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the average; the first ones are the average."""
        pairs = list(zip(self._averages(self.module), self._averages(model), strict=True))
        averages = [average.detach() for average, _ in pairs]
        values = [value.detach().to(average.device) for average, value in pairs]
        count: Tensor = self.n_averaged
        with no_grad():
            if int(count) == 0:
                for average, value in zip(averages, values, strict=True):
                    assign(average, value, "an average")
            else:
                is_float = [average.spec.is_float for average in averages]
                update = self.multi_avg_fn or _for_all(self.avg_fn or get_swa_avg_fn())
                update(
                    [a for a, f in zip(averages, is_float, strict=True) if f],
                    [v for v, f in zip(values, is_float, strict=True) if f],
                    count,
                )
                for average, value, is_averaged in zip(averages, values, is_float, strict=True):
                    if not is_averaged:
                        assign(average, value, "an average")
            if not self.use_buffers:
                for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    assign(own.detach(), other.detach().to(own.device), "an average")
            assign(count, count + 1, "an average")

    def _averages(self, model: Module) -> list[Tensor]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch normalizations anew, in one pass over a loader.

    The first element of a batch that is a list or a tuple is the input. Does nothing for a model without them.
    """
    norms = [m for m in model.modules() if getattr(m, "running_mean", None) is not None and hasattr(m, "momentum")]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    phase = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    try:
        model.train()
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(phase)


class SWALR(GroupScheduler):
    """From the rates of the begin to ``swa_lr``, a number or a list with one for each group, in ``anneal_epochs``.

    anneal_strategy: "cos" or "linear". Raises UsageError for another one, and a negative ``anneal_epochs``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):
        check_optimizer(optimizer)
        if anneal_strategy not in ("cos", "linear"):
            raise UsageError(f"anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise UsageError(f"anneal_epochs must be an integer of at least 0, got {anneal_epochs!r:.60}")
        self.anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        end = float(self.optimizer.param_groups[group]["swa_lr"])
        before, now = self._share(step - 1), self._share(step)
        begin = end if before == 1 else (last - before * end) / (1 - before)
        return end * now + begin * (1 - now)

    def _share(self, step: float) -> float:
        share = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return share if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * share)) / 2
