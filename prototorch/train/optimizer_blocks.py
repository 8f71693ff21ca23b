"""Optimizers of parts of a net: what the ``optimizer`` blocks of a ``compile`` block declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.optimizers import Optimizer
from prototorch.schema import Block, FieldType, Identifier, example, field
from prototorch.schema.family import NestedBlock
from prototorch.schema.patterns import Pattern
from prototorch.schema.types import ListOf
from prototorch.schema.validation import ValidationError
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Body, ListValue, Value

__all__ = ["MAX_OPTIMIZERS", "ONLY_OPTIMIZER", "OptimizersField", "WeightOptimizer"]

MAX_OPTIMIZERS = 100
ONLY_OPTIMIZER = "optimizer"  # the name of one that trains all weights


class WeightOptimizer(Block):
    """The optimizer of some weights: ``optimizer { layers: "generator/**"  type: Adam(1e-4) }``.

    Each trained weight has exactly one optimizer. Its learning rate, schedule, clipping by the norm of all gradients
    and moving averages are its own.
    """

    display_name = "optimizer"

    type: Optimizer = field(doc="The optimizer.")
    layers: tuple[str, ...] = field(type=ListOf(Pattern()), doc="Patterns of the layers or weights that it trains.")
    name: str | None = field(
        default=None,
        type=Identifier(),
        doc='Its name in the logs and for callbacks; else that of its first pattern, "generator" of "generator/**".',
    )

    examples = [
        example('optimizer { layers: "**"  type: Adam { learning_rate: 1e-4 } }'),
        example('optimizer { name: "rest"  layers: ["**"]  type: sgd }'),
    ]

    @property
    def short_name(self) -> str:
        """Its name, or that of what its first pattern begins with."""
        if self.name is not None:
            return self.name
        parts = []
        for part in self.layers[0].split("/"):
            if any(c in part for c in "*?[!"):
                break
            parts.append(part)
        return "/".join(parts) or ONLY_OPTIMIZER


class OptimizersField(FieldType):
    """One optimizer for all weights, or a list of optimizers each with the patterns of its layers.

    In Python the list may be a dict of optimizers by pattern, or have pairs (patterns, optimizer).
    """

    repeatable = True

    def __init__(self) -> None:
        self.block = WeightOptimizer

    def _one(self) -> FieldType:
        return WeightOptimizer.specs()["type"].type

    def describe(self) -> str:
        return self._one().describe()

    def label(self) -> str:
        return self._one().label()

    def convert(self, value: Any) -> Any:
        if isinstance(value, WeightOptimizer):
            return (value,)
        if isinstance(value, Mapping) and "class_name" not in value:
            value = list(value.items())
        if not isinstance(value, list | tuple):
            return self._one().convert(value)
        if not value:
            raise ValidationError(hint=" Write one of them, or a dict of optimizers by pattern of the layers.")
        return self._checked(tuple(self._block_of(item) for item in value))

    def _block_of(self, item: Any) -> WeightOptimizer:
        if isinstance(item, WeightOptimizer):
            return item
        if isinstance(item, Mapping):
            return WeightOptimizer(**item)
        if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
            return WeightOptimizer(layers=item[0], type=self._one().convert(item[1]))
        raise ValidationError(
            "of several optimizers each is a pair (patterns of its layers, optimizer), and the list has "
            f"{type(item).__name__}: optimizer=[('generator/**', Adam(1e-4)), ('critic/**', RMSprop(5e-5))]",
            right_kind=True,
        )

    def _checked(self, blocks: tuple[WeightOptimizer, ...]) -> tuple[WeightOptimizer, ...]:
        if len(blocks) > MAX_OPTIMIZERS:  # each has inputs of its own in the step's graph
            raise ValidationError(f"must have at most {MAX_OPTIMIZERS} items, and has {len(blocks):,}", right_kind=True)
        return blocks

    def read(self, value: Value, report: Report) -> Any:
        items = value.items if isinstance(value, ListValue) else (value,)
        if not any(self._is_block(item) for item in items):
            if len(items) != 1:
                error = ValidationError(
                    f"has {len(items)} values, and one optimizer trains all weights: several are blocks that say which "
                    'layers each one trains, optimizer { layers: "generator/**"  type: Adam { } }',
                    right_kind=True,
                )
                error.span = items[1].span if len(items) > 1 else None
                raise error
            return self._one().read(items[0], report)
        blocks = []
        for item in items:
            try:
                if not self._is_block(item):
                    raise ValidationError(
                        "trains all weights, and there are other optimizers beside it: write optimizer "
                        "{ layers: ...  type: ... } here, too",
                        right_kind=True,
                    )
                blocks.append(NestedBlock(WeightOptimizer).read(item, report))
            except ValidationError as error:
                error.span = error.span or item.span
                raise
        return self._checked(tuple(blocks))

    @staticmethod
    def _is_block(item: Value) -> bool:
        """Whether it is ``{ layers: ... }``, not an optimizer as ``{ type: Adam ... }`` or ``{ Adam { } }``."""
        return isinstance(item, Body) and any(f.name in ("layers", "name") for f in item.fields)

    def write(self, value: Any) -> Value:
        if isinstance(value, Optimizer):
            return self._one().write(value)
        return ListValue(tuple(Body(tuple(block.to_fields())) for block in value))
