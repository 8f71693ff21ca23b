"""Keras' layers as ours, one function a family; a class without one has the same name and the same arguments here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.keras.config_import.axis_orders import (
    OrderedNetBuilder,
    OrderedValue,
    channels_first,
    identity,
)
from prototorch.interop.keras.config_import.config_fields import NotImportableError, activation_layer, our_fields
from prototorch.interop.keras.config_import.site import IMPORTS, Site, Values, imports
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.merge import MergeLayer
from prototorch.layers.random_layer import RandomLayer

__all__ = ["NO_SUCH_LAYER", "import_call", "transposed", "unified"]


def import_call(site: Site) -> Values:
    """The outputs of a call. Raises NotImportableError where there is no such layer here."""
    kind = site.call.kind
    if kind in IMPORTS:
        return IMPORTS[kind](site)
    cls = Layer.members().get(kind)
    if cls is None:
        raise NotImportableError(NO_SUCH_LAYER)
    if hasattr(cls, "rank"):
        return _spatial(site)
    if issubclass(cls, MergeLayer):
        return _merge(site)
    if issubclass(cls, ActivationLayer) or kind in _ELEMENTWISE:
        return _elementwise(site)
    if issubclass(cls, RandomLayer) or kind in ("Resizing", "CenterCrop"):
        return _image(site)
    return site.add(cls(**site.fields(cls)), [site.builder.as_keras(value) for value in site.values()])


NO_SUCH_LAYER = "there is no such layer here"
_ELEMENTWISE = frozenset({"Dropout", "AlphaDropout", "GaussianNoise", "GaussianDropout", "ActivityRegularization"})
_AXIS_ACTIVATIONS = (layers.Softmax, layers.LogSoftmax)


# ---------------------------------------------------------------------- layers over maps


def _spatial(site: Site) -> Values:
    cls: Any = Layer.lookup(site.call.kind)
    value = site.one()
    rank = cls.rank + 1
    order = site.spatial_order(rank)
    x = site.builder.in_order(value, order)
    fields = site.fields(cls)
    if "pool_size" in fields and _same_sizes(fields.get("strides"), fields["pool_size"]):
        del fields["strides"]  # the default
    if fields.get("padding") == "causal":
        fields["padding"] = [[site.config.get("dilation_rate", [1])[0] * (_first(site.config["kernel_size"]) - 1), 0]]
    activation = fields.get("activation")
    if isinstance(activation, _AXIS_ACTIVATIONS):
        fields["activation"] = layers.Linear()
    output = site.add(cls(**fields), [x], order)
    if isinstance(activation, _AXIS_ACTIVATIONS):
        axis = output[0].axis(-1)
        return site.builder.add(type(activation)(axis=axis), output, f"{site.call.path}_softmax", output[0].order)
    return output


def _same_sizes(a: Any, b: Any) -> bool:
    return (
        a is not None
        and {*(a if isinstance(a, list) else [a])} == {*(b if isinstance(b, list) else [b])}
        and (not isinstance(a, list) or not isinstance(b, list) or a == b)
    )


def _first(value: Any) -> int:
    return value[0] if isinstance(value, list) else value


def _image(site: Site) -> Values:
    """Layers over images: rows and columns are the last axes here."""
    cls = Layer.lookup(site.call.kind)
    value = site.one()
    if value.rank != 3:
        raise NotImportableError(f"reads a value of {value.rank + 1} axes, not images")
    order = site.spatial_order(3)
    return site.add(cls(**site.fields(cls)), [site.builder.in_order(value, order)], order)


# ---------------------------------------------------------------------- element by element


def _elementwise(site: Site) -> Values:
    cls = Layer.lookup(site.call.kind)
    value = site.one()
    new_names = {"p": "rate", "sigma": "stddev"}
    fields = site.fields(cls, new_names)
    if isinstance(fields.get("noise_shape"), list):
        shape = fields["noise_shape"]
        fields["noise_shape"] = [shape[0], *(shape[1:][axis] for axis in value.order)]
    if "axis" in fields:
        fields["axis"] = _axis(fields["axis"], value)
    return site.add(cls(**fields), [value], value.order)


def _axis(axis: Any, value: OrderedValue) -> Any:
    """An axis, or axes, of Keras' as ours; the last one stays -1 where it is the last here."""
    if isinstance(axis, list | tuple):
        return [_axis(one, value) for one in axis]
    ours = value.axis(axis)
    return -1 if ours == value.rank and axis < 0 else ours


@imports("Activation")
def _activation(site: Site) -> Values:
    value = site.one()
    layer = activation_layer(site.config.get("activation"))
    if isinstance(layer, _AXIS_ACTIVATIONS):
        layer = layer.replace(axis=_axis(-1, value))
    return site.add(layer, [value], value.order)


@imports("LeakyReLU")
def _leaky_relu(site: Site) -> Values:
    value = site.one()
    return site.add(
        layers.LeakyReLU(**site.fields(layers.LeakyReLU, {"alpha": "negative_slope"})), [value], value.order
    )


@imports("ThresholdedReLU")
def _thresholded_relu(site: Site) -> Values:
    value = site.one()
    return site.add(layers.ReLU(threshold=float(site.config.get("theta", 1.0))), [value], value.order)


@imports("PReLU")
def _prelu(site: Site) -> Values:
    value = site.one()
    fields = site.fields(layers.PReLU, left_out=("shared_axes",))
    shared = site.config.get("shared_axes")
    if shared:
        fields["shared_axes"] = sorted(value.axis(axis) for axis in shared)
    return site.add(layers.PReLU(**fields), [value], value.order)


@imports("Identity", "Linear")
def _identity(site: Site) -> Values:
    value = site.one()
    return site.add(layers.Linear(), [value], value.order)


@imports("Masking")
def _masking(site: Site) -> Values:
    return site.add(layers.Masking(**site.fields(layers.Masking)), [site.builder.as_keras(site.one())])


# ---------------------------------------------------------------------- normalization


@imports("BatchNormalization", "GroupNormalization", "LayerNormalization")
def _norm(site: Site) -> Values:
    cls = Layer.lookup(site.call.kind)
    value = site.one()
    config = dict(site.config)
    axis = config.pop("axis", -1)
    if config.pop("rms_scaling", False):
        raise NotImportableError("rms_scaling=True has no counterpart")
    if config.pop("mode", 0) not in (0, None) or config.pop("renorm", False):
        raise NotImportableError("a mode or renorm of old versions has no counterpart")
    for key in ("renorm_clipping", "renorm_momentum", "adjustment"):
        config.pop(key, None)
    fields = our_fields(cls, config, notes=site.notes)
    if isinstance(axis, list | tuple) and cls is not layers.LayerNormalization:
        if len(axis) != 1:
            raise NotImportableError(f"axis={axis} has no counterpart: one axis is normalized")
        axis = axis[0]
    ours = _axis(axis, value)
    if cls is not layers.LayerNormalization:
        ours = value.axis(axis)
    return site.add(cls(**fields, axis=ours), [value], value.order)


@imports("Normalization")
def _normalization(site: Site) -> Values:
    value = site.one()
    fields = site.fields(layers.Normalization, left_out=("axis", "mean", "variance"))
    mean, variance = site.config.get("mean"), site.config.get("variance")
    if mean is None or variance is None:
        arrays = site.array(0), site.array(1)
        if arrays[0] is None or arrays[1] is None:
            raise NotImportableError("its mean and variance are in a file of weights, which is not given")
        mean, variance = (np.asarray(a, np.float64).ravel().tolist() for a in arrays)
    mean, variance = (np.asarray(v, np.float64).ravel().tolist() for v in (mean, variance))
    axis = site.config.get("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    if isinstance(axis, list):
        raise NotImportableError(f"axis={axis} has no counterpart: one axis has statistics")
    if axis is not None:
        fields["axis"] = value.axis(axis)
    elif len(mean) != 1:
        raise NotImportableError("axis=None with several means")
    return site.add(layers.Normalization(**fields, mean=mean, variance=variance), [value], value.order)


@imports("Rescaling")
def _rescaling(site: Site) -> Values:
    value = site.one()
    fields = site.fields(layers.Rescaling)
    has_list = any(isinstance(v, list) and len(v) > 1 for v in fields.values())
    if has_list and (value.rank < 1 or value.axis(-1) != 1):
        value = site.builder.in_order(value, channels_first(value.rank))
    return site.add(layers.Rescaling(**fields), [value], value.order)


# ---------------------------------------------------------------------- several values


def unified(builder: OrderedNetBuilder, values: Sequence[OrderedValue]) -> list[OrderedValue]:
    """The values with one order of axes: that of most of them."""
    ranks = {value.rank for value in values}
    if len(ranks) > 1:
        raise NotImportableError("reads values of different numbers of axes")
    orders = [value.order for value in values]
    order = max(orders, key=lambda order: (orders.count(order), order != identity(len(order))))
    return [builder.in_order(value, order) for value in values]


def _merge(site: Site) -> Values:
    cls = Layer.lookup(site.call.kind)
    values = unified(site.builder, site.values())
    if len(values) == 1:
        return tuple(values)  # as in Keras: nothing is merged
    return site.add(cls(), values, values[0].order)


@imports("Concatenate")
def _concatenate(site: Site) -> Values:
    values = unified(site.builder, site.values())
    if len(values) == 1:
        return tuple(values)
    axis = values[0].axis(site.config.get("axis", -1))
    return site.add(layers.Concatenate(axis=axis), values, values[0].order)


@imports("Dot")
def _dot(site: Site) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(layers.Dot(**site.fields(layers.Dot)), values)


@imports("Merge")
def _merge_of_keras_1(site: Site) -> Values:
    kinds = {"sum": "Add", "mul": "Multiply", "ave": "Average", "max": "Maximum", "concat": "Concatenate"}
    mode = site.config.get("mode")
    if mode not in kinds:
        raise NotImportableError(f"mode={mode!r:.40} has no counterpart")
    values = unified(site.builder, site.values())
    if mode == "concat":
        layer: Layer = layers.Concatenate(axis=values[0].axis(site.config.get("concat_axis", -1)))
    else:
        layer = Layer.lookup(kinds[mode])()
    return site.add(layer, values, values[0].order)


# ---------------------------------------------------------------------- shapes


@imports("Flatten")
def _flatten(site: Site) -> Values:
    value = site.one()
    if site.config.get("data_format") == "channels_first" and value.rank > 1:
        return site.add(layers.Flatten(), [transposed(site, value, [*range(1, value.rank), 0])])
    if site.free_order and value.order == channels_first(value.rank):
        return site.add(layers.Flatten(), [value])
    return site.add(layers.Flatten(), [site.builder.as_keras(value)])


def transposed(site: Site, value: OrderedValue, axes: Sequence[int]) -> OrderedValue:
    """The value whose axis j in Keras is axis ``axes[j]`` of what it was, with its axes in Keras' order.

    There is a Permute even where ours have this order already: what is flattened behind it is no map of channels, whose
    elements Keras has with the channels last (`interop.keras.feature_orders`).
    """
    moved = OrderedValue(value.name, tuple(list(axes).index(axis) for axis in value.order), value.shape)
    if moved.order != identity(moved.rank) or list(axes) == list(range(moved.rank)):
        return site.builder.as_keras(moved)
    return site.add(layers.Permute([*range(1, moved.rank + 1)]), [moved])[0]


@imports("Permute")
def _permute(site: Site) -> Values:
    value = site.one()
    dims = [int(d) - 1 for d in site.config.get("dims") or ()]
    if sorted(dims) != list(range(value.rank)):
        raise NotImportableError(f"dims={site.config.get('dims')} of a value of {value.rank + 1} axes")
    return (transposed(site, value, dims),)


@imports("Reshape")
def _reshape(site: Site) -> Values:
    value = site.one()
    target = [-1 if n is None else int(n) for n in site.config["target_shape"]]
    known = prod(n for n in target if n != -1)
    if target.count(-1) > 1 or any(n < -1 or n == 0 for n in target):
        raise NotImportableError(f"target_shape={target} has no counterpart")
    shape = [prod(value.shape) // known if n == -1 else n for n in target]
    has_channels_last = value.rank > 1 and value.order == channels_first(value.rank)
    if has_channels_last or value.rank == 1:
        channels, outer = value.shape[0], prod(value.shape[1:])
        keeps_channels = len(shape) > 0 and shape[-1] == channels and (value.rank > 1 or prod(shape[:-1]) == 1)
        if keeps_channels and len(shape) > 1 and prod(shape[:-1]) == outer:
            # the channels stay the last axis there, the first one here
            moved = [target[-1], *target[:-1]]
            return site.add(layers.Reshape(moved), [value], channels_first(len(shape)))
        if len(shape) == 1 and outer == 1:
            return site.add(layers.Flatten(), [value])
    return site.add(layers.Reshape(target), [site.builder.as_keras(value)])
