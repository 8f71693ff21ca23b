"""The use of a block: what it reads, the layers in its braces, what holds for all layers in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from prototorch.text.operands import BareWord
from prototorch.text.source import Span
from prototorch.text.syntax_tree import BlockDef, Body, ExpansionFrame, Field, InvalidValue, Scalar, Value

__all__ = ["BlockUse", "LayerSettings", "LayerWord", "LayersValue"]


@dataclass(slots=True)
class BlockUse:
    """The use of a block whose layers are being expanded.

    block: its name, for messages. inputs: the outputs that it reads, by their full names; empty where they are unknown.
    declared: its ``input "x"`` statements, in their order. outputs: what its ``output`` statement names, with places.
    """

    block: str
    inputs: tuple[str, ...] = ()
    declared: tuple[Field, ...] = ()
    outputs: list[tuple[str, Span | None]] = field(default_factory=list)


class LayerWord(BareWord):
    """A word that names a layer or a block, as an argument of a block. block: what it means where it stands, with its
    place in the order of definitions; None for a layer. span: where it stands."""

    __slots__ = ("block", "span")
    block: tuple[int, BlockDef] | None
    span: Span | None

    @classmethod
    def of(cls, word: str, block: tuple[int, BlockDef] | None, span: Span | None) -> LayerWord:
        new = cls(word)
        new.block, new.span = block, span
        return new


class LayersValue:
    """Layers in braces as the argument of a block, with the scope that they stand in.

    definition: the layers, as a block without arguments that bears the argument's name. names, scope: of where they
    stand. home: the tables of their file. chain: what their mistakes show, with the use that they belong to.
    """

    __slots__ = ("chain", "definition", "home", "names", "scope")

    def __init__(self, name: str, body: Body, names: Any, scope: Any, home: Any, chain: ExpansionFrame | None):
        self.definition = BlockDef(name, (), body, body.span, body.span)
        self.names = names
        self.scope = scope
        self.home = home
        self.chain = chain

    def __repr__(self) -> str:
        return "layers { ... }"


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """Fields of the use of a block that hold for all layers in it.

    weights: the name under which the layers share their weights with those of other uses, each by its name below
    ``base``, the prefix of this use.
    """

    trainable: bool = True
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    weights: str | None = None
    base: str = ""

    def apply(self, fields: tuple[Field, ...], name: str, span: Span | None) -> tuple[Field, ...]:
        """The fields of a layer with them: it is trained where it and all blocks around it say so, factors are
        multiplied, and its own name of shared weights stays."""
        new_fields = list(fields)
        if not self.trainable:
            _set(new_fields, "trainable", Scalar(False, span), span)
        for factor, number in (("lr_mult", self.lr_mult), ("decay_mult", self.decay_mult)):
            if number != 1.0:
                own = next((f.value for f in fields if f.name == factor), Scalar(1.0))
                if not isinstance(own, Scalar) or isinstance(own.value, str | bool):
                    continue  # it is reported
                _set(new_fields, factor, Scalar(own.value * number, span), span)
        if self.weights is not None and not any(f.name == "weights" for f in fields):
            _set(new_fields, "weights", Scalar(f"{self.weights}/{name.removeprefix(self.base)}", span), span)
        return tuple(new_fields)


def _set(fields: list[Field], name: str, value: Value, span: Span | None) -> None:
    for number, f in enumerate(fields):
        if f.name == name:
            fields[number] = f if isinstance(f.value, InvalidValue) else replace(f, value=value)
            return
    fields.append(Field(name, value, span, span))
