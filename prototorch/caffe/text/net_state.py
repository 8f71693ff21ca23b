"""The layers of a Caffe net that a phase, a level and stages include."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message

__all__ = ["filter_net", "meets_rule"]


def filter_net(net: Message, phase: str, level: int = 0, stages: Sequence[str] = ()) -> Message:
    """A NetParameter with the layers only that its state includes; the net itself is not changed.

    phase: "TRAIN" or "TEST". level, stages: of the state, as in NetState. A layer is kept where it has no rules, one
    ``include`` is met, or no ``exclude`` is. Raises TextError for a layer that has both.
    """
    new = net.copy()
    new["layer"] = [layer for layer in new["layer"] if _is_included(layer, phase, level, stages)]
    return new


def _is_included(layer: Message, phase: str, level: int, stages: Sequence[str]) -> bool:
    include, exclude = layer["include"], layer["exclude"]
    if include and exclude:
        fail_at(
            f"The layer {layer['name']!r} has include and exclude rules; it may have one kind only.",
            layer.field_span("exclude"),
        )
    if include:
        return any(meets_rule(rule, phase, level, stages) for rule in include)
    return not any(meets_rule(rule, phase, level, stages) for rule in exclude)


def meets_rule(rule: Message, phase: str, level: int, stages: Sequence[str]) -> bool:
    """Whether a state meets a NetStateRule: all that the rule says is true of it."""
    return (
        (not rule.has("phase") or rule["phase"] == phase)
        and (not rule.has("min_level") or level >= rule["min_level"])
        and (not rule.has("max_level") or level <= rule["max_level"])
        and all(stage in stages for stage in rule["stage"])
        and not any(stage in stages for stage in rule["not_stage"])
    )
