"""Keras' pooling layers."""

from __future__ import annotations

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows

ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D),
            old_names={"MaxPool1D": "MaxPooling1D", "MaxPool2D": "MaxPooling2D"},
            fixed={"ceil_mode": False},
        ),
        KerasRow(
            layers=(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D),
            old_names={"AvgPool1D": "AveragePooling1D", "AvgPool2D": "AveragePooling2D"},
            fixed={"ceil_mode": False, "count_include_pad": False},
        ),
        KerasRow(
            layers=(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D),
            old_names={"GlobalMaxPool1D": "GlobalMaxPooling1D", "GlobalMaxPool2D": "GlobalMaxPooling2D"},
        ),
        KerasRow(
            layers=(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D),
            old_names={"GlobalAvgPool1D": "GlobalAveragePooling1D", "GlobalAvgPool2D": "GlobalAveragePooling2D"},
        ),
        KerasRow(layers=(layers.AdaptiveAveragePooling2D,), data_format="channels_first", since="3.13"),
    ),
)
