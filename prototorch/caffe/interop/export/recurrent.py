"""Recurrent layers over streams: LSTM, RNN, LSTMUnit."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.caffe.interop.export.fillers import filler
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message

_BLOBS = ("kernel", "bias", "static_kernel", "recurrent_kernel", "output_kernel", "output_bias")


@exports(layers.StreamLSTM, layers.StreamRNN)
def _recurrent(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if not (layer.stateful or layer.expose_state):
        site.fail("Caffe keeps the states for the next batch; write stateful: true, or expose_state: true")
    same_filler = layer.kernel_initializer == layer.recurrent_initializer
    param = make_message(
        "RecurrentParameter",
        num_output=layer.units,
        expose_hidden=True if layer.expose_state else None,
        weight_filler=filler(layer.kernel_initializer, 1) if same_filler else None,
        bias_filler=filler(layer.bias_initializer),
    )
    arrays = [(name, site.weights[name]) for name in _BLOBS if name in site.weights]
    blobs = [array.T if name.endswith("kernel") else array for name, array in arrays]
    kind = "LSTM" if isinstance(layer, layers.StreamLSTM) else "RNN"
    site.add(kind, blobs=blobs, num_tops=layer.output_count(), recurrent_param=param)


@exports(layers.LSTMUnit)
def _lstm_unit(site: CaffeLayerExport) -> None:
    site.add("LSTMUnit", num_tops=2)
