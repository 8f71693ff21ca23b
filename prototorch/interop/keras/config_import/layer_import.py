"""Keras' layers as ours: as their rows say, else as follows from our class, with the same arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import class_of_name, row_of_name
from prototorch.interop.keras.config_import.axis_orders import (
    OrderedNetBuilder,
    OrderedValue,
    identity,
)
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.merge import MergeLayer

__all__ = ["NO_SUCH_LAYER", "import_call", "own_axis", "transposed", "unified"]


def import_call(site: KerasLayerImport) -> Values:
    """The outputs of a call. Raises NotImportableError where there is no such layer here."""
    row, cls = row_of_name(site.call.kind), class_of_name(site.call.kind)
    if row is not None and row.read is not None:
        return row.read(site)
    if cls is None:
        raise NotImportableError(row.reason if row is not None else NO_SUCH_LAYER)
    if hasattr(cls, "rank"):
        return _spatial(site)
    if issubclass(cls, MergeLayer):
        return _merge(site)
    if issubclass(cls, ActivationLayer) or cls.keeps_positions:
        return _elementwise(site)
    if cls.over_images:
        return _image(site)
    return site.add(cls(**site.fields(cls)), [site.builder.as_keras(value) for value in site.values()])


NO_SUCH_LAYER = "there is no such layer here"
_AXIS_ACTIVATIONS = (layers.Softmax, layers.LogSoftmax)


# ---------------------------------------------------------------------- layers over maps


def _spatial(site: KerasLayerImport) -> Values:
    cls: Any = site.layer_class
    value = site.one()
    rank = cls.rank + 1
    order = site.spatial_order(rank)
    x = site.builder.in_order(value, order)
    fields = site.fields(cls)
    if not isinstance(fields.get("padding", ""), str) and "Padding" not in cls.__name__:
        raise NotImportableError(f"padding={fields['padding']!s:.60} is neither valid nor same")
    if "pool_size" in fields and _same_sizes(fields.get("strides"), fields["pool_size"]):
        del fields["strides"]  # the default
    if fields.get("padding") == "causal":
        fields["padding"] = [[site.config.get("dilation_rate", [1])[0] * (_first(site.config["kernel_size"]) - 1), 0]]
    if rank == 2 and site.has_channels_first:
        fields["data_format"] = "channels_first"
    elif rank == 2 and site.builder.is_permuted(x):
        fields["data_format"] = "channels_last"  # stated, since older texts meant channels_first behind a Permute
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


def _image(site: KerasLayerImport) -> Values:
    """Layers over images: rows and columns are the last axes here."""
    cls = site.layer_class
    value = site.one()
    if value.rank != 3:
        raise NotImportableError(f"reads a value of {value.rank + 1} axes, not images")
    order = site.spatial_order(3)
    return site.add(cls(**site.fields(cls)), [site.builder.in_order(value, order)], order)


# ---------------------------------------------------------------------- element by element


def _elementwise(site: KerasLayerImport) -> Values:
    cls = site.layer_class
    value = site.one()
    fields = site.fields(cls)
    if isinstance(fields.get("noise_shape"), list):
        shape = fields["noise_shape"]
        fields["noise_shape"] = [shape[0], *(shape[1:][axis] for axis in value.order)]
    if "axis" in fields:
        fields["axis"] = own_axis(fields["axis"], value)
    return site.add(cls(**fields), [value], value.order)


def own_axis(axis: Any, value: OrderedValue) -> Any:
    """An axis, or axes, of Keras' as ours; the last one stays -1 where it is the last here."""
    if isinstance(axis, list | tuple):
        return [own_axis(one, value) for one in axis]
    ours = value.axis(axis)
    return -1 if ours == value.rank and axis < 0 else ours


# ---------------------------------------------------------------------- several values


def unified(builder: OrderedNetBuilder, values: Sequence[OrderedValue]) -> list[OrderedValue]:
    """The values with one order of axes: that of most of them."""
    ranks = {value.rank for value in values}
    if len(ranks) > 1:
        raise NotImportableError("reads values of different numbers of axes")
    orders = [value.order for value in values]
    order = max(orders, key=lambda order: (orders.count(order), order != identity(len(order))))
    return [builder.in_order(value, order) for value in values]


def _merge(site: KerasLayerImport) -> Values:
    cls = site.layer_class
    values = unified(site.builder, site.values())
    if len(values) == 1:
        return tuple(values)  # as in Keras: nothing is merged
    return site.add(cls(), values, values[0].order)


def transposed(site: KerasLayerImport, value: OrderedValue, axes: Sequence[int]) -> OrderedValue:
    """The value whose axis j in Keras is axis ``axes[j]`` of what it was, with its axes in Keras' order.

    There is a Permute even where ours have this order already: what is flattened behind it is no map of channels, whose
    elements Keras has with the channels last (`interop.keras.feature_orders`).
    """
    moved = OrderedValue(value.name, tuple(list(axes).index(axis) for axis in value.order), value.shape)
    if moved.order != identity(moved.rank) or list(axes) == list(range(moved.rank)):
        return site.builder.as_keras(moved)
    return site.add(layers.Permute([*range(1, moved.rank + 1)]), [moved])[0]
