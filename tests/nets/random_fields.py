"""Random blocks of any family: a value for each field by its declared type, in ranges in which nets stay tame."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from prototorch.errors import UsageError
from prototorch.schema import Block, FieldType, Ints, Padding
from prototorch.schema.family import FamilyMember
from prototorch.schema.shapes import Dims
from prototorch.schema.types import Bool, Choice, Float, Int, ListOf, Optional, Union

Shape = tuple[int, ...]
Hint = Callable[[Random, Shape], Any]

#: sizes that fill vectors and tiles, sizes that do not, and one
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 24, 32, 33)
FLOATS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0, -0.1, -0.5)

#: how often a field that has a default is drawn; by what its name ends with
OFTEN = {
    "activation": 0.4, "strides": 0.5, "padding": 0.6, "use_bias": 0.3, "return_sequences": 0.6, "groups": 0.5,
    "initializer": 0.1, "regularizer": 0.12, "constraint": 0.12, "name": 0.0, "seed": 0.02, "use_ema": 0.1, "axis": 0.4,
    "share": 0.0, "clipnorm": 0.3, "clipvalue": 0.2, "trainable": 0.0, "weights": 0.0, "mult": 0.05,
    "weight_decay": 0.2, "backward_layer": 0.0, "noise_shape": 0.3, "fill_value": 0.1, "value_range": 0.0,
    "return_state": 0.15,
}  # fmt: skip


def _size(rng: Random, shape: Shape) -> int:
    return rng.choice(SIZES)


def _between(low: float, high: float) -> Hint:
    return lambda rng, shape: round(rng.uniform(low, high), 3)


def _one_of(*values: Any) -> Hint:
    return lambda rng, shape: rng.choice(values)


def _axis(rng: Random, shape: Shape) -> int:
    return rng.choice([1, -1, *range(1, len(shape) + 1)])


def _axes(rng: Random, shape: Shape) -> list[int]:
    return sorted(rng.sample(range(1, len(shape) + 1), rng.randint(1, len(shape)))) if shape else [-1]


def _divisor(rng: Random, shape: Shape) -> int:
    n = shape[0] if shape else 1
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def _filters(rng: Random, shape: Shape) -> int:
    return rng.choice([shape[0], 2 * shape[0], *SIZES]) if shape else rng.choice(SIZES)


def _same_number(rng: Random, shape: Shape) -> list[int]:
    """The same number of elements in another shape."""
    left, sizes = 1, []
    for n in shape:
        left *= n
    for _ in range(rng.randint(0, 2)):
        sizes.append(rng.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= sizes[-1]
    sizes.append(left)
    rng.shuffle(sizes)
    return sizes


def _order(rng: Random, shape: Shape) -> list[int]:
    return rng.sample(range(1, len(shape) + 1), len(shape)) or [1]


def _noise_shape(rng: Random, shape: Shape) -> list[int | None]:
    return [None, *(rng.choice([1, n]) for n in shape)]


def _place(axis: int) -> Hint:
    """A size near that of the input along an axis from the end."""
    return lambda rng, shape: max(1, shape[axis] + rng.randint(-2, 3)) if len(shape) >= -axis else 1


def _numbers(low: float, high: float) -> Hint:
    return lambda rng, shape: [round(rng.uniform(low, high), 3)] * (shape[-1] if shape and rng.random() < 0.3 else 1)


#: fields whose type says too little, by name: what keeps numbers near 1, or fits the shape that is read
HINTS: dict[str, Hint] = {
    **dict.fromkeys(("units", "output_dim"), _size), "filters": _filters, "output_shape": _size,
    **dict.fromkeys(("key_dim", "value_dim"), _one_of(1, 2, 3, 5, 8, 16)), "num_heads": _one_of(1, 2, 3, 4),
    **dict.fromkeys(("rate", "dropout", "recurrent_dropout"), _between(0.05, 0.6)),
    "epsilon": _one_of(1e-3, 1e-2, 0.1), "momentum": _between(0.3, 0.95), "rho": _between(0.5, 0.95),
    **dict.fromkeys(("beta_1", "beta_2", "ema_momentum"), _between(0.5, 0.99)),
    **dict.fromkeys(("l1", "l2", "weight_decay"), _one_of(1e-3, 1e-2)), "factor": _one_of(0.01, 0.1, 0.2),
    **dict.fromkeys(("learning_rate", "initial_learning_rate", "end_learning_rate", "warmup_target", "start"),
                    _between(0.001, 0.02)),
    **dict.fromkeys(("decay_steps", "first_decay_steps", "step_size", "steps"), _one_of(1, 2, 3, 10)),
    **dict.fromkeys(("clipnorm", "global_clipnorm", "clipvalue"), _one_of(0.01, 0.1, 1.0, 10.0)),
    "axis": _axis, "axes": _axes, "shared_axes": _axes, "groups": _divisor, "target_shape": _same_number,
    "dims": _order, "noise_shape": _noise_shape, "height": _place(-2), "width": _place(-1),
    "sequence_length": lambda rng, shape: (shape[0] if shape else 1) + rng.randint(0, 2),
    "scale": _numbers(0.3, 1.5), "offset": _numbers(-1, 1), "mean": _numbers(-0.5, 0.5), "variance": _numbers(0.5, 2),
    "stddev": _between(0.05, 0.3), "gain": _between(0.5, 1.2), "value": _one_of(0.0, 0.1, -0.2, 1.0),
    "minval": _between(-0.3, -0.05), "maxval": _between(0.05, 0.3), "k": _one_of(1, 2, 3), "top_k": _one_of(1, 2),
    "alpha": _one_of(1e-4, 0.1, 0.25, 1.0), "beta": _one_of(0.5, 0.75, 1.0), "negative_slope": _one_of(0.01, 0.1, 0.3),
    "size": _one_of(1, 2, 3), "power": _one_of(0.5, 1.0, 2.0), "label_smoothing": _one_of(0.1, 0.3),
    "fill_value": _one_of(0.0, 0.5), "n": _one_of(1, 2, 3, 5), "num_thresholds": _one_of(2, 5, 20),
    "ignore_class": _one_of(0, 1, -1), "max_value": _one_of(0.5, 1.0, 2.0), "min_value": _one_of(0.1, 0.3),
    **dict.fromkeys(("height_factor", "width_factor"), _one_of(0.1, 0.3)), "input_dim": _one_of(3, 7, 20),
    "thresholds": _one_of(0.3, 0.5), "threshold": _one_of(0.0, 0.3, 0.5),
    "depth_multiplier": _one_of(1, 2, 3), "ema_overwrite_frequency": _one_of(1, 2), "class_id": _one_of(0, 1),
    "values": lambda rng, shape: [0.01, 0.003, 0.001][: rng.randint(2, 3)],
}  # fmt: skip


def drawn(cls: type[Block], rng: Random, shape: Shape = (), depth: int = 0, tries: int = 12, **fixed: Any) -> Any:
    """A random block of a class. shape: of what it reads, without the batch. UsageError where no try is legal."""
    for left in reversed(range(tries)):
        values = dict(fixed)
        for name, spec in cls.specs().items():
            if name not in values and (spec.required or rng.random() < _often(name)):
                values[name] = _field(spec.type, name, rng, shape, depth)
        try:
            return cls(**values)
        except UsageError:
            if not left:
                raise
    raise UsageError(f"{cls.__name__}: no try")


def _often(name: str) -> float:
    ends = [share for end, share in OFTEN.items() if name == end or name.endswith(f"_{end}")]
    return ends[0] if ends else 0.25


def _field(kind: FieldType, name: str, rng: Random, shape: Shape, depth: int) -> Any:
    if isinstance(kind, Union):
        kind = rng.choice(kind.inner)
    if isinstance(kind, Optional):
        return None if rng.random() < 0.2 else _field(kind.inner, name, rng, shape, depth)
    if isinstance(kind, FamilyMember):
        return _member(kind.root, rng, shape, depth)
    if name in HINTS and not isinstance(kind, Ints | Bool | Choice):
        value = HINTS[name](rng, shape)
        return [value] if isinstance(kind, ListOf) and not isinstance(value, list) else _single(kind, value)
    return _by_type(kind, rng, shape, depth)


def _single(kind: FieldType, value: Any) -> Any:
    return value[0] if isinstance(value, list) and isinstance(kind, Int | Float) else value


def _member(root: Any, rng: Random, shape: Shape, depth: int) -> Any:
    """A random member of a family; inside of another one with its defaults only."""
    members = [c for c in root.members().values() if c.__module__.startswith("prototorch.")]
    rng.shuffle(members)
    for cls in members:
        needs = [s for s in cls.specs().values() if s.required]
        if depth and any(isinstance(s.type, FamilyMember | Union) for s in needs):
            continue
        try:
            return drawn(cls, rng, shape, depth + 1, tries=3)
        except UsageError:
            continue
    raise UsageError(f"no {root.__name__} can be drawn")


def _by_type(kind: FieldType, rng: Random, shape: Shape, depth: int) -> Any:
    if isinstance(kind, Bool):
        return rng.random() < 0.5
    if isinstance(kind, Choice):
        return rng.choice(kind.choices)
    if isinstance(kind, Int):
        low = int(kind.bounds.min if kind.bounds.min is not None else 0)
        return rng.randint(low, low + 3)
    if isinstance(kind, Float):
        return rng.choice([x for x in FLOATS if kind.bounds.contains(x)])
    if isinstance(kind, Ints):
        low = kind.min or 0
        most = rng.choice((1, 2, 2, 3, 4))
        each = [low + rng.randint(0, most) for _ in range(kind.rank)]
        return each if rng.random() < 0.4 and kind.rank > 1 else each[0]
    if isinstance(kind, Padding):
        return _padding(kind, rng)
    if isinstance(kind, Dims):
        return [rng.choice((1, n)) for n in shape]
    if isinstance(kind, ListOf):
        return [_by_type(kind.inner, rng, shape, depth) for _ in range(kind.length or rng.randint(1, 3))]
    return rng.choice((0.1, 0.2))  # a type of one family's own: a number stands for a range around it


def _padding(kind: Padding, rng: Random) -> Any:
    if kind.words and rng.random() < 0.6:
        return rng.choice(("same", *kind.words))
    if rng.random() < 0.5:
        return rng.randint(0, 2)
    return (
        [[rng.randint(0, 2), rng.randint(0, 2)] for _ in range(kind.rank)] if kind.rank > 1 else [1, rng.randint(0, 2)]
    )
