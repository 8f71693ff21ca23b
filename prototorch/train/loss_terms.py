"""The losses and metrics of a compiled model, each resolved to an output of the net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from prototorch.errors import ModelWarning, ShapeError, UsageError, did_you_mean, warn_user
from prototorch.graph.net import Net
from prototorch.graph.trace import Trace
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.metrics.generic_names import resolve_metric
from prototorch.schema.block_source import find_span
from prototorch.spec import Spec
from prototorch.text.diagnostics import located
from prototorch.text.source import Span
from prototorch.train.config import Compile, OutputLoss

#: what each epoch logs beside losses and metrics
RESERVED_NAMES = ("loss", "batch_loss", "learning_rate", "seconds", "waiting")

__all__ = [
    "RESERVED_NAMES",
    "LossTerm",
    "MetricTerm",
    "apply_loss_weights",
    "by_output",
    "check_metrics",
    "resolve_loss_terms",
    "resolve_metric_terms",
]


@dataclass(frozen=True)
class LossTerm:
    """A loss at an output.

    factor: its weight in the total; name: its name in the logs; target: the data column it is compared with, None for
    the column with the output's name (or the next one in order); target_shape: the shape of one target, where a
    function takes targets of another shape than the output's.
    """

    output: str
    loss: Loss
    factor: float
    name: str
    target: str | None = None
    target_shape: tuple[int, ...] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    target_span: Span | None = field(default=None, compare=False, repr=False)

    def target_spec(self, output: Spec) -> Spec:
        """The spec of the targets for an output of this spec, see `Loss.target_spec`. Raises ShapeError."""
        if self.target_shape is not None:
            return Spec((output.shape[0], *self.target_shape), output.dtype)
        with located(self.span):
            try:
                return self.loss.target_spec(output)
            except ShapeError as exc:
                raise ShapeError(f"loss at {self.output!r}: {exc}") from exc


@dataclass(frozen=True)
class MetricTerm:
    """A metric at an output. name: its name in the logs; is_weighted: whether sample weights enter into it;
    logits_loss: the loss at the output, where that is of logits and the metric takes their probabilities."""

    output: str
    metric: Metric
    name: str
    is_weighted: bool = False
    logits_loss: Loss | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def measured_output(self, output: Any) -> Any:
        """What the metric takes: the output, or its probabilities."""
        return output if self.logits_loss is None else self.logits_loss.probabilities(output)


def resolve_loss_terms(net: Net, config: Compile) -> tuple[LossTerm, ...]:
    """The losses, each at its output. Raises UsageError for an unknown output, or where the output is ambiguous."""
    terms: list[LossTerm] = []
    for i, item in enumerate(config.loss):
        output = item.output
        if output is None:
            if len(config.loss) == len(net.outputs):
                output = net.outputs[i]
            elif len(net.outputs) == 1:
                output = net.outputs[0]
            else:
                with located(find_span(item)):
                    raise UsageError(
                        f"the net has {len(net.outputs)} outputs ({', '.join(net.outputs)}): say loss {{ output: ... }}"
                    )
        with located(find_span(item, "output")):
            _check_value(net, output, "loss")
        before = sum(t.output == output for t in terms)
        name = item.name or (f"{output}_loss_{before + 1}" if before else f"{output}_loss")
        with located(find_span(item, "name")):
            _check_name(name, terms)
        if item.target is not None and not item.type.needs_target:
            with located(find_span(item, "target")):
                raise UsageError(
                    f"loss: {type(item.type).__name__} compares {output!r} with nothing, and has the target "
                    f"{item.target!r}: take out the target, or write a loss that compares, such as type: mse"
                )
        terms.append(
            LossTerm(
                output,
                item.type,
                item.weight,
                name,
                item.target,
                span=find_span(item),
                target_span=find_span(item, "target"),
            )
        )
    return tuple(terms)


def check_metrics(net: Net, config: Compile, loss_terms: Sequence[LossTerm]) -> None:
    """Raise UsageError for a metric at an output that does not exist, or that has no loss and therefore no target."""
    with_target = {t.output for t in loss_terms if t.loss.needs_target}
    for item in (*config.metrics, *config.weighted_metrics):
        if item.output is None:
            continue
        with located(find_span(item, "output")):
            _check_value(net, item.output, "metrics")
            if item.output not in with_target:
                loss = next((type(t.loss).__name__ for t in loss_terms if t.output == item.output), None)
                reason = "has no loss" if loss is None else f"has the loss {loss}, which compares with nothing"
                raise UsageError(f"metrics: the output {item.output!r} {reason}, and so no target to compare with")


def resolve_metric_terms(
    net: Net, config: Compile, loss_terms: Sequence[LossTerm], net_trace: Trace
) -> tuple[MetricTerm, ...]:
    """The metrics with their names in the logs: the bare name for one output, ``output_name`` for several.

    A weighted metric beside an unweighted one of its name is ``weighted_name``, as in Keras.

    Words such as "accuracy" become a metric by the loss and the output's shape.
    """
    outputs = list(dict.fromkeys(t.output for t in loss_terms if t.loss.needs_target))
    items = [(item, False) for item in config.metrics] + [(item, True) for item in config.weighted_metrics]
    terms: list[MetricTerm] = []
    for item, is_weighted in items:
        for output in outputs if item.output is None else [item.output]:
            loss = next((t.loss for t in loss_terms if t.output == output and t.loss.needs_target), None)
            metric = item.type
            word = metric if isinstance(metric, str) else None
            if isinstance(metric, str):
                with located(find_span(item)):
                    metric = resolve_metric(metric, loss, net_trace.values[output].spec)
            name = word or metric.name
            name = name if len(outputs) <= 1 else f"{output}_{name}"
            if is_weighted and any(t.name == name for t in terms):
                name = (
                    f"weighted_{word or metric.name}"
                    if len(outputs) <= 1
                    else f"{output}_weighted_{word or metric.name}"
                )
            stem, n = name, 1
            while any(t.name == name for t in terms):
                name, n = f"{stem}_{n}", n + 1
            metric, logits_loss = _metric_at_loss(metric, loss, name)
            terms.append(MetricTerm(output, metric, name, is_weighted, logits_loss, find_span(item)))
    return tuple(terms)


def _metric_at_loss(metric: Metric, loss: Loss | None, name: str) -> tuple[Metric, Loss | None]:
    """The metric as it fits the loss at its output, and that loss where the metric takes the probabilities of its
    logits."""
    if loss is None:
        return metric, None
    if getattr(metric, "from_logits", False) and getattr(loss, "from_logits", None) is False:
        warn_user(
            f"the metric {name} {{ from_logits: true }} takes logits, and {type(loss).__name__} at the same output "
            "probabilities: leave from_logits out, or write it at both",
            ModelWarning,
        )
    metric = metric.at_loss(loss)
    return metric, loss if metric.takes_probabilities and getattr(loss, "from_logits", False) else None


def by_output(values: Any, outputs: Sequence[str], what: str) -> Any:
    """Keras' lists with an entry for each output, which may be lists or None, as a dict by output.

    Other values are returned as they are. Raises UsageError for a list of another length.
    """
    if isinstance(values, Mapping):
        return {name: value for name, value in values.items() if value is not None}
    if not isinstance(values, list | tuple) or not any(v is None or isinstance(v, list | tuple) for v in values):
        return values
    if len(values) != len(outputs):
        raise UsageError(
            f"{what}: a list with lists or None has one entry for each output: expected {len(outputs)} "
            f"({', '.join(outputs)}), got {len(values)}"
        )
    return {name: value for name, value in zip(outputs, values, strict=True) if value is not None}


def apply_loss_weights(
    config: Compile, net: Net, weights: Mapping[str, float] | Sequence[float]
) -> tuple[OutputLoss, ...]:
    """The losses of a compile block with Keras' ``loss_weights`` as their factors, by output or in order.

    Raises UsageError for another number of weights, or an output without a loss.
    """
    if isinstance(weights, np.ndarray):
        weights = weights.tolist()
    if isinstance(weights, float) and len(config.loss) == 1:  # Keras: of a single output
        weights = [weights]
    if not isinstance(weights, Mapping | list | tuple):
        raise UsageError(
            f"loss_weights must be a list with a number for each loss, or a dict by output, not {weights!r:.80}; "
            f"e.g. {{{net.outputs[0]!r}: 0.5}}"
        )
    for place, weight in weights.items() if isinstance(weights, Mapping) else enumerate(weights):
        is_number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
        if not is_number or not isfinite(weight):
            raise UsageError(f"loss_weights[{place!r}] must be a finite number, not {weight!r:.80}")
    if not isinstance(weights, Mapping):
        if len(weights) != len(config.loss):
            raise UsageError(f"loss_weights has {len(weights)} numbers for {len(config.loss)} losses")
        return tuple(one.replace(weight=float(w)) for one, w in zip(config.loss, weights, strict=True))
    terms = resolve_loss_terms(net, config)
    for name in weights:
        if name not in {t.output for t in terms}:
            raise UsageError(
                f"loss_weights names {name!r}, which has no loss; there are {', '.join(t.output for t in terms)}"
            )
    return tuple(
        one.replace(weight=float(weights.get(t.output, 1.0))) for one, t in zip(config.loss, terms, strict=True)
    )


def _check_value(net: Net, name: str, what: str) -> None:
    """Raise UsageError for what is no output of a layer."""
    values = [top for node in net.nodes for top in node.tops]
    if name in values or name in net.outputs:
        return
    node = next((node for node in net.nodes if node.name == name), None)
    if node is not None:
        hint = f" The layer of that name gives its output another name: write {' or '.join(map(repr, node.tops))}."
    else:
        hint = did_you_mean(name, values)
    raise UsageError(
        f"{what}: the net has no output {name!r}; it has {', '.join(net.outputs)}, and those of its inner layers.{hint}"
    )


def _check_name(name: str, terms: Sequence[LossTerm]) -> None:
    """Raise UsageError for the name of a loss that the logs have already."""
    if any(t.name == name for t in terms):
        raise UsageError(f"loss: the name {name!r} is used twice; the logs need a name of its own for each loss")
    if name in RESERVED_NAMES:
        raise UsageError(f"loss: {name!r} is a name that the logs have anyway: give it another one")
