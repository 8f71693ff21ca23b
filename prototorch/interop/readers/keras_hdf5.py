"""Keras' HDF5 files: ``.h5``, ``.hdf5`` and ``.weights.h5`` of Keras 1, 2 and 3."""

from __future__ import annotations

from prototorch.interop.keras.weights_file import is_keras_layout, keras_weight_file
from prototorch.interop.readers.hdf5_variant import HDF5Variant

__all__ = ["VARIANT"]

VARIANT = HDF5Variant(is_keras_layout, keras_weight_file)
