"""Weights before they have values, and what layers that share one say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from prototorch.constraints import Constraint
from prototorch.errors import ShapeError
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.regularizers import Regularizer
from prototorch.spec import Spec

__all__ = ["SharedWeight", "WeightSpec", "default_values", "merge_weights", "stated_options"]


@dataclass(frozen=True)
class WeightSpec:
    """A weight before it has values. ``name`` is ``layer/weight``; ``fans`` are (fan_in, fan_out).

    layer: the name of the first layer that uses it; stated: which of its options that layer states, in contrast to
    those that are defaults.
    """

    name: str
    spec: Spec
    initializer: Initializer
    fans: tuple[int, int]
    regularizer: Regularizer | None = None
    constraint: Constraint | None = None
    trainable: bool = True
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    layer: str = ""
    stated: frozenset[str] = frozenset()


class SharedWeight(NamedTuple):
    """The weight that is used in the place of a layer's own (`Layer.share`), and the shape that it has there."""

    source: str
    shape: tuple[int, ...]


def default_values(layer: Layer) -> frozenset[int]:
    """The identities of the values of a layer's fields that are their defaults."""
    values = layer.__dict__
    return frozenset(id(values[name]) for name, spec in type(layer).specs().items() if values[name] is spec.default)


def stated_options(defaults: frozenset[int], values: Mapping[str, Any]) -> frozenset[str]:
    """Which options of a weight are not among the `default_values` of its layer."""
    return frozenset(n for n, value in values.items() if value not in (None, 1.0) and id(value) not in defaults)


def merge_weights(first: WeightSpec, second: WeightSpec) -> WeightSpec:
    """A weight that two layers share: options that one of them states hold for both, and it is trained where both
    train it. Raises ShapeError for options that they state differently, and for other shapes or dtypes.
    """
    if first.spec != second.spec:
        raise ShapeError(
            f"the shared weight {first.name!r} is {_format(first.spec)} in the layer {first.layer!r}, "
            f"but would need to be {_format(second.spec)} here"
        )
    changes: dict[str, Any] = {"trainable": first.trainable and second.trainable}
    for option in second.stated:
        setting, other = getattr(second, option), getattr(first, option)
        if option in first.stated and setting != other:
            raise ShapeError(
                f"the shared weight {first.name!r} has the {option} {other} by the layer {first.layer!r}, but "
                f"{setting} here: state it in one of the two layers, or the same in both"
            )
        changes[option] = setting
    return replace(first, **changes, stated=first.stated | second.stated)


def _format(spec: Spec) -> str:
    return f"{spec.dtype} {list(spec.shape)}"
