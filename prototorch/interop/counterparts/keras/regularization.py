"""Keras' layers of noise and penalties in training."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.model.loading.layout.layout_table import NotExpressibleError


def _without_trainable(layer: Any, config: dict[str, Any]) -> None:
    del config["trainable"]


def _check_stddev(layer: layers.GaussianNoise, config: dict[str, Any]) -> None:
    if layer.stddev > 1:
        raise NotExpressibleError(f"Keras' GaussianNoise has a stddev of at most 1, here it is {layer.stddev:g}")


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(layers=(layers.Dropout,), old_arguments={"p": "rate"}, passes_order=True),
        KerasRow(layers=(layers.GaussianDropout,), old_arguments={"p": "rate"}),
        KerasRow(layers=(layers.AlphaDropout,), old_arguments={"p": "rate"}, since="3.1"),
        KerasRow(
            layers=(layers.GaussianNoise,), old_arguments={"sigma": "stddev"}, write=_check_stddev, passes_order=True
        ),
        KerasRow(
            layers=(layers.SpatialDropout1D,),
            old_arguments={"p": "rate"},
            data_format="",
            write=_without_trainable,
            passes_order=True,
        ),
        KerasRow(
            layers=(layers.SpatialDropout2D, layers.SpatialDropout3D),
            old_arguments={"p": "rate"},
            write=_without_trainable,
        ),
        KerasRow(layers=(layers.ActivityRegularization,)),
    ),
)
