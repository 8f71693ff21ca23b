"""Random cases of one layer: its fields, inputs, masks and weights, and Keras' layer of the same name."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np

from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer
from prototorch.layers.linear_units import ThresholdedReLU
from prototorch.layers.merge import MergeLayer
from prototorch.layers.random_layer import RandomLayer
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.regularizers import Regularizer
from prototorch.schema.shapes import Dims
from prototorch.text.case_conversion import snake_case
from tests.keras_random.differences import differs
from tests.keras_random.draw import Draw
from tests.keras_random.layer_options import KEPT, Shape, activation_words, random_layer

BATCH = 4
#: layers with random cases of their own, in tests/layers/test_rnn_peers.py and test_score_attention_peers.py
OWN_CASES = {"AdditiveAttention", "Attention", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRUCell",
             "GroupQueryAttention", "LSTMCell", "RNN", "SimpleRNNCell", "StackedRNNCells"}  # fmt: skip


def layers_of_both() -> list[type[Layer]]:
    """The layers that Keras has by the same name."""
    left_out = {"RandomCrop"} if differs("RandomCrop outside training") else set()
    left_out |= OWN_CASES | {"TextVectorization", "IntegerLookup"}  # Keras' need TensorFlow
    left_out |= {"Discretization", "CategoryEncoding"}  # tests/layers/test_adapted_layers.py
    return [cls for name, cls in Layer.members().items() if hasattr(keras.layers, name) and name not in left_out]


def peer_fields(cls: type[Layer]) -> set[str]:
    """The arguments of Keras' layer."""
    return set(inspect.signature(getattr(keras.layers, cls.__name__).__init__).parameters)


def is_channels_last(cls: type[Layer]) -> bool:
    """Whether Keras' layer has the channels last where ours has them first, over images and volumes: arrays go there
    and back transposed."""
    if cls.__name__ == "Flatten" and differs("Order of flattened images"):
        return False  # its peer sees our array
    if "1D" in cls.__name__:
        return False  # over sequences both have them last
    return "data_format" in peer_fields(cls) or re.search(r"\dD", cls.__name__) is not None


def keras_layer(layer: Layer, data_format: str = "channels_last", ndim: int = 4, **words: Any) -> keras.layers.Layer:
    """Keras' layer with the same fields; ``words`` in the place of some. ``ndim`` is the number of axes of its inputs,
    which says where ours has the channels."""
    cls, known = type(layer), peer_fields(type(layer))
    names = [n for n in cls.specs() if n in known and not n.endswith(KEPT)]
    options = {"data_format": data_format} if "data_format" in known else {}
    options |= {n: _keras_value(getattr(layer, n)) for n in names if not isinstance(cls.specs()[n].type, Dims)}
    options |= {n: getattr(layer, n) for n in names if n not in options}  # shapes stay tuples
    if options.get("axis", 0) is None and isinstance(layer, ChannelAxisLayer):
        axis = layer.channel_axis(ndim)
        options |= {"axis": axis} if axis != ndim - 1 else {}  # the last is Keras' own default
        options = {n: v for n, v in options.items() if v is not None or n != "axis"}
    options |= words
    return getattr(keras.layers, cls.__name__)(**options)


def _keras_value(value: Any) -> Any:
    if isinstance(value, ThresholdedReLU):
        return partial(keras.activations.threshold, threshold=value.theta, default_value=0.0)
    if isinstance(value, ActivationLayer):
        function = getattr(keras.activations, snake_case(type(value).__name__), None)
        own = Layer.specs().keys() | value.own_fields  # Keras does not have these
        options = {n: getattr(value, n) for n in value.specs() if n not in own}
        return (partial(function, **options) if options else function) if function else keras_layer(value)
    if isinstance(value, Layer):
        return keras_layer(value)
    if isinstance(value, Regularizer):
        return getattr(keras.regularizers, type(value).__name__)(**value.field_values())
    if isinstance(value, tuple):
        values = tuple(map(_keras_value, value))
        return values[0] if len(values) == 1 else values
    return value


@dataclass
class LayerCase:
    """A layer on inputs; ``masks`` has None for an input without a mask. ``call`` are arguments of Keras' call,
    ``words`` fields that were given as words."""

    layer: Layer
    inputs: list[np.ndarray]
    masks: list[np.ndarray | None]
    training: bool
    dtype: str
    call: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    @property
    def is_channels_last(self) -> bool:
        """See `is_channels_last`."""
        return is_channels_last(type(self.layer))

    def compared_positions(self, number: int) -> np.ndarray:
        """True where the output of this number is compared; with as many dimensions as it has."""
        if type(self.layer).__name__ != "MultiHeadAttention" or not differs("Queries that see nothing"):
            return np.array(True)
        sees = attention_sees(self)
        return sees[:, None, :, None] if number else sees[:, :, None]


def attention_sees(case: LayerCase) -> np.ndarray:
    """True for the queries of an attention that see a step, [batch, queries]."""
    steps, keys = case.inputs[0].shape[1], case.inputs[min(1, len(case.inputs) - 1)].shape[1]
    visible = np.ones((BATCH, steps, keys), bool)
    if case.call.get("use_causal_mask"):
        visible &= np.tril(np.ones((steps, keys), bool))
    for mask in case.masks[1:] or case.masks:
        visible &= True if mask is None else mask[:, None, :]
    if case.masks[0] is not None:
        visible &= case.masks[0][:, :, None]
    return visible.any(-1)


def draw_case(draw: Draw, cls: type[Layer], dtype: str) -> LayerCase:
    """A random case of a layer."""
    shapes = _shapes(draw, cls)
    words = {"activation": draw.choice(activation_words())} if "activation" in cls.specs() and draw.chance(0.4) else {}
    fixed: dict[str, Any] = dict(words)
    if cls.__name__ == "MultiHeadAttention":
        fixed |= {"causal": draw.chance(), "return_attention_scores": draw.chance(0.3)}
    drawn_layer = random_layer(draw, cls, shapes, peer_fields(cls), **fixed)
    layer = _without_differences(drawn_layer)
    words = words if layer == drawn_layer else {}
    call = {}
    if cls.__name__ == "MultiHeadAttention":
        call = {"use_causal_mask": fixed["causal"], "return_attention_scores": fixed["return_attention_scores"]}
    shapes = _fit_shapes(draw, layer, shapes)
    is_index = layer.index_count() is not None
    inputs = []
    for shape in shapes:
        x = draw.rng.integers(0, layer.index_count(), (BATCH, *shape)) if is_index else draw.normal(BATCH, *shape)
        inputs.append(x if is_index else x.astype(dtype))
    if cls.__name__ == "Masking":
        inputs[0][draw.rng.random(inputs[0].shape[:2]) < 0.4] = 0.0
    masks = [_mask(draw, len(x), x.shape[1]) if _takes_mask(cls, x) else None for x in inputs]
    is_random = issubclass(cls, RandomLayer) and differs("Random numbers")
    case = LayerCase(layer, inputs, masks, not is_random and draw.chance(), dtype, call, words)
    draw.config |= {
        "layer": layer,
        "words": words,
        "inputs": [(x.shape, str(x.dtype)) for x in inputs],
        "training": case.training,
        "masks": [m if m is None else m.astype(int).tolist() for m in masks],
        "dtype": dtype,
    }
    return case


def _without_differences(layer: Layer) -> Layer:
    """The layer without what the rows of the table are about."""
    changes: dict[str, Any] = {}
    kind = type(getattr(layer, "activation", None)).__name__
    if "Softmax" in kind and is_channels_last(type(layer)) and differs("Softmax inside a convolution"):
        changes["activation"] = "tanh"
    if type(layer).__name__.startswith("AveragePooling") and differs("Average pooling with uneven padding"):
        changes["padding"] = "valid"
    if getattr(layer, "interpolation", "") == "bicubic" and differs("Bicubic interpolation"):
        changes["interpolation"] = "bilinear"
    if getattr(layer, "go_backwards", False) and differs("The mask of a sequence that goes backwards"):
        changes["return_sequences"] = False
    return layer.replace(**changes)


def _shapes(draw: Draw, cls: type[Layer]) -> list[Shape]:
    """The shapes of the inputs without the batch dimension."""
    spatial = re.search(r"(\d)D", cls.__name__)
    if spatial:
        channels, sizes = draw.integer(1, 4), draw.integers(int(spatial[1]), 3, 7)
        return [(*sizes, channels) if len(sizes) == 1 else (channels, *sizes)]
    if cls.__name__ == "Dot":
        n = draw.integer(2, 4)
        return [tuple(draw.rng.permutation([n, *draw.integers(draw.integer(0, 1), 1, 3)]).tolist()) for _ in range(2)]
    if issubclass(cls, MergeLayer):
        least, most = cls.input_range()
        shape = draw.integers(draw.integer(1, 3), 2, 4)
        return [shape] * draw.integer(least, most or 3)
    if issubclass(cls, RecurrentLayer) or cls.__name__ in ("Bidirectional", "Masking"):
        return [draw.integers(2, 2, 5)]
    if cls.__name__ == "TimeDistributed":
        return [draw.integers(draw.integer(2, 3), 2, 4)]
    if cls.__name__ == "MultiHeadAttention":
        steps, keys, width = draw.integers(3, 2, 5)
        others = [(keys, draw.integer(1, 4)), (keys, draw.integer(1, 4))]
        return [(steps, width), *others[: draw.integer(0, 2)]]
    rank = len(draw.choice([e for e in cls.examples if e.inputs[0]]).inputs[0])
    return [draw.integers(rank, 2, 6)]


def _fit_shapes(draw: Draw, layer: Any, shapes: list[Shape]) -> list[Shape]:
    """The shapes with what depends on the fields: sizes along the axis, first states."""
    cls = type(layer)
    if cls.__name__ == "Concatenate":
        stated = layer.channel_axis(len(shapes[0]) + 1)
        axis = stated - 1 if stated > 0 else stated
        rows = [list(shape) for shape in shapes]
        for row in rows:
            row[axis] = draw.integer(1, 4)
        return [tuple(row) for row in rows]
    if issubclass(cls, MergeLayer) and cls.__name__ != "Dot":
        ones = [tuple(1 if draw.chance(0.15) else n for n in shape) for shape in shapes[1:]]
        return [shapes[0], *ones]
    if issubclass(cls, RecurrentLayer) and draw.chance(0.3):
        return [*shapes, *[(layer.units,)] * (cls.input_range()[1] - 1)]  # type: ignore[operator]
    return shapes


def _takes_mask(cls: type[Layer], x: np.ndarray) -> bool:
    """Whether an input has time: sequences [batch, time, ...]."""
    if cls.__name__ in ("Permute", "Dot") and differs("Masks behind Permute and Dot"):
        return False
    if issubclass(cls, MergeLayer) and x.ndim > 3 and differs("Masks of merged values of more axes"):
        return False
    if is_channels_last(cls):
        return False
    return x.ndim >= 3 and x.dtype.kind == "f" and cls.__name__ != "Masking"


def _mask(draw: Draw, batch: int, steps: int) -> np.ndarray | None:
    """No mask, one of padding at the end, or any; [batch, steps], with a step that counts in each sample."""
    kind = draw.choice(["none", "padding", "any"])
    if kind == "none":
        return None
    if kind == "padding":
        return np.arange(steps)[None] < draw.rng.integers(1, steps + 1, (batch, 1))
    mask = draw.rng.random((batch, steps)) < 0.6
    mask[np.arange(batch), draw.rng.integers(0, steps, batch)] = True
    return mask
