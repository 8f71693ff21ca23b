"""Wiring: which layer reads what. Collects the layers of a text in their order, then says what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.graph.net import InputNode, LayerNode
from prototorch.graph.symbolic import top_names
from prototorch.layers.base import Layer
from prototorch.text.diagnostics import Report
from prototorch.text.name_resolution import string_values
from prototorch.text.source import Span
from prototorch.text.syntax_tree import ExpansionFrame, Field, Value


@dataclass
class PlacedLayer:
    """A layer at its place; ``layer`` is None where its fields have mistakes."""

    name: str
    kind: str
    layer: Layer | None
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    span: Span | None
    chain: ExpansionFrame | None

    def node(self) -> LayerNode:
        """As a node of the net."""
        assert self.layer is not None
        return LayerNode(self.name, self.layer, self.bottoms, self.tops, self.span, self.chain)


class Connections:
    """The names known so far. ``strict`` is False where the text has mistakes from which others would follow."""

    def __init__(self, report: Report, later: dict[str, Span | None], strict: bool):
        self.report = report
        self.strict = strict
        self.torn = False  # a name leads nowhere: what is not reached need not be to blame
        self.later = later  # every name of the text with its place, to tell "below" from "nowhere"
        self.inputs: dict[str, InputNode] = {}
        self.placed: list[PlacedLayer] = []
        self.names: dict[str, Span | None] = {}  # layers and inputs
        self.tops: dict[str, Span | None] = {}  # what can be read
        self.loose: set[str] = set()  # layers with mistakes: nobody knows their outputs

    # ------------------------------------------------------------------ adding

    def add_input(self, node: InputNode) -> None:
        """An input of the net."""
        if self._new(node.name, node.span, None, "input"):
            self.inputs[node.name] = node
        self.tops.setdefault(node.name, node.span)

    def add(self, placed: PlacedLayer) -> None:
        """A layer, after what it reads."""
        if placed.name:
            self._new(placed.name, placed.span, placed.chain, "layer")
        for top in placed.tops:
            if top in self.tops:
                if top != placed.name:
                    said = f"The output name {top!r} is used twice{_first_line(self.tops[top])}."
                    self.report.add(said, placed.span, placed.chain)
            else:
                self.tops[top] = placed.span
        if placed.layer is None:
            self.loose.add(placed.name)
        self.placed.append(placed)

    def _new(self, name: str, span: Span | None, chain: ExpansionFrame | None, what: str) -> bool:
        if name in self.names:
            self.report.add(
                f"The name {name!r} is used twice{_first_line(self.names[name])}; names differ.", span, chain
            )
            return False
        self.names[name] = span
        return True

    # ------------------------------------------------------------------ reading

    def bottoms(self, fields: Sequence[Field], name: str, chain: ExpansionFrame | None) -> tuple[str, ...]:
        """The names in a layer's ``bottom`` fields, each of which must be there."""
        found: list[str] = []
        for f in fields:
            for item in getattr(f.value, "items", (f.value,)):
                text = _string(item)
                if text is None:
                    self.torn = True
                    self.report.add("A bottom is a name in quotes, or a list of them.", item.span, chain)
                    continue
                found.append(text)
                self._readable(text, name, item.span, chain)
        return tuple(found)

    def _readable(self, text: str, name: str, span: Span | None, chain: ExpansionFrame | None) -> None:
        if text in self.tops or text.partition(":")[0] in self.loose or not self.strict:
            return
        self.torn = True
        if text == name:
            self.report.add(f"The layer {name!r} reads itself.", span, chain)
        elif text in self.names:
            tops = next(p.tops for p in self.placed if p.name == text)
            said = f"The layer {text!r} gives its output another name: read {' or '.join(map(repr, tops))}."
            self.report.add(said, span, chain)
        elif text in self.later:
            place = self.later[text]
            where = f" (line {place.line})" if place is not None else ""
            self.report.add(f"{text!r} stands below{where}; a layer reads only what stands above it.", span, chain)
        else:
            hint = did_you_mean(text, self.tops) or _list_names(self.tops)
            self.report.add(f"There is no layer and no input named {text!r}.{hint}", span, chain)

    def output_names(self, field: Field | None, what: str = "output") -> list[str]:
        """The names in an ``output`` field, each of which must be there."""
        if field is None:
            return []
        found = []
        for item in getattr(field.value, "items", (field.value,)):
            text = _string(item)
            if text is None:
                self.torn = True
                self.report.add(f"An {what} is a name in quotes, or a list of them.", item.span)
            elif text in self.tops:
                found.append(text)
            elif self.strict and text.partition(":")[0] not in self.loose:
                self.torn = True
                hint = did_you_mean(text, self.tops) or _list_names(self.tops)
                self.report.add(f"There is no layer named {text!r} to be an {what}.{hint}", item.span)
        return found

    # ------------------------------------------------------------------ the end

    def reach(self, outputs: Sequence[str]) -> None:
        """Say which layers and inputs lead nowhere: of a dead end only its last layer."""
        if not self.strict or self.torn:
            return
        live = set(outputs)
        read: set[str] = set()
        for placed in reversed(self.placed):
            read.update(placed.bottoms)
            if live.intersection(placed.tops):
                live.update(placed.bottoms)
        for placed in self.placed:
            if not live.intersection(placed.tops) and not read.intersection(placed.tops):
                said = (
                    f"Nothing reads the layer {placed.name!r}: name it in 'output', read it with 'bottom', "
                    "give it a loss, or take it out."
                )
                self.report.add(said, placed.span, placed.chain)
        for name, node in self.inputs.items():
            if name not in read and name not in live:
                self.report.add(f"Nothing reads the input {name!r}.", node.span)


def check_input_count(cls: type[Layer], bottoms: Sequence[str], branches: bool) -> str | None:
    """What is wrong with the number of inputs of a layer, or None."""
    least, most = cls.input_range()
    count = len(bottoms)
    if least <= count and (most is None or count <= most):
        return None
    wanted = f"{least} input{'s' * (least != 1)}" if least == most else f"at least {least} inputs"
    if most is not None and least != most:
        wanted = f"{least} to {most} inputs"
    hint = ""
    if branches:
        given = f"{count} branch{'es' * (count != 1)}"
        hint = " Each branch is one input." if getattr(cls, "accepts_branches", False) else ""
        return f"{cls.__name__} reads {wanted}, and has {given}.{hint}" if hint else None
    if count < least:
        hint = ' Name them: bottom: ["a", "b"]' if least > 1 else ' Name it: bottom: "a"'
        hint += ", or give it branches: branch { ... } branch { }." if getattr(cls, "accepts_branches", False) else "."
    return f"{cls.__name__} reads {wanted}, and has {count}.{hint}"


def complete_top_names(layer: Layer | None, name: str, given: Sequence[str]) -> tuple[str, ...]:
    """The names of a layer's outputs: as given, and for the rest by its name."""
    count = layer.output_count() if layer is not None else max(1, len(given))
    return (*given, *top_names(name, count)[len(given) :]) if len(given) <= count else tuple(given)


def _string(value: Value) -> str | None:
    found = string_values(value)
    return found[0] if len(found) == 1 else None


def _first_line(span: Span | None) -> str:
    return f" (first at line {span.line})" if span is not None else ""


def _list_names(names: Any) -> str:
    return f" There are {', '.join(names)}." if 0 < len(names) <= 8 else ""
