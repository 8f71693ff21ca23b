"""Trainings of alternating steps: what the ``train`` block of a ``compile`` block declares."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

from prototorch.schema import Block, Identifier, Str, example, field
from prototorch.schema.family import NestedBlock, NestedBlockList
from prototorch.schema.patterns import Pattern
from prototorch.schema.types import ListOf

__all__ = ["MAX_REPEAT", "Training", "TrainingStep"]

MAX_REPEAT, MAX_STEPS = 1000, 100


class TrainingStep(Block):
    """One of the steps of a training that alternate: ``step "critic" { losses: "critic_loss"  weights:
    "critic/**"  repeat: 5 }``.

    It lowers the sum of its losses by changing its weights alone; all others are constants in it. Layers that its
    losses do not depend on do not run. Each repetition has a batch of its own.
    """

    display_name = "step"

    name: str = field(type=Identifier(), doc='Its name; the logs have its loss as the name with "_loss".')
    losses: tuple[str, ...] = field(
        type=ListOf(Str()), doc="The losses that it lowers, by their names, and layers that add a loss, by theirs."
    )
    weights: tuple[str, ...] = field(
        default=("**",), type=ListOf(Pattern()), doc="Patterns of the layers or weights that it changes."
    )
    repeat: int = field(default=1, min=1, max=MAX_REPEAT, doc="How many times it runs before the next step.")

    examples = [
        example('step { name: "critic"  losses: "score_loss"  weights: "critic/**"  repeat: 5 }'),
    ]

    def check(self) -> None:
        if not self.losses:
            self.refuse("losses is empty: name the losses that the step lowers", "losses")


class Training(Block):
    """Steps that alternate: ``train { step { ... }  step { ... } }``, in their order, again and again."""

    display_name = "train"

    step: tuple[TrainingStep, ...] = field(
        type=NestedBlockList(NestedBlock(TrainingStep)), doc="The steps of a round, in their order."
    )

    examples = [
        example('train { step { name: "all"  losses: "y_loss"  weights: "**" } }'),
    ]

    @classmethod
    def coerce(cls, value: Any) -> Self | None:
        """A list of steps, each a `TrainingStep` or a dict of its fields."""
        return cls(step=value) if isinstance(value, list | tuple) else None

    def check(self) -> None:
        count = Counter(step.name for step in self.step)
        twice = next((name for name, n in count.items() if n > 1), None)
        if not self.step or len(self.step) > MAX_STEPS:
            self.refuse(f"it needs 1 to {MAX_STEPS} steps, and has {len(self.step)}", "step")
        if twice is not None:
            self.refuse(f"the step {twice!r} is there twice: give each step a name of its own", "step")
