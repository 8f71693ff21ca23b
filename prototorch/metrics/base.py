"""The base class of metrics: values accumulated over many batches, inside the step."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any, ClassVar, Literal

import numpy as np

from prototorch import ops
from prototorch.losses.base import Loss, TargetKind, expand_trailing, match_target, mean_trailing
from prototorch.schema import Block, field
from prototorch.schema.neutral_arguments import neutral
from prototorch.schema.overrides import CONFIG_METHODS
from prototorch.spec import Spec
from prototorch.text.case_conversion import snake_case

Direction = Literal["min", "max"]

TOTAL_DTYPE = "float64"  # the dtype of all totals: counts are exact up to 2^53


class Metric(Block, family="metric"):
    """A streaming metric. Its totals are states of the step's graph: an update is expressed in ops, the result is
    computed from the totals on the host. All totals are zero at the start of each epoch.

    A subclass defines `states`, `update` and `result` (or is a `MeanMetric`).
    """

    adopted_root: ClassVar[Any] = Loss
    neutral_arguments = {
        "dtype": neutral(None, "float32", hint="totals are float64"),
        "from_sorted_ids": neutral(False, hint="outputs are the scores of all classes"),
        "num_labels": neutral(None, hint="the output has the number of labels"),
        "ignore_class": neutral(None, hint="the loss has an ignore_class, which its metrics follow"),
        "sparse_y_true": neutral(True, hint="targets are class indices"),
        "sparse_y_pred": neutral(True, False, hint="outputs are scores, of which the class is found"),
    }

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(
            ("call", "__call__", "forward", "update_state", "compute", "stateless_update_state", "stateless_result"),
            "define `states`, `update` and `result` (docs/extending.md), or "
            "compile(metrics=[a_function_of_target_and_output])",
        ),
        **dict.fromkeys(
            ("reset", "reset_state", "reset_states", "add_weight", "add_variable"),
            "`states` declares the totals, which are zero at the beginning of each epoch",
        ),
    }

    name: str = field(default="", doc="Name in the logs; by default the metric's own name in snake_case.")

    #: the name in the logs, where it is not the class' name in snake_case
    log_name: ClassVar[str] = ""
    target_kind: ClassVar[TargetKind] = "values"
    #: whether less ("min") or more ("max") of it is better; None: a callback that monitors it must be told by its mode
    direction: ClassVar[Direction | None] = None

    @property
    def takes_probabilities(self) -> bool:
        """Whether outputs must be probabilities: those of a loss that takes logits go through its activation first."""
        return False

    @property
    def measured_kind(self) -> TargetKind:
        """What the targets are that it measures; see `Loss.target_kind`."""
        return self.target_kind

    def at_loss(self, loss: Loss) -> Metric:
        """This metric at an output of this loss: where the loss takes logits, so does a metric that can, and classes
        lie along the loss' axis unless the metric states one."""
        changes: dict[str, Any] = {}
        fields = type(self).specs()
        if "axis" in fields and self.measured_kind in ("classes", "one_hot") and vars(self)["axis"] == -1:
            changes["axis"] = loss.class_axis
        if getattr(loss, "from_logits", False) and "threshold" in fields and "average" not in fields:
            changes["threshold"] = logit(vars(self)["threshold"])
        return self.replace(**{k: v for k, v in changes.items() if v != vars(self)[k]}) if changes else self

    @classmethod
    def coerce(cls, value: Any) -> Metric | None:
        """A loss, or its class, is a `LossMetric`, a function of target and output a `FunctionMetric`."""
        if cls is not Metric or (not callable(value) and not isinstance(value, Loss)):
            return None
        if isinstance(value, type):
            return Metric.lookup("LossMetric")(loss=value) if issubclass(value, Loss) else None
        return Metric.lookup("LossMetric" if isinstance(value, Loss) else "FunctionMetric")(value)

    def states(self, output: Spec) -> dict[str, Spec]:
        """The totals for an output of this spec, by name. Raises ShapeError for an output that cannot be measured."""
        raise TypeError(f"{type(self).__name__} does not define states")

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        """The new totals after a batch, expressed in ops.

        target: as the loss at this output takes it. output: [batch, ...]. weight: [batch], the samples' weights, or
        [batch, time, ...] where the output has a mask: 0 at the positions that do not count.
        Raises ShapeError where the target does not match the output.
        """
        raise TypeError(f"{type(self).__name__} does not define update")

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        """The metric from its totals: a number, or an array where there is one for each class."""
        raise TypeError(f"{type(self).__name__} does not define result")

    def target_spec(self, output: Spec) -> Spec:
        """The spec in which `update` takes the target of an output [batch, ...]; by default that of the output."""
        return Spec(output.shape, output.dtype)

    def match_target(self, target: Any, output: Any) -> Any:
        """The target in the shape and dtype of `target_spec`. Raises ShapeError where its shape does not match."""
        return match_target(type(self).__name__, self.target_kind, target, self.target_spec(output.spec), output.spec)


def logit(probability: float) -> float:
    """The logit of a probability between 0 and 1; any other number is a logit already."""
    return log(probability / (1 - probability)) if 0 < probability < 1 else probability


def _log_name(self: Metric) -> str:
    """The name in the logs: the one that was given, else Keras' name for the metric."""
    return self.__dict__["name"] or self.log_name or snake_case(type(self).__name__)


# The field is read through a property, so that it has a default: `SparseCategoricalAccuracy().name`
Metric.name = property(_log_name)  # type: ignore[assignment]


class MeanMetric(Metric, abstract=True):
    """The weighted mean of a value per sample, or per position of a sample; a subclass defines `values`."""

    def values(self, target: Any, output: Any) -> Any:
        """The value of each sample, [batch], or at each position, [batch, ...], expressed in ops."""
        raise TypeError(f"{type(self).__name__} does not define values")

    def valid_mask(self, target: Any, output: Any) -> Any | None:
        """True where a position counts, [batch, ...]; None: everywhere."""
        return None

    def states(self, output: Spec) -> dict[str, Spec]:
        return {"total": Spec((), TOTAL_DTYPE), "count": Spec((), TOTAL_DTYPE)}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        valid = self.valid_mask(target, output)
        if valid is not None:
            weight = apply_mask(weight, valid)
        # Keras: a sample's value is the mean over its positions of value * weight, its weight the mean of their weights
        each = self.values(target, output)
        each, weight = mean_trailing(each, weight.ndim), mean_trailing(weight, each.ndim)
        each, weight = ops.cast(each, dtype=TOTAL_DTYPE), ops.cast(weight, dtype=TOTAL_DTYPE)
        return {
            "total": states["total"] + ops.sum(mean_trailing(each * weight)),
            "count": states["count"] + ops.sum(mean_trailing(weight)),
        }

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        return self.finalize(float(divide_no_nan(float(arrays["total"]), float(arrays["count"]))))

    def finalize(self, mean: float) -> float:
        """The metric from the mean: the mean itself."""
        return mean


def apply_mask(weight: Any, mask: Any) -> Any:
    """Weights [batch, ...], 0 where the mask [batch, ...] is False; of the shape of the one with most dimensions."""
    most = max(weight.ndim, mask.ndim)
    return expand_trailing(weight, most) * ops.cast(expand_trailing(mask, most), dtype=weight.dtype)


def divide_no_nan(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0 (Keras' divide_no_nan); for numbers and arrays."""
    quotient = np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b))), where=np.asarray(b) != 0)
    return float(quotient) if quotient.ndim == 0 else quotient
