"""Files for Keras 3: what its three formats share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.engine.storage.hdf5_encoder import encode_tree
from prototorch.errors import UsageError
from prototorch.interop.keras.file_contents import KerasWeights, TreeContents, vars_contents
from prototorch.interop.keras.model_config import functional_config, layers_in_order
from prototorch.interop.keras.model_layers import KerasLayer, keras_layers
from prototorch.model.foreign_files import ModelToWrite
from prototorch.model.loading.layout.layout_table import NotExpressibleError

__all__ = ["KerasContents", "keras_contents"]


@dataclass(frozen=True)
class KerasContents:
    """A model for a file: its config, its layers in Keras' order, and its weights' tree, as buffers."""

    config: dict[str, Any]
    layers: list[KerasLayer]
    weights: KerasWeights

    def vars_tree(self) -> Sequence[bytes | memoryview]:
        """The bytes of a ``.weights.h5``."""
        return encode(vars_contents(self.layers, self.weights, self.config["config"]["name"]))


def encode(contents: TreeContents) -> Sequence[bytes | memoryview]:
    """The bytes of an HDF5 file."""
    return encode_tree(contents.arrays, contents.attributes)


def keras_contents(model: ModelToWrite, title: str, data_format: str = "channels_first") -> KerasContents:
    """What a file of a model holds. data_format: the order of the axes that images have in the model in Keras; that of
    the config is channels-first, as here. Raises UsageError that names each layer that Keras does not have.
    """
    try:
        layers = keras_layers(model.net)
        name = model.net.name or "model"
        weights = KerasWeights(model.net, model.weights, data_format)
        return KerasContents(functional_config(layers, name), layers_in_order(layers), weights)
    except NotExpressibleError as error:
        raise UsageError(f"{title}: what Keras does not have: {error}") from None
