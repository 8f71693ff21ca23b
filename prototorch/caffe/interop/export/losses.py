"""Losses with a scalar output, their share of the training loss, and accuracy."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.text.message import Message

_FLT_MIN, _LOG_THRESHOLD = 2.0**-126, 1e-20  # the bounds of probabilities that Caffe has


def _add_loss(site: CaffeLayerExport, type_name: str, num_tops: int = 1, **params: Any) -> None:
    """The layer, with no share of its own in the loss: that has AddLoss."""
    site.add(type_name, num_tops=num_tops, **params)["loss_weight"] = [0.0] * num_tops


def _loss_param(layer: Any, default: str) -> Message:
    normalization = layer.normalization.upper()
    return make_message(
        "LossParameter",
        ignore_label=layer.ignore_class,
        normalization=normalization if normalization != default else None,
    )


def _check_floor(site: CaffeLayerExport, floor: float) -> None:
    min_probability = site.layer.min_probability  # type: ignore[attr-defined]
    if min_probability not in (0.0, floor):
        site.fail(f"Caffe's smallest probability is {floor:g}; min_probability is {min_probability:g}")


def _axis(layer: Any) -> int | None:
    return layer.axis if layer.axis != 1 else None


@exports(layers.AddLoss)
def _add_loss_layer(site: CaffeLayerExport) -> None:
    """The identity (Power without fields) with a ``loss_weight``."""
    layer: Any = site.layer
    site.add("Power")["loss_weight"] = [layer.weight]


@exports(layers.SoftmaxCrossentropyLoss)
def _softmax_crossentropy(site: CaffeLayerExport) -> None:
    _check_floor(site, _FLT_MIN)
    softmax = make_message("SoftmaxParameter", axis=_axis(site.layer))
    _add_loss(site, "SoftmaxWithLoss", softmax_param=softmax, loss_param=_loss_param(site.layer, "VALID"))


@exports(layers.InfogainLoss)
def _infogain(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.matrix is not None:
        site.fail("Caffe reads its matrix from a file; make it a third input")
    _check_floor(site, _LOG_THRESHOLD)
    param = make_message("InfogainLossParameter", axis=_axis(layer))
    _add_loss(
        site, "InfogainLoss", layer.output_count(), infogain_loss_param=param, loss_param=_loss_param(layer, "VALID")
    )


@exports(layers.SigmoidCrossentropyLoss)
def _sigmoid_crossentropy(site: CaffeLayerExport) -> None:
    _add_loss(site, "SigmoidCrossEntropyLoss", loss_param=_loss_param(site.layer, ""))


@exports(layers.EuclideanLoss)
def _euclidean(site: CaffeLayerExport) -> None:
    _add_loss(site, "EuclideanLoss")


@exports(layers.HingeLoss)
def _hinge(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    _add_loss(
        site,
        "HingeLoss",
        hinge_loss_param=make_message("HingeLossParameter", norm="L2" if layer.norm == "l2" else None),
    )


@exports(layers.MultinomialLogisticLoss)
def _multinomial_logistic(site: CaffeLayerExport) -> None:
    _check_floor(site, _LOG_THRESHOLD)
    _add_loss(site, "MultinomialLogisticLoss")


@exports(layers.ContrastivePairLoss)
def _contrastive(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if not layer.legacy_version and layer.gradient_epsilon != 1e-4:
        site.fail("Caffe adds 1e-4 to the distance in the gradient; write gradient_epsilon: 1e-4")
    param = make_message(
        "ContrastiveLossParameter", margin=layer.margin, legacy_version=True if layer.legacy_version else None
    )
    _add_loss(site, "ContrastiveLoss", contrastive_loss_param=param)


@exports(layers.ClassAccuracy)
def _accuracy(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    param = make_message(
        "AccuracyParameter",
        top_k=layer.top_k if layer.top_k != 1 else None,
        axis=_axis(layer),
        ignore_label=layer.ignore_class,
    )
    site.add("Accuracy", num_tops=layer.output_count(), accuracy_param=param)
