"""The ends of random nets: outputs with losses that take them, and metrics that go with the losses."""

from __future__ import annotations

from random import Random
from typing import Any

from prototorch.errors import PrototorchError
from prototorch.layers.base import Layer
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.train.config import OutputLoss, OutputMetric
from tests.nets.random_fields import drawn

#: what outputs must be for a loss: the activation that makes them so, by the loss; where it takes logits: none
RANGES = {
    "KLDivergence": "softmax", "Poisson": "softplus", "MeanSquaredLogarithmicError": "softplus",
    "ContrastiveLoss": "softplus", "CategoricalCrossentropy": "softmax", "SparseCategoricalCrossentropy": "softmax",
    "BinaryCrossentropy": "sigmoid",
}  # fmt: skip
NOT_DRAWN = {"FunctionLoss", "FunctionMetric", "LossMetric"}  # they hold a Python function, or a loss


def ends(net: Any) -> tuple[list[str], list[OutputLoss]]:
    """Layers behind each loose end that give what a loss takes; the outputs and their losses."""
    outputs: list[str] = []
    losses: list[OutputLoss] = []
    rng, every = net.rng, Loss.members().values()
    kinds = [c for c in every if c.__module__.startswith("prototorch.") and c.__name__ not in NOT_DRAWN]
    for name in net.loose():
        for attempt in range(30):
            loss = drawn(rng.choice(kinds if attempt < 20 else [Loss.lookup("mse")]), rng)
            net.last = name
            before = list(net.nodes), dict(net.specs), net.weights
            found = _head(net, name, loss, plain=attempt > 20)
            if found is not None:
                break
            net.nodes, net.specs, net.weights = before
        assert found is not None, net.value(name)
        outputs.append(found)
        weight = rng.choice((1.0, 1.0, 0.3, 2.5))
        losses.append(OutputLoss(type=loss, output=found, weight=weight))
    return outputs, losses


def _head(net: Any, name: str, loss: Loss, plain: bool) -> str | None:
    """Layers that make an output for a loss; None where they do not fit."""
    rng, wanted = net.rng, RANGES.get(type(loss).__name__, "linear")
    if getattr(loss, "from_logits", False):
        wanted = "linear"
    one = type(loss).__name__ == "ContrastiveLoss"
    bare = wanted == "linear" and loss.target_kind == "values" and (rng.random() < 0.3 or plain)
    if not (bare and any(name in n.tops for n in net.nodes)):
        shape = net.value(name)
        if one or len(shape) > 2 or (len(shape) == 2 and rng.random() < 0.6):
            pooled = len(shape) > 1 and rng.random() < 0.5
            layer = f"GlobalAveragePooling{len(shape) - 1}D" if pooled else "Flatten"
            if not net.add(Layer.lookup(layer), (net.last,)):
                return None
        units = (
            1
            if one
            else rng.choice((1, 2, 3, 5, 10, 17) if loss.target_kind in ("values", "binary") else (2, 3, 5, 10, 17))
        )
        dense = Layer.lookup("Dense")(units, activation=wanted)
        if not net.add(type(dense), (net.last,), made=dense):
            return None
    try:
        loss.target_spec(net.specs[net.last])
    except PrototorchError:
        return None
    if any(net.last == b for n in net.nodes for b in n.bottoms):
        return None
    return net.last


def measured(rng: Random, losses: list[OutputLoss], net: Any, share: float = 0.6) -> list[OutputMetric]:
    """Metrics whose targets are those of the losses."""
    made: list[OutputMetric] = []
    for given in losses:
        kind, spec = given.type.target_kind, net.specs[given.output]
        if rng.random() > share or not given.type.needs_target:
            continue
        known = [c for c in Metric.members().values() if c.target_kind == kind and c.__name__ not in NOT_DRAWN]
        try:
            one = drawn(rng.choice(known), rng)
            one.states(spec)
            if one.target_spec(spec).shape == given.type.target_spec(spec).shape:
                made.append(OutputMetric(type=one, output=given.output))
        except (PrototorchError, IndexError):
            pass
        if kind != "values" and rng.random() < 0.5:
            made.append(OutputMetric(type="accuracy", output=given.output))
    return made
