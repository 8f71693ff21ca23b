"""How a Keras model was compiled, as a ``compile`` block: loss, optimizer and metrics, where they exist here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.interop.keras.config_import.config_fields import plain_name, shortest_decimal
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.model.loading.weight_file import WeightFile
from prototorch.optimizers import Optimizer
from prototorch.optimizers.schedules import Schedule
from prototorch.schema.block import Block
from prototorch.text.syntax_tree import Body, Field
from prototorch.train.config import Compile

__all__ = ["compile_section"]

_WORDS = ("accuracy", "acc", "crossentropy", "ce")
_NOTHING = "the model was compiled with {} that has no counterpart here; compile it anew before training"


def compile_section(
    config: Mapping[str, Any], file: WeightFile | None, net: Net
) -> tuple[tuple[Field, ...], list[str]]:
    """The compile block (none where the model was not compiled, or its loss is not there), and notes."""
    declared = config.get("compile_config")
    if not declared and file is not None:
        try:
            declared = json.loads(file.metadata.get("training_config", "null"))
        except (ValueError, RecursionError):
            declared = None
    if not isinstance(declared, dict) or not declared.get("loss"):
        return (), []
    notes: list[str] = []
    arguments: dict[str, Any] = {}
    loss = _at_outputs(Loss, declared["loss"], net, notes)
    if loss is None:
        return (), notes
    if len(net.outputs) > 1 and not isinstance(loss, list | dict):  # Keras: one loss is that of each output
        loss = dict.fromkeys(net.outputs, loss)
    arguments["loss"] = loss
    optimizer = declared.get("optimizer") or declared.get("optimizer_config")
    optimizer_object = _member(Optimizer, optimizer, notes)
    if optimizer_object is not None:
        arguments["optimizer"] = optimizer_object
    metrics = declared.get("metrics")
    if metrics:
        metrics_at_outputs = _at_outputs(Metric, metrics, net, notes, is_list=True)
        if metrics_at_outputs:
            arguments["metrics"] = metrics_at_outputs
    try:
        block = Compile(**arguments)
    except UsageError as error:
        return (), [*notes, _NOTHING.format(f"settings ({error})")]
    fields = [
        replace(f, value=f.value.items[0]) if f.name == "loss" and len(getattr(f.value, "items", ())) == 1 else f
        for f in block.to_fields()
    ]
    return (Field("compile", Body(tuple(fields))),), notes


def _at_outputs(family: type[Block], value: Any, net: Net, notes: list[str], is_list: bool = False) -> Any:
    """One member for a model of one output; a dict by output, or one for each in a list. None if one is not there."""
    if isinstance(value, dict) and "class_name" not in value:
        by_output = {name: _at_outputs(family, v, net, notes, is_list) for name, v in value.items() if v}
        return None if any(m is None for m in by_output.values()) else by_output
    if is_list and isinstance(value, list) and any(isinstance(item, list) for item in value):
        value = dict(zip(net.outputs, value, strict=False))
        return _at_outputs(family, value, net, notes, is_list)
    if isinstance(value, list):
        members = [_member(family, item, notes) for item in value if item is not None]
        members = [m for m in members if m is not None] if is_list else members
        return None if any(m is None for m in members) else members
    return _member(family, value, notes)


def _member(family: type[Block], value: Any, notes: list[str]) -> Any:
    """A loss, metric or optimizer of ours for a name or an object of a config; None, with a note, if there is none."""
    name = plain_name(value)
    member_config: Mapping[str, Any] = {}
    if name is None and isinstance(value, dict):
        inner = value.get("config")
        name = value.get("class_name")
        member_config = inner if isinstance(inner, dict) else {}
        if name in ("LossFunctionWrapper", "MeanMetricWrapper"):
            name, member_config = member_config.get("fn") or member_config.get("name"), {}
    if name in _WORDS and family is Metric:
        return name
    try:
        if not isinstance(name, str):
            raise UsageError("")
        cls = family.lookup(name)
        fields = {}
        for key, content in member_config.items():
            key = {"lr": "learning_rate"}.get(key, key)
            if key not in cls.specs() or key == "name" or content is None:
                continue
            if isinstance(content, dict):
                content = _member(Schedule, content, notes)
                if content is None:
                    continue
            fields[key] = shortest_decimal(content)
        return cls.from_name(name) if not fields else cls(**fields)
    except UsageError:
        kind = family.__name__.lower()
        notes.append(_NOTHING.format(f"{'an' if kind == 'optimizer' else 'a'} {kind} {str(name or value)[:60]!r}"))
        return None
