"""Crossentropies and hinges as metrics."""

from __future__ import annotations

from prototorch import losses
from prototorch.metrics.loss_metric import LossAsMetric
from prototorch.schema import example, field


class BinaryCrossentropy(LossAsMetric):
    """The mean binary crossentropy."""

    positional = ()
    aliases = ("bce", "BCE")

    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    label_smoothing: float = field(default=0.0, min=0, max=1, doc="The share by which targets are moved towards 1/2.")
    loss_class = losses.BinaryCrossentropy
    examples = (example("BinaryCrossentropy { from_logits: true }", inputs=[(3,)]),)


class CategoricalCrossentropy(LossAsMetric):
    """The mean crossentropy of classes, for one-hot or soft targets."""

    positional = ()
    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    label_smoothing: float = field(default=0.0, min=0, max=1, doc="The share of the target given to all classes.")
    axis: int = field(default=-1, doc="The axis of the classes.")
    loss_class = losses.CategoricalCrossentropy
    examples = (example("CategoricalCrossentropy { }", inputs=[(5,)]),)


class SparseCategoricalCrossentropy(LossAsMetric):
    """The mean crossentropy of classes, for targets that are class indices."""

    positional = ()
    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    ignore_class: int | None = field(default=None, doc="A class index that is ignored.")
    axis: int = field(default=-1, doc="The axis of the classes.")
    loss_class = losses.SparseCategoricalCrossentropy
    examples = (example("SparseCategoricalCrossentropy { from_logits: true }", inputs=[(5,)]),)


class KLDivergence(LossAsMetric):
    """The mean of the sum of t log(t / p)."""

    aliases = ("kld", "KLD")
    loss_class = losses.KLDivergence
    examples = (example("KLDivergence { }", inputs=[(5,)]),)


class Poisson(LossAsMetric):
    """The mean of output - target log(output)."""

    loss_class = losses.Poisson
    examples = (example("Poisson { }", inputs=[(3,)]),)


class Hinge(LossAsMetric):
    """The mean of max(1 - target * output, 0)."""

    loss_class = losses.Hinge
    examples = (example("Hinge { }", inputs=[(3,)]),)


class SquaredHinge(LossAsMetric):
    """The mean of max(1 - target * output, 0)^2."""

    loss_class = losses.SquaredHinge
    examples = (example("SquaredHinge { }", inputs=[(3,)]),)


class CategoricalHinge(LossAsMetric):
    """The mean of max(best wrong score - right score + 1, 0)."""

    loss_class = losses.CategoricalHinge
    examples = (example("CategoricalHinge { }", inputs=[(5,)]),)
