"""How unlikely the outputs find the targets; and the hinges."""

from __future__ import annotations

from prototorch import losses
from prototorch.metrics.of_loss import OfLoss
from prototorch.schema import example, field


class BinaryCrossentropy(OfLoss):
    """The mean crossentropy of yes/no outputs."""

    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    label_smoothing: float = field(default=0.0, min=0, max=1, doc="The share by which targets are drawn towards 1/2.")
    of = losses.BinaryCrossentropy
    examples = (example("BinaryCrossentropy { from_logits: true }", inputs=[(3,)]),)


class CategoricalCrossentropy(OfLoss):
    """The mean crossentropy of classes, for one-hot or soft targets."""

    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    label_smoothing: float = field(default=0.0, min=0, max=1, doc="The share of the target spread over all classes.")
    axis: int = field(default=-1, doc="The axis of the classes.")
    of = losses.CategoricalCrossentropy
    examples = (example("CategoricalCrossentropy { }", inputs=[(5,)]),)


class SparseCategoricalCrossentropy(OfLoss):
    """The mean crossentropy of classes, for targets that are class numbers."""

    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    ignore_class: int | None = field(default=None, doc="A class number that does not count.")
    axis: int = field(default=-1, doc="The axis of the classes.")
    of = losses.SparseCategoricalCrossentropy
    examples = (example("SparseCategoricalCrossentropy { from_logits: true }", inputs=[(5,)]),)


class KLDivergence(OfLoss):
    """The mean of the sum of t log(t / p)."""

    aliases = ("kld", "KLD")
    of = losses.KLDivergence
    examples = (example("KLDivergence { }", inputs=[(5,)]),)


class Poisson(OfLoss):
    """The mean of output - target log(output)."""

    of = losses.Poisson
    examples = (example("Poisson { }", inputs=[(3,)]),)


class Hinge(OfLoss):
    """The mean of max(1 - target * output, 0)."""

    of = losses.Hinge
    examples = (example("Hinge { }", inputs=[(3,)]),)


class SquaredHinge(OfLoss):
    """The mean of max(1 - target * output, 0)^2."""

    of = losses.SquaredHinge
    examples = (example("SquaredHinge { }", inputs=[(3,)]),)


class CategoricalHinge(OfLoss):
    """The mean of max(best wrong score - right score + 1, 0)."""

    of = losses.CategoricalHinge
    examples = (example("CategoricalHinge { }", inputs=[(5,)]),)
