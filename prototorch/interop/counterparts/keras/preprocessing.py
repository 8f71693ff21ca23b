"""Keras' layers that prepare inputs: rescaling, normalization by given statistics, images and their augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair
from prototorch.interop.keras.config_import.axis_orders import channels_first
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.model.loading.layout.layout_table import NotExpressibleError


def _normalization_of(layer: layers.Rescaling) -> layers.Layer:
    """The normalization that a rescaling channel by channel is; another layer itself."""
    if len(layer.scale) + len(layer.offset) <= 2:
        return layer
    scale, offset = np.broadcast_arrays(np.asarray(layer.scale), np.asarray(layer.offset))
    if (scale <= 0).any():
        raise NotExpressibleError("Keras' Rescaling has one number for all channels, and no scale here is negative")
    return layers.Normalization(
        mean=(-offset / scale).tolist(), variance=(1 / scale**2).tolist(), trainable=layer.trainable
    )


def _write_rescaling(layer: layers.Rescaling, config: dict[str, Any]) -> None:
    config |= {"scale": layer.scale[0], "offset": layer.offset[0]}


def _read_rescaling(site: KerasLayerImport) -> Values:
    value = site.one()
    fields = site.fields(layers.Rescaling)
    has_list = any(isinstance(v, list) and len(v) > 1 for v in fields.values())
    if has_list and (value.rank < 1 or value.axis(-1) != 1):
        value = site.builder.in_order(value, channels_first(value.rank))
    return site.add(layers.Rescaling(**fields), [value], value.order)


def _write_normalization(layer: layers.Normalization, config: dict[str, Any]) -> None:
    mean, variance = np.broadcast_arrays(np.asarray(layer.mean), np.asarray(layer.variance))
    is_one = mean.size == 1
    config["axis"] = None if is_one else layer.channel_axis(2) if layer.axis is None else layer.axis
    config["mean"] = mean.item() if is_one else mean.tolist()
    config["variance"] = variance.item() if is_one else variance.tolist()


def _write_discretization(layer: layers.Discretization, config: dict[str, Any]) -> None:
    """Keras' class has no ``trainable``, as other layers have it."""
    del config["trainable"]


def _read_normalization(site: KerasLayerImport) -> Values:
    value = site.one()
    fields = site.fields(layers.Normalization)
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


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.Rescaling,),
            instead=_normalization_of,
            write=_write_rescaling,
            read=_read_rescaling,
            passes_order=True,
        ),
        KerasRow(
            layers=(layers.Normalization,),
            weights=tuple(WeightPair("", name, is_state=True) for name in ("mean", "variance", "count")),
            write=_write_normalization,
            read=_read_normalization,
            left_out=("axis", "mean", "variance"),
            passes_order=True,
        ),
        KerasRow(layers=(layers.CategoryEncoding,)),
        KerasRow(layers=(layers.Discretization,), write=_write_discretization),
        KerasRow(
            layers=(layers.Resizing,),
            data_format="channels_first",
            fixed={"keep_aspect_ratio": False, "round_pixels": False},
        ),
        KerasRow(layers=(layers.CenterCrop,), data_format="channels_first", fixed={"offset_rounding": "down"}),
        KerasRow(
            layers=(layers.RandomFlip, layers.RandomRotation, layers.RandomTranslation, layers.RandomZoom),
            data_format="channels_first",
        ),
        KerasRow(layers=(layers.RandomBrightness, layers.RandomContrast)),
    ),
)
