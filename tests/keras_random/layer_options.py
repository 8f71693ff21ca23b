"""Random layers whose fields Keras has as well: fields by the types of the schema, and what must fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.schema import Padding
from prototorch.schema.fields import MISSING
from prototorch.text.case_conversion import snake_case
from tests.keras_random.draw import Draw
from tests.nets.random_fields import drawn

Shape = tuple[int, ...]
Hint = Callable[[Draw, type[Layer], list[Shape]], Any]

#: fields that stay as they are: first values, which both sides are given; what enters into no step; random numbers;
#: data_format, which has tests of its own (tests/layers/test_data_format.py)
KEPT = ("_initializer", "_constraint", "seed", "dropout", "noise_shape", "trainable", "weights", "name", "data_format")


def activation_words() -> list[str]:
    """The activations that both have; in snake_case the names are the same."""
    words = [snake_case(name) for name in ActivationLayer.members()]
    return [word for word in words if hasattr(keras.activations, word)]


def serializable_words() -> list[str]:
    """Those without arguments: Keras' Bidirectional copies its layer by its configuration, which has their names."""
    return [word for word in activation_words() if set(Layer.lookup(word).specs()) == set(Layer.specs())]


def random_layer(draw: Draw, cls: type[Layer], shapes: list[Shape], peer_fields: set[str], **fixed: Any) -> Layer:
    """A random layer for inputs of these shapes (without the batch dimension), with fields that Keras has."""
    for name, spec in cls.specs().items():
        hint = HINTS.get(f"{cls.__name__}.{name}") or HINTS.get(name)
        if name in fixed or hint is None:
            if isinstance(spec.type, Padding) and spec.type.words:
                fixed.setdefault(name, draw.choice(spec.type.words))
        elif spec.default is MISSING or name in getattr(cls, "learned_fields", ()) or draw.chance(0.7):
            fixed[name] = hint(draw, cls, shapes)
    layer: Layer = drawn(cls, draw.random, shapes[0], **fixed)
    hinted = {n for n in cls.specs() if f"{cls.__name__}.{n}" in HINTS or n in HINTS}
    required = {n: getattr(layer, n) for n, spec in cls.specs().items() if spec.default is MISSING}
    kept = {n for n in cls.specs() if n not in fixed and (n not in peer_fields or n in hinted or n.endswith(KEPT))}
    plain = cls(**required)
    return layer.replace(**{n: getattr(plain, n) for n in kept})


def _units(draw: Draw, cls: Any, shapes: list[Shape]) -> int:
    return draw.integer(1, 5)


def _any_axis(draw: Draw, cls: Any, shapes: list[Shape]) -> int:
    rank = len(shapes[0])
    return draw.choice([*range(1, rank + 1), *range(-rank, 0)])


def _trailing_axes(draw: Draw, cls: Any, shapes: list[Shape]) -> list[int]:
    """Keras on PyTorch takes the last axes of a layer norm only."""
    return list(range(-draw.integer(1, len(shapes[0])), 0))


def _target_shape(draw: Draw, cls: Any, shapes: list[Shape]) -> tuple[int, ...]:
    dims = list(shapes[0])
    if len(dims) > 1 and draw.chance():
        dims = [dims[0] * dims[1], *dims[2:]]
    dims = [int(n) for n in draw.rng.permutation(dims)]
    if draw.chance():
        dims[draw.integer(0, len(dims) - 1)] = -1
    return tuple(dims)


def _inner_layer(draw: Draw, cls: Any, shapes: list[Shape]) -> Layer:
    """For Bidirectional a recurrent layer, for TimeDistributed one on the elements of a step."""
    if cls.__name__ == "Bidirectional":
        kind: type[Layer] = draw.choice(list(RecurrentLayer.members().values()))
        words = {
            n: draw.choice(serializable_words()) for n in ("activation", "recurrent_activation") if n in kind.specs()
        }
        return random_layer(draw, kind, shapes, set(kind.specs()), go_backwards=draw.chance(0.2), **words)
    kind = Layer.lookup(draw.choice(["Dense", "Activation", "Flatten", "Rescaling", "LayerNormalization"]))
    return random_layer(draw, kind, [shapes[0][1:]], set(kind.specs()))


def _dot_axes(draw: Draw, cls: Any, shapes: list[Shape]) -> list[int]:
    first, second = shapes
    return list(draw.choice([(i + 1, j + 1) for i, m in enumerate(first) for j, n in enumerate(second) if m == n]))


def _channel_axis(draw: Draw, cls: Any, shapes: list[Shape]) -> int:
    """The axis of the channels by default: the last of tables and sequences."""
    return 1 if len(shapes[0]) > 2 else len(shapes[0])


def _channels(shapes: list[Shape]) -> int:
    return shapes[0][0] if len(shapes[0]) > 2 else shapes[0][-1]


def _per_channel(low: float, high: float) -> Hint:
    return lambda draw, cls, shapes: [draw.number(low, high) for _ in range(_channels(shapes))]


def _filters(draw: Draw, cls: Any, shapes: list[Shape]) -> int:
    return draw.integer(1, 3) * _channels(shapes)  # whole groups, whatever divides the channels


HINTS: dict[str, Hint] = {
    **dict.fromkeys(("units", "output_dim", "key_dim", "value_dim", "output_shape"), _units),
    "filters": _filters,
    "input_dim": lambda *_: 7,
    "layer": _inner_layer,
    "backward_layer": lambda *_: None,
    "axes": _dot_axes,
    "target_shape": _target_shape,
    "BatchNormalization.axis": _any_axis,
    "Concatenate.axis": _any_axis,
    "Softmax.axis": _any_axis,
    "Normalization.axis": _channel_axis,
    "GroupNormalization.axis": _channel_axis,
    "LayerNormalization.axis": _trailing_axes,
    "mean": _per_channel(-1, 1),
    "variance": _per_channel(0.1, 2),
    "Rescaling.scale": lambda draw, *_: draw.number(-2, 2),
    "Rescaling.offset": lambda draw, *_: draw.number(-2, 2),
    "UpSampling1D.size": lambda draw, *_: draw.integer(2, 3),  # with 1 the output is the input, mask and all
    "mask_value": lambda *_: 0.0,
    "CenterCrop.height": lambda draw, cls, shapes: draw.integer(1, shapes[0][1]),
    "CenterCrop.width": lambda draw, cls, shapes: draw.integer(1, shapes[0][2]),
    "cropping": lambda draw, cls, shapes: tuple(draw.integers(2, 0, 1) for _ in shapes[0][1:]),
}
