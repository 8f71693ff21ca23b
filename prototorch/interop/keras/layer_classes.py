"""Our layers and their classes in Keras: one table for both directions. Most have the same name and the same arguments.

A layer that is in neither table has the name that it has here. What a class of Keras has for a field of ours differs
only where a table says so.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "ACTIVATIONS",
    "FUNCTION_SETTINGS",
    "IMAGE_LAYERS",
    "NOT_IN_KERAS",
    "NOT_KERAS_INITIALIZERS",
    "NO_DATA_FORMAT",
    "OUR_ACTIVATIONS",
    "SAME_IN_KERAS",
]

#: our activation layers -> the names of Keras' functions, which `Activation` and the argument ``activation`` take
ACTIVATIONS: Mapping[str, str] = {
    "CELU": "celu", "ELU": "elu", "Exponential": "exponential", "GELU": "gelu", "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_silu", "LeakyReLU": "leaky_relu", "Linear": "linear", "LogSigmoid": "log_sigmoid",
    "LogSoftmax": "log_softmax", "Mish": "mish", "ReLU": "relu", "ReLU6": "relu6", "SELU": "selu",
    "SiLU": "silu", "Sigmoid": "sigmoid", "Softmax": "softmax", "Softplus": "softplus", "Softsign": "softsign",
    "Tanh": "tanh",
}  # fmt: skip
#: activation layers whose function has other settings there than the layer's defaults
FUNCTION_SETTINGS: Mapping[str, Mapping[str, float]] = {"LeakyReLU": {"negative_slope": 0.2}}
#: the names of Keras' functions, with their aliases -> our activation layers
OUR_ACTIVATIONS: Mapping[str, str] = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {
    "swish": "SiLU", "hard_swish": "HardSwish", "log_softmax": "LogSoftmax",
}  # fmt: skip
#: layers that Keras has under the same name
SAME_IN_KERAS = frozenset({
    "ActivityRegularization", "AdaptiveAveragePooling2D", "Add", "AdditiveAttention", "AlphaDropout", "Attention",
    "Average", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "BatchNormalization", "Bidirectional",
    "CenterCrop", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D",
    "Conv3DTranspose", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Cropping1D", "Cropping2D", "Cropping3D", "Dense",
    "DepthwiseConv1D", "DepthwiseConv2D", "Dot", "Dropout", "ELU", "Embedding", "Flatten", "GRU", "GaussianDropout",
    "GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GroupNormalization", "GroupQueryAttention",
    "LSTM", "LayerNormalization", "LeakyReLU", "Masking", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum",
    "Minimum", "MultiHeadAttention", "Multiply", "Normalization", "PReLU", "Permute", "RMSNormalization",
    "RandomBrightness", "RandomContrast", "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom", "ReLU",
    "RepeatVector", "Rescaling", "Reshape", "Resizing", "SeparableConv1D", "SeparableConv2D", "SimpleRNN",
    "Softmax", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "Subtract", "TimeDistributed",
    "UpSampling1D", "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
})  # fmt: skip
#: layers over images that take ``data_format`` there besides those over windows
IMAGE_LAYERS = frozenset({"AdaptiveAveragePooling2D", "CenterCrop", "RandomFlip", "RandomRotation", "RandomTranslation",
                          "RandomZoom", "Resizing"})  # fmt: skip
#: layers that Keras does not have -> what can be said of it
NOT_IN_KERAS: Mapping[str, str] = {
    "LRN": "Keras has no local response normalization",
    "ColorChannels": "Keras has no layer that reorders color channels; it belongs into the preprocessing of the images",
    "RandomCrop": "Keras' RandomCrop does not crop outside training as this one does",
    "TokenizerFile": "Keras itself has no layer that reads tokenizer files",
    "TextVectorization": "Keras' layer of this name needs TensorFlow, and its model files do not run without it",
    "PositionEmbedding": "Keras itself has no position embedding (KerasHub has)",
    "SinePositionEncoding": "Keras itself has no position encoding (KerasHub has)",
    "RotaryEmbedding": "Keras itself has no rotary embedding (KerasHub has)",
    "RNN": "cells are not written; the layers SimpleRNN, LSTM and GRU are, one for each cell",
    **dict.fromkeys(
        ("SimpleRNNCell", "LSTMCell", "GRUCell", "StackedRNNCells"),
        "a cell alone is no layer of a functional model of Keras; the layers SimpleRNN, LSTM and GRU are",
    ),
}
#: initializers that Keras does not have
NOT_KERAS_INITIALIZERS = frozenset({"Bilinear", "PositiveUnitBall", "SparseNormal"})
#: layers over channels whose class in Keras takes no ``data_format``: its channels are last
NO_DATA_FORMAT = frozenset({"SpatialDropout1D", "Cropping1D", "UpSampling1D"})
