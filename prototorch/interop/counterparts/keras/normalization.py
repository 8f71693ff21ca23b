"""Keras' layers of normalization."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.keras.weights import unless_off
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair, same_weights
from prototorch.interop.keras.config_import.config_fields import NotImportableError, is_of_keras_3
from prototorch.interop.keras.config_import.layer_import import own_axis
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.model.loading.layout.layout_table import NotExpressibleError

_AFFINE = (
    WeightPair("gamma", "gamma", is_stored=unless_off("scale")),
    WeightPair("beta", "beta", is_stored=unless_off("center")),
)
_READ_HERE = ("axis", "rms_scaling", "mode", "renorm", "renorm_clipping", "renorm_momentum", "adjustment")


def _read_norm(site: KerasLayerImport) -> Values:
    cls = site.layer_class
    value = site.one()
    axis = site.config.get("axis", -1)
    if site.config.get("rms_scaling"):
        raise NotImportableError("rms_scaling=True has no counterpart")
    if site.config.get("mode") not in (0, None) or site.config.get("renorm"):
        raise NotImportableError("a mode or renorm of old versions has no counterpart")
    fields = site.fields(cls)
    if isinstance(axis, list | tuple) and cls is not layers.LayerNormalization:
        if len(axis) != 1:
            raise NotImportableError(f"axis={axis} has no counterpart: one axis is normalized")
        if is_of_keras_3(site.config):
            raise NotImportableError(f"axis={axis} is a list, which Keras 3 does not take: its axis is a number")
        axis = axis[0]
    ours = own_axis(axis, value)
    if cls is not layers.LayerNormalization:
        ours = value.axis(axis)
    return site.add(cls(**fields, axis=ours), [value], value.order)


def _write_one_axis(layer: layers.RMSNormalization, config: dict[str, Any]) -> None:
    if len(layer.axis) != 1:
        raise NotExpressibleError("Keras' RMSNormalization is over one axis alone")
    config["axis"] = layer.axis[0]


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.BatchNormalization,),
            old_names={
                "BatchNormalizationV1": "BatchNormalization",
                "BatchNormalizationV2": "BatchNormalization",
                "SyncBatchNormalization": "BatchNormalization",
            },
            weights=(
                *_AFFINE,
                WeightPair("moving_mean", "moving_mean", is_state=True),
                WeightPair("moving_variance", "moving_variance", is_state=True),
            ),
            read=_read_norm,
            left_out=_READ_HERE,
            passes_order=True,
        ),
        KerasRow(
            layers=(layers.LayerNormalization, layers.GroupNormalization),
            weights=_AFFINE,
            read=_read_norm,
            left_out=_READ_HERE,
        ),
        KerasRow(layers=(layers.RMSNormalization,), weights=same_weights("scale"), write=_write_one_axis, since="3.9"),
    ),
)
