"""Caffe's loss layers: a scalar each, whose weight in the net's loss is 1 where the file says nothing else."""

from __future__ import annotations

from math import prod

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.infogain_matrix import read_infogain_matrix
from prototorch.layers import (
    ContrastivePairLoss,
    EuclideanLoss,
    HingeLoss,
    InfogainLoss,
    MultinomialLogisticLoss,
    SigmoidCrossentropyLoss,
    SoftmaxCrossentropyLoss,
    StopGradient,
)

FLT_MIN = 2.0**-126  # the smallest normal float32; Caffe's bound of a softmax probability, in both builds
LOG_THRESHOLD = 1e-20  # its bound in MultinomialLogisticLoss and InfogainLoss


@translator("SoftmaxWithLoss")
def _softmax_with_loss(site: CaffeLayerImport) -> None:
    if site.num_tops > 1:
        site.fail("Caffe cannot build it with two tops: write a Softmax layer beside it", site.layer, "top")
    _start_loss(site)
    axis = site.canonical_axis(site.layer["softmax_param"]["axis"], site.layer["softmax_param"])
    _check_labels(site, axis)
    site.add(
        SoftmaxCrossentropyLoss(
            axis=axis,
            ignore_class=_ignore_label(site),
            normalization=_normalization(site, "VALID"),
            min_probability=FLT_MIN,
        )
    )


@translator("InfogainLoss")
def _infogain(site: CaffeLayerImport) -> None:
    """The matrix H is the third bottom, or the BlobProto in the file ``source``."""
    _start_loss(site, bottoms=(2, 3), tops=(0, 2))
    if site.num_tops == 2 and len(site.layer["loss_weight"]) != 2:
        site.fail("with two tops it needs two loss_weight fields", site.layer, "loss_weight")
    if site.layer["loss_param"].has("normalize"):
        site.fail(
            "normalize is not a field of this layer's loss_param; write normalization",
            site.layer["loss_param"],
            "normalize",
        )
    param = site.layer["infogain_loss_param"]
    axis = site.canonical_axis(param["axis"], param)
    _check_labels(site, axis)
    classes = site.bottom_shapes[0][axis]
    matrix = None
    if len(site.bottoms) == 2:
        if not param.has("source"):
            site.fail("it needs the matrix H: infogain_loss_param { source: ... }, or a third bottom")
        matrix = read_infogain_matrix(site, classes)
    elif prod(site.bottom_shapes[2]) != classes * classes:
        site.fail(
            f"H has the shape {list(site.bottom_shapes[2])}; {classes} classes need {classes} x {classes} elements",
            site.layer,
            "bottom",
        )
    layer = InfogainLoss(
        axis=axis,
        ignore_class=_ignore_label(site),
        normalization=_normalization(site, "VALID"),
        min_probability=LOG_THRESHOLD,
        matrix=matrix,
        return_probabilities=site.num_tops == 2,
    )
    loss, *probabilities = site.add(layer, outputs=layer.output_count())
    if probabilities:  # no gradient passes through them in Caffe
        site.tops = (loss, *site.add(StopGradient(), *probabilities, suffix="probabilities"))


@translator("SigmoidCrossEntropyLoss")
def _sigmoid_cross_entropy(site: CaffeLayerImport) -> None:
    _start_loss(site)
    x, target = site.bottom_shapes
    if prod(x) != prod(target):
        site.fail(f"its bottoms {list(x)} and {list(target)} must have as many elements", site.layer, "bottom")
    site.add(
        SigmoidCrossentropyLoss(ignore_class=_ignore_label(site), normalization=_normalization(site, "BATCH_SIZE"))
    )


@translator("EuclideanLoss")
def _euclidean(site: CaffeLayerImport) -> None:
    _start_loss(site)
    a, b = site.bottom_shapes
    if prod(a[1:]) != prod(b[1:]):
        site.fail(f"its bottoms {list(a)} and {list(b)} must have as many elements", site.layer, "bottom")
    site.add(EuclideanLoss())


@translator("HingeLoss")
def _hinge(site: CaffeLayerImport) -> None:
    _start_loss(site)
    x, labels = site.bottom_shapes
    if prod(labels) != x[0]:
        site.fail(f"it has {prod(labels)} labels {list(labels)} for {x[0]} samples", site.layer, "bottom")
    site.add(HingeLoss(norm=site.layer["hinge_loss_param"]["norm"].lower()))


@translator("MultinomialLogisticLoss")
def _multinomial_logistic(site: CaffeLayerImport) -> None:
    _start_loss(site)
    labels = site.bottom_shapes[1]
    if prod(labels[1:]) != 1 or len(labels) > 4:
        site.fail(
            f"its labels must have the shape [{labels[0]}] or [{labels[0]}, 1, 1, 1], not {list(labels)}",
            site.layer,
            "bottom",
        )
    site.add(MultinomialLogisticLoss(min_probability=LOG_THRESHOLD))


@translator("ContrastiveLoss")
def _contrastive(site: CaffeLayerImport) -> None:
    _start_loss(site, bottoms=3)
    a, b, labels = site.bottom_shapes
    for shape in (a, b):
        if len(shape) > 4 or prod(shape[2:]) != 1:
            site.fail(
                f"its bottoms must be vectors, [{shape[0]}, channels] or [{shape[0]}, channels, 1, 1], not "
                f"{list(shape)}",
                site.layer,
                "bottom",
            )
    if prod(a[1:]) != prod(b[1:]):
        site.fail(f"its bottoms {list(a)} and {list(b)} must have the same channels", site.layer, "bottom")
    if prod(labels) != a[0] or len(labels) > 4:
        site.fail(f"it has labels of shape {list(labels)} for {a[0]} pairs: expected [{a[0]}]", site.layer, "bottom")
    param = site.layer["contrastive_loss_param"]
    site.add(
        ContrastivePairLoss(
            margin=param["margin"],
            legacy_version=param["legacy_version"],
            gradient_epsilon=0.0 if param["legacy_version"] else 1e-4,
        )
    )


def _start_loss(site: CaffeLayerImport, bottoms: int | tuple[int, int] = 2, tops: tuple[int, int] = (0, 1)) -> None:
    """Checks of every loss, and its weight. Its top may be left out."""
    site.check_counts(bottoms, tops)
    site.loss_weight = 1.0
    first, second = site.bottom_shapes[:2]
    if first[:1] != second[:1] or not first:
        site.fail(f"its bottoms {list(first)} and {list(second)} must have the same first axis", site.layer, "bottom")


def _check_labels(site: CaffeLayerImport, axis: int) -> None:
    """An error unless there is a label for each position of the first bottom without an axis."""
    x, labels = site.bottom_shapes[:2]
    positions = (*x[:axis], *x[axis + 1 :])
    if prod(labels) != prod(positions):
        site.fail(
            f"it has {prod(labels)} labels {list(labels)} for {prod(positions)} predictions: x {list(x)} with the "
            f"classes along axis {axis} needs labels {list(positions)}",
            site.layer,
            "bottom",
        )


def _ignore_label(site: CaffeLayerImport) -> int | None:
    param = site.layer["loss_param"]
    return param["ignore_label"] if param.has("ignore_label") else None


def _normalization(site: CaffeLayerImport, default: str) -> str:
    """The normalizer; ``normalize`` (deprecated) is VALID or BATCH_SIZE where ``normalization`` is not there."""
    param = site.layer["loss_param"]
    if not param.has("normalization"):
        if param.has("normalize"):
            return "valid" if param["normalize"] else "batch_size"
        return default.lower()
    return str(param["normalization"]).lower()
