"""Layers that Keras does not have, or not with the same meaning, with what can be said of it. Of a layer without a row
the export says that Keras has no such layer."""

from __future__ import annotations

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair

ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(layers=(layers.LRN,), reason="Keras has no local response normalization"),
        KerasRow(
            layers=(layers.ColorChannels,),
            reason="Keras has no layer that reorders color channels; it belongs into the preprocessing of the images",
        ),
        KerasRow(
            layers=(layers.RandomCrop,), reason="Keras' RandomCrop does not crop outside training as this one does"
        ),
        KerasRow(layers=(layers.TokenizerFile,), reason="Keras itself has no layer that reads tokenizer files"),
        KerasRow(
            layers=(layers.TextVectorization,),
            reason="Keras' layer of this name needs TensorFlow, and its model files do not run without it",
        ),
        KerasRow(
            layers=(layers.IntegerLookup,),
            reason="Keras' layer of this name needs TensorFlow, and its model files do not run without it",
        ),
        KerasRow(
            layers=(layers.PositionEmbedding,),
            reason="Keras itself has no position embedding (KerasHub has)",
            weights=(WeightPair("position_embeddings", "embeddings"),),
        ),
        KerasRow(
            layers=(layers.ClassToken,),
            reason="Keras itself has no class token",
            weights=(WeightPair("token", "token"),),
        ),
        KerasRow(layers=(layers.SinePositionEncoding,), reason="Keras itself has no position encoding (KerasHub has)"),
        KerasRow(layers=(layers.RotaryEmbedding,), reason="Keras itself has no rotary embedding (KerasHub has)"),
        KerasRow(
            layers=(layers.RNN,),
            reason="cells are not written; the layers SimpleRNN, LSTM and GRU are, one for each cell",
            weights=(WeightPair("", "kernel"), WeightPair("", "recurrent_kernel"), WeightPair("", "bias")),
        ),
        KerasRow(
            layers=(layers.SimpleRNNCell, layers.LSTMCell, layers.GRUCell, layers.StackedRNNCells),
            reason="a cell alone is no layer of a functional model of Keras; the layers SimpleRNN, LSTM and GRU are",
        ),
    ),
)
