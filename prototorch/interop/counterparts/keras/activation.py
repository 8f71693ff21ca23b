"""Keras' activations: functions of keras.activations, which an Activation or the argument ``activation`` has, and the
few classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows, same_weights
from prototorch.interop.keras.config_import.config_fields import activation_layer
from prototorch.interop.keras.config_import.layer_import import own_axis
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.activation import ActivationLayer
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout


def _function(layer: type[ActivationLayer], name: str, operation: str = "", **facts: Any) -> KerasRow:
    """The row of an activation that Keras has as a function alone. operation: the class of the same in keras.ops."""
    return KerasRow(
        layers=(layer,), function=name, has_class=False, operations=(operation,) if operation else (), **facts
    )


def _read_activation(site: KerasLayerImport) -> Values:
    value = site.one()
    layer = activation_layer(site.config.get("activation"))
    if "axis" in type(layer).specs():
        layer = layer.replace(axis=own_axis(-1, value))
    return site.add(layer, [value], value.order)


def _layouts_of_activation(layer: layers.Activation, shapes: Shapes) -> Sequence[WeightLayout]:
    """Those of the activation inside (see `LayoutTable.layouts`)."""
    return []


def _check_slope(layer: layers.ReLU, config: dict[str, Any]) -> None:
    if layer.negative_slope < 0:
        raise NotExpressibleError(f"Keras' ReLU has no negative_slope below 0, here it is {layer.negative_slope:g}")


def _read_thresholded_relu(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.ReLU(threshold=float(site.config.get("theta", 1.0))), [value], value.order)


def _read_identity(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Linear(), [value], value.order)


def _read_prelu(site: KerasLayerImport) -> Values:
    value = site.one()
    fields = site.fields(layers.PReLU)
    shared = site.config.get("shared_axes")
    if shared:
        fields["shared_axes"] = sorted(value.axis(axis) for axis in shared)
    return site.add(layers.PReLU(**fields), [value], value.order)


def _operate_softmax(site: KerasLayerImport) -> Values:
    value = site.one()
    axis = site.config.get("axis", site.kwargs.get("axis", -1))
    cls = layers.Softmax if site.call.kind == "Softmax" else layers.LogSoftmax
    return site.add(cls(axis=value.axis(-1 if axis is None else axis)), [value], value.order)


def _operate_with(layer: type[ActivationLayer], **defaults: Any) -> Callable[[KerasLayerImport], Values]:
    """The import of a function of keras.ops with settings. defaults: those of Keras, by their name in both."""

    def operate(site: KerasLayerImport) -> Values:
        value = site.one()
        settings = {name: site.config.get(name, site.kwargs.get(name, n)) for name, n in defaults.items()}
        return site.add(layer(**settings), [value], value.order)

    return operate


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(layers=(layers.Activation,), layouts=_layouts_of_activation, read=_read_activation, passes_order=True),
        KerasRow(layers=(layers.ReLU,), function="relu", operations=("Relu",), write=_check_slope, passes_order=True),
        KerasRow(
            layers=(layers.ThresholdedReLU,),
            reason="Keras 3 has no layer ThresholdedReLU, which Keras 2 had",
            read=_read_thresholded_relu,
        ),
        KerasRow(
            layers=(layers.LeakyReLU,),
            function="leaky_relu",
            function_settings={"negative_slope": 0.2},
            old_arguments={"alpha": "negative_slope"},
            operations=("LeakyRelu",),
            operate=_operate_with(layers.LeakyReLU, negative_slope=0.2),
        ),
        KerasRow(
            layers=(layers.ELU,), function="elu", operations=("Elu",), operate=_operate_with(layers.ELU, alpha=1.0)
        ),
        KerasRow(layers=(layers.Softmax,), function="softmax", operations=("Softmax",), operate=_operate_softmax),
        KerasRow(layers=(layers.PReLU,), weights=same_weights("alpha"), read=_read_prelu, left_out=("shared_axes",)),
        _function(layers.Linear, "linear", also_read=("Identity", "Linear"), read=_read_identity),
        _function(layers.LogSoftmax, "log_softmax", "LogSoftmax", operate=_operate_softmax),
        _function(
            layers.GELU,
            "gelu",
            "Gelu",
            operate=_operate_with(layers.GELU, approximate=True),
            other_settings="Keras' Activation has the exact gelu alone; approximate: tanh is another function",
        ),
        _function(layers.SiLU, "silu", "Silu", function_aliases=("swish",)),
        _function(layers.HardSwish, "hard_silu", "HardSilu", function_aliases=("hard_swish",), since="3.1"),
        _function(layers.Exponential, "exponential", "Exp"),
        _function(layers.CELU, "celu", "Celu", since="3.7", operate=_operate_with(layers.CELU, alpha=1.0)),
        _function(
            layers.Squareplus,
            "squareplus",
            "Squareplus",
            since="3.7",
            operate=_operate_with(layers.Squareplus, b=4),
            other_settings="Keras' Activation has b = 4 alone",
        ),
        _function(layers.SparsePlus, "sparse_plus", "SparsePlus", since="3.7"),
        _function(layers.SparseSigmoid, "sparse_sigmoid", "SparseSigmoid", since="3.7"),
        _function(
            layers.HardShrink,
            "hard_shrink",
            "HardShrink",
            since="3.7",
            operate=_operate_with(layers.HardShrink, threshold=0.5),
            other_settings="Keras' Activation has the threshold 0.5 alone",
        ),
        _function(
            layers.SoftShrink,
            "soft_shrink",
            "SoftShrink",
            since="3.7",
            operate=_operate_with(layers.SoftShrink, threshold=0.5),
            other_settings="Keras' Activation has the threshold 0.5 alone",
        ),
        _function(layers.HardSigmoid, "hard_sigmoid", "HardSigmoid"),
        _function(layers.LogSigmoid, "log_sigmoid", "LogSigmoid", since="3.7"),
        _function(layers.Mish, "mish", "Mish"),
        _function(layers.ReLU6, "relu6", "Relu6"),
        _function(layers.SELU, "selu", "Selu"),
        _function(layers.Sigmoid, "sigmoid", "Sigmoid"),
        _function(layers.Softplus, "softplus", "Softplus"),
        _function(layers.Softsign, "softsign", "Softsign"),
        _function(layers.Tanh, "tanh", "Tanh"),
    ),
)
