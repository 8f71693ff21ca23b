"""How a Caffe net is trained, as ``compile`` and ``fit`` of our language: losses, metrics, optimizer, steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.model_conversion.fields import shorten_block
from prototorch.caffe.interop.prediction_layers import PredictionLayers
from prototorch.caffe.interop.solver_fields import translate_optimizer, translate_schedule
from prototorch.caffe.text.message import Message
from prototorch.layers import Sigmoid, Softmax
from prototorch.layers.base import Layer
from prototorch.losses import BinaryCrossentropy, Loss, MeanSquaredError, SparseCategoricalCrossentropy
from prototorch.metrics import SparseCategoricalAccuracy, SparseTopKCategoricalAccuracy
from prototorch.optimizers.schedules import ConstantSchedule
from prototorch.text.syntax_tree import Body, Field
from prototorch.train.config import Compile, Fit, OutputLoss, OutputMetric

__all__ = ["training_sections"]

_ACTIVATIONS: dict[str, type[Layer]] = {"SoftmaxWithLoss": Softmax, "SigmoidCrossEntropyLoss": Sigmoid}


def training_sections(
    caffe: CaffeNet,
    layers: PredictionLayers,
    weights: Sequence[str],
    solver: Message | None = None,
    train_data: Sequence[Message] = (),
) -> tuple[list[Field], list[str]]:
    """The fields ``compile`` and ``fit``, as far as the net and its solver tell them, and notes of what is left out.

    weights: the names of the weights of our net. train_data: the data layers of the phase TRAIN. No field
    where the net has no loss.
    """
    notes: list[str] = []
    losses = [loss for layer in layers.measures if (loss := _loss(caffe, layer, notes)) is not None]
    if not losses:
        return [], notes
    by_output = {loss.output: loss for loss in losses}
    fields: dict[str, Any] = {"loss": [by_output[o] for o in _values(caffe, layers.outputs) if o in by_output]}
    metrics = [metric for layer in layers.measures if (metric := _metric(caffe, layer, notes)) is not None]
    if len(layers.outputs) == 1:
        fields["loss"] = [loss.replace(output=None) for loss in fields["loss"]]
        metrics = [metric.replace(output=None) for metric in metrics]
    if metrics:
        fields["metrics"] = metrics
    if solver is not None:
        schedule = translate_schedule(solver)
        rate = solver["base_lr"] if isinstance(schedule, ConstantSchedule) else schedule
        fields["optimizer"] = shorten_block(translate_optimizer(solver, rate))
        fields |= _factors(caffe, weights, has_decay=bool(solver["weight_decay"]))
        if solver["random_seed"] >= 0:
            fields["seed"] = solver["random_seed"]
    sections = [_section("compile", shorten_block(Compile(**fields)))]
    if solver is not None:
        sections.append(_section("fit", _fit(solver, train_data, notes)))
    return sections, notes


def _section(name: str, block: Any) -> Field:
    return Field(name, Body(tuple(block.to_fields())))


def _values(caffe: CaffeNet, blobs: Sequence[str]) -> list[str]:
    return [caffe.blobs[blob] for blob in blobs]


def _prediction(caffe: CaffeNet, layer: Message) -> str | None:
    """The value of our net that a loss or an accuracy reads, if it is an output."""
    values = [caffe.blobs[blob] for blob in layer["bottom"] if blob in caffe.blobs]
    return next((value for value in values if value in caffe.net.outputs), None)


def _loss(caffe: CaffeNet, layer: Message, notes: list[str]) -> OutputLoss | None:
    """The loss of ours for a loss layer; None, with a note, for one that is none of ours."""
    kind, value, from_logits = layer["type"], _prediction(caffe, layer), True
    if "Loss" not in kind:
        return None
    if value is None and kind in _ACTIVATIONS:  # the output is what the activation makes of it
        value, from_logits = _activated(caffe, layer, _ACTIVATIONS[kind]), False
    weight = layer["loss_weight"][0] if layer["loss_weight"] else 1.0
    param, loss = layer["loss_param"], None
    ignored = param["ignore_label"] if param.has("ignore_label") else None
    if value is not None and weight:
        elements = prod(caffe.shapes[value][1:])
        rank = len(caffe.shapes[value])
        if kind == "SoftmaxWithLoss":
            axis = layer["softmax_param"]["axis"] % rank
            where = {} if axis == rank - 1 else {"axis": axis}
            loss = OutputLoss(_crossentropy(ignored, {"from_logits": from_logits, **where}), value, weight)
        elif kind == "EuclideanLoss":  # half the sum of squares over the batch's size
            loss = OutputLoss(MeanSquaredError(), value, weight * elements / 2)
        elif kind == "SigmoidCrossEntropyLoss" and ignored is None:  # the sum over the batch's size
            factor = 1 if param.has("normalization") and param["normalization"] != "BATCH_SIZE" else elements
            loss = OutputLoss(BinaryCrossentropy(from_logits=from_logits), value, weight * factor)
    if loss is None:
        notes.append(f"left out: the loss {layer['name']} ({kind})")
    return loss


def _crossentropy(ignored: int | None, fields: dict[str, Any]) -> Loss:
    if ignored is not None:
        fields = {**fields, "ignore_class": ignored}
    return SparseCategoricalCrossentropy(**fields)


def _activated(caffe: CaffeNet, layer: Message, activation: type[Layer]) -> str | None:
    """The output that an activation makes of what a loss reads."""
    values = [caffe.blobs[blob] for blob in layer["bottom"] if blob in caffe.blobs]
    tops = (n.tops[0] for n in caffe.net.nodes if isinstance(n.layer, activation) and n.bottoms[0] in values)
    return next((value for value in tops if value in caffe.net.outputs), None)


def _metric(caffe: CaffeNet, layer: Message, notes: list[str]) -> OutputMetric | None:
    """The metric of ours for an Accuracy layer; None, with a note, for one that is none of ours."""
    if layer["type"] != "Accuracy":
        return None
    value, param = _prediction(caffe, layer), layer["accuracy_param"]
    if value is None or len(caffe.shapes[value]) != 2:
        reason = (
            "does not read an output" if value is None else f"reads {list(caffe.shapes[value])}, not [batch, classes]"
        )
        notes.append(f"left out: the metric {layer['name']} (Accuracy), which {reason}")
        return None
    count = param["top_k"]
    name = layer["name"] if layer["name"].isidentifier() else None
    if count > 1:
        fields = {} if name is None else {"name": name}
        return OutputMetric(SparseTopKCategoricalAccuracy(k=count, **fields), value)
    return OutputMetric("accuracy" if name in (None, "accuracy") else SparseCategoricalAccuracy(name=name), value)


def _factors(caffe: CaffeNet, weights: Sequence[str], has_decay: bool) -> dict[str, Any]:
    """``lr_mult`` and ``decay_mult``: for the kinds of weights, and for single weights that differ from their kind."""
    result: dict[str, Any] = {}
    weight_names = set(weights)
    for field in ("lr_mult", "decay_mult") if has_decay else ("lr_mult",):
        values = {name: getattr(p, field) for p in caffe.params for name in p.weights if name in weight_names}
        patterns: dict[str, float] = {}
        for kind in dict.fromkeys(name.rpartition("/")[2] for name in values):
            of_kind = {name: value for name, value in values.items() if name.rpartition("/")[2] == kind}
            usual = Counter(of_kind.values()).most_common(1)[0][0]
            if usual != 1:
                patterns[f"**/{kind}"] = usual
            patterns |= {name: value for name, value in of_kind.items() if value != usual}
        if patterns:
            result[field] = patterns
    return result


def _fit(solver: Message, data: Sequence[Message], notes: list[str]) -> Fit:
    """An epoch is what lies between two tests."""
    sizes = [_batch_size(layer) for layer in data]
    steps = solver["test_interval"] or max(solver["max_iter"], 1)
    fields: dict[str, Any] = {"epochs": max(ceil(solver["max_iter"] / steps), 1), "steps_per_epoch": steps}
    if any(sizes):
        fields["batch_size"] = next(filter(None, sizes))
    if solver["test_iter"] and solver["test_interval"]:
        fields["validation_steps"] = solver["test_iter"][0]
    for layer in data:
        transform = layer["transform_param"]
        stated = ", ".join(_stated_field(f.name, value) for f, value in transform.set_fields())
        prepared = f"; it prepares them by {stated}" if stated else ""
        notes.append(
            f"the data of the layer {layer['name']} ({layer['type']}) are not converted: name yours in "
            f"fit {{ data {{ source }} }}{prepared}"
        )
    return Fit(**fields)


def _stated_field(name: str, value: Any) -> str:
    """A field with its value, or its values, as a Caffe text has it: ``scale: 0.00390625``."""
    values = value if isinstance(value, list | tuple) else [value]
    texts = [str(v).lower() if isinstance(v, bool) else f"{v:.9g}" if isinstance(v, float) else str(v) for v in values]
    return f"{name}: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"


def _batch_size(layer: Message) -> int:
    """The batch size of a data layer, 0 where it states none."""
    params = [value for f, value in layer.set_fields() if f.is_message and not f.is_repeated]
    return next((p["batch_size"] for p in params if "batch_size" in p.type.fields and p.has("batch_size")), 0)
