"""The members of pycaffe's nets that begin with an underscore: blobs and layers by their positions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from prototorch.caffe.blob import Blob
from prototorch.caffe.net_runner import NetRunner

__all__ = ["NetIndices"]


class NetIndices(NetRunner):
    """A net whose layers and blobs have positions, those of ``layers`` and ``blobs``; scripts of pycaffe use them."""

    @property
    def _layer_names(self) -> list[str]:
        return [layer.name for layer in self.caffe_net.layers]

    @property
    def _blob_names(self) -> list[str]:
        return list(self.caffe_net.blobs)

    @property
    def _blobs(self) -> list[Blob]:
        return list(self.blobs.values())

    @property
    def _inputs(self) -> list[int]:
        return self._positions(top for layer in self.caffe_net.layers if layer.type == "Input" for top in layer.tops)

    @property
    def _outputs(self) -> list[int]:
        return self._positions(self.caffe_net.outputs)

    @property
    def _blob_loss_weights(self) -> list[float]:
        weights = dict.fromkeys(self.caffe_net.blobs, 0.0)
        for layer in self.caffe_net.layers:
            weights.update(zip(layer.tops, layer.loss_weights, strict=False))
        return list(weights.values())

    def _top_ids(self, layer: int) -> list[int]:
        return self._positions(self.caffe_net.layers[layer].tops)

    def _bottom_ids(self, layer: int) -> list[int]:
        return self._positions(self.caffe_net.layers[layer].bottoms)

    def _forward(self, start: int, end: int) -> float:
        """Run the layers from ``start`` to ``end``, both included; the sum of their losses."""
        return self.forward_range(start, end)

    def _backward(self, start: int, end: int) -> None:
        """Differentiate the layers from ``start`` back to ``end``, both included."""
        self.backward_range(end, start)

    def _set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        self.set_input_arrays(data, labels)  # type: ignore[attr-defined]

    def _positions(self, blobs: Iterable[str]) -> list[int]:
        positions = {name: i for i, name in enumerate(self.caffe_net.blobs)}
        return [positions[name] for name in blobs]
