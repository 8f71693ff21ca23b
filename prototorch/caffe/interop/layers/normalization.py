"""Layers with statistics or weights for each channel: BatchNorm, Bias, MVN, PReLU, Scale, Softmax."""

from __future__ import annotations

from prototorch import layers
from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.fillers import filler_initializer
from prototorch.caffe.interop.numbers import field_number
from prototorch.caffe.text.message import Message
from prototorch.initializers.base import Initializer


def _refuse_many_axes(site: CaffeLayerImport) -> None:
    if len(site.bottom_shapes[0]) > 4:
        site.fail(
            f"its bottom must have at most 4 axes, its shape is {list(site.bottom_shapes[0])}", site.layer, "bottom"
        )


@translator("BatchNorm")
def _batch_norm(site: CaffeLayerImport) -> None:
    """Without gamma and beta; the blobs are sums of means and of unbiased variances, and the sum of their weights."""
    site.check_counts(1, 1)
    param, shape = site.layer["batch_norm_param"], site.bottom_shapes[0]
    if len(shape) < 2:
        site.fail(f"its bottom must have channels as axis 1, its shape is {list(shape)}", site.layer, "bottom")
    for i, spec in enumerate(site.layer["param"]):
        if i < 3 and spec["lr_mult"] != 0:
            site.fail(
                f"its blobs are statistics, which are not trained: lr_mult must be 0, not {spec['lr_mult']:g}",
                spec,
                "lr_mult",
            )
    uses_moving = param["use_global_stats"] if param.has("use_global_stats") else not site.is_training
    usual = uses_moving is not site.is_training
    site.add(
        layers.BatchNormalization(
            momentum=field_number(site, param["moving_average_fraction"]),
            epsilon=field_number(site, param["eps"]),
            center=False,
            scale=False,
            moving_variance_initializer="zeros",
            batch_statistics="training" if usual else "never" if uses_moving else "always",
            unbiased_moving_variance=True,
            weighted_sums=True,
        )
    )


def _weight_axes(site: CaffeLayerImport, param: Message, num_axes: int) -> tuple[int, tuple[int, ...]]:
    """The first axis of the bottom that a weight covers, and the shape of the weight."""
    shape = site.bottom_shapes[0]
    axis = site.canonical_axis(param["axis"], param)
    if num_axes < -1:
        site.fail(f"num_axes must be at least 0, or -1 for all from axis on, not {num_axes}", param, "num_axes")
    if axis + num_axes > len(shape):
        site.fail(
            f"axis {axis} and num_axes {num_axes} reach beyond the {len(shape)} axes of {list(shape)}",
            param,
            "num_axes",
        )
    return axis, shape[axis:] if num_axes == -1 else shape[axis : axis + num_axes]


def _check_second(site: CaffeLayerImport, param: Message, what: str) -> tuple[int, tuple[int, ...]]:
    """As `_weight_axes`, where the second bottom stands for the weight."""
    shape, second = site.bottom_shapes
    axis = site.canonical_axis(param["axis"], param) if second else 0
    if shape[axis : axis + len(second)] != second:
        site.fail(
            f"its second bottom, the {what} {list(second)}, must have the sizes from axis {axis} on of its first, "
            f"{list(shape)}",
            site.layer,
            "bottom",
        )
    return axis, second


@translator("Scale")
def _scale(site: CaffeLayerImport) -> None:
    site.check_counts((1, 2), 1)
    param = site.layer["scale_param"]
    num_axes = param["num_axes"]
    if len(site.bottoms) == 2:
        axis, shape = _check_second(site, param, "scale")
        num_axes = 1
    else:
        axis, shape = _weight_axes(site, param, num_axes)
    ones = not param.has("filler")
    site.add(
        layers.Scale(
            axis=axis,
            num_axes=num_axes,
            use_bias=param["bias_term"],
            scale_initializer="ones" if ones else filler_initializer(site, param["filler"], shape),
            bias_initializer=filler_initializer(site, param["bias_filler"], shape) if param["bias_term"] else "zeros",
        )
    )


@translator("Bias")
def _bias(site: CaffeLayerImport) -> None:
    site.check_counts((1, 2), 1)
    param = site.layer["bias_param"]
    if len(site.bottoms) == 2:
        axis, _ = _check_second(site, param, "bias")
        site.add(layers.Bias(axis=axis))
        return
    axis, shape = _weight_axes(site, param, param["num_axes"])
    initializer = filler_initializer(site, param["filler"], shape)
    site.add(layers.Bias(axis=axis, num_axes=param["num_axes"], bias_initializer=initializer))


@translator("PReLU")
def _prelu(site: CaffeLayerImport) -> None:
    """A slope for each channel, or one for all."""
    site.check_counts(1, 1)
    param, shape = site.layer["prelu_param"], site.bottom_shapes[0]
    if len(shape) < 2:
        site.fail(f"its bottom must have channels as axis 1, its shape is {list(shape)}", site.layer, "bottom")
    _refuse_many_axes(site)
    is_shared = param["channel_shared"]
    if param.has("filler"):
        initializer = filler_initializer(site, param["filler"], () if is_shared else (shape[1],))
    else:
        initializer = Initializer.lookup("Constant")(value=0.25)
    axes = list(range(1 if is_shared else 2, len(shape)))
    site.add(layers.PReLU(alpha_initializer=initializer, shared_axes=axes or None))


@translator("Softmax")
def _softmax(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    param = site.layer["softmax_param"]
    site.add(layers.Softmax(axis=site.canonical_axis(param["axis"], param)))


@translator("MVN")
def _mvn(site: CaffeLayerImport) -> None:
    """Over rows and columns, or over channels too; its top has 4 axes."""
    site.check_counts(1, 1)
    _refuse_many_axes(site)
    param, shape = site.layer["mvn_param"], site.bottom_shapes[0]
    bottoms = site.bottoms
    if len(shape) < 4:
        padded = [*shape, *[1] * (4 - len(shape))]
        reshape = layers.Reshape(target_shape=padded[1:]) if shape else layers.Reshape(target_shape=padded, axis=0)
        bottoms = site.add(reshape, suffix="image")
    site.add(
        layers.MeanVarianceNormalization(
            axis=[1, 2, 3] if param["across_channels"] else [2, 3],
            normalize_variance=param["normalize_variance"],
            epsilon=field_number(site, param["eps"]),
            epsilon_in_gradient=False,
        ),
        *bottoms,
    )
