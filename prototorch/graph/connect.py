"""Connecting the layers of a text: which layer reads what. Collects the layers in their order and reports mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.graph.net import InputNode, LayerNode
from prototorch.graph.symbolic import top_names
from prototorch.layers.add_loss import AddLoss
from prototorch.layers.base import Layer
from prototorch.text.diagnostics import Report
from prototorch.text.name_resolution import string_values
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, ExpansionFrame, Field, InvalidValue, Value


@dataclass
class ParsedLayer:
    """A layer as it is read from a text; ``layer`` is None where its fields have mistakes."""

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

    def __init__(self, report: Report, all_names: dict[str, Span | None], strict: bool):
        self.report = report
        self.strict = strict
        self.has_broken_links = False  # a name is not defined: an unreachable layer is then no mistake of its own
        self.all_names = all_names  # every name of the text with its span, to distinguish "below" from "nowhere"
        self.inputs: dict[str, InputNode] = {}
        self.layers: list[ParsedLayer] = []
        self.names: dict[str, Span | None] = {}  # layers and inputs
        self.tops: dict[str, Span | None] = {}  # what can be read
        self.layers_with_errors: set[str] = set()  # their outputs are not known

    # ------------------------------------------------------------------ adding

    def add_input(self, node: InputNode) -> None:
        """An input of the net."""
        if self._add_name(node.name, node.span, None, "input"):
            self.inputs[node.name] = node
        self.tops.setdefault(node.name, node.span)

    def add(self, entry: ParsedLayer) -> None:
        """A layer, after what it reads."""
        is_new = not entry.name or self._add_name(entry.name, entry.span, entry.chain, "layer")
        for top in entry.tops:
            if top in self.tops:
                if top != entry.name or is_new:
                    message = f"The output name {top!r} is used twice{_first_line(self.tops[top])}."
                    self.report.add(message, entry.span, entry.chain)
            else:
                self.tops[top] = entry.span
        if entry.layer is None:
            self.layers_with_errors.add(entry.name)
        self.layers.append(entry)

    def _add_name(self, name: str, span: Span | None, chain: ExpansionFrame | None, what: str) -> bool:
        if name in self.names:
            self.report.add(
                f"The name {name!r} is used twice{_first_line(self.names[name])}; names differ.", span, chain
            )
            return False
        self.names[name] = span
        return True

    # ------------------------------------------------------------------ reading

    def read_bottoms(self, fields: Sequence[Field], name: str, chain: ExpansionFrame | None) -> tuple[str, ...]:
        """The names in a layer's ``bottom`` fields, each of which must be there."""
        names: list[str] = []
        for f in fields:
            for item in getattr(f.value, "items", (f.value,)):
                text = _string(item)
                if text is None:
                    self.has_broken_links = True
                    if isinstance(item, InvalidValue):
                        continue
                    self.report.add("A bottom is a name in quotes, or a list of them.", item.span, chain)
                    continue
                names.append(text)
                self._check_readable(text, name, item.span, chain)
        return tuple(names)

    def _check_readable(self, text: str, name: str, span: Span | None, chain: ExpansionFrame | None) -> None:
        if text in self.tops or text.partition(":")[0] in self.layers_with_errors or not self.strict:
            return
        self.has_broken_links = True
        if text == name:
            self.report.add(f"The layer {name!r} reads itself.", span, chain)
        elif text in self.names:
            tops = next(p.tops for p in self.layers if p.name == text)
            message = f"The layer {text!r} gives its output another name: read {' or '.join(map(repr, tops))}."
            self.report.add(message, span, chain)
        elif text in self.all_names:
            line = self.all_names[text]
            where = f" (line {line.line})" if line is not None else ""
            self.report.add(
                f"{text!r} is defined below{where}; a layer reads only what is defined above it.", span, chain
            )
        else:
            hint = did_you_mean(text, self.tops) or _list_names(self.tops)
            self.report.add(f"There is no layer and no input named {text!r}.{hint}", span, chain)

    def output_names(self, field: Field | None, what: str = "output") -> list[str]:
        """The names in an ``output`` field, each of which must be there."""
        if field is None:
            return []
        names = []
        for item in getattr(field.value, "items", (field.value,)):
            text = _string(item)
            if text is None:
                self.has_broken_links = True
                self.report.add(f"An {what} is a name in quotes, or a list of them.", item.span)
            elif text in self.tops:
                names.append(text)
            elif self.strict and text.partition(":")[0] not in self.layers_with_errors:
                self.has_broken_links = True
                hint = did_you_mean(text, self.tops) or _list_names(self.tops)
                self.report.add(f"There is no layer named {text!r} to be an {what}.{hint}", item.span)
        return names

    # ------------------------------------------------------------------ the end

    def report_unreachable(self, outputs: Sequence[str]) -> None:
        """Report the layers and inputs that no output depends on; of a chain only its last layer."""
        if not self.strict or self.has_broken_links:
            return
        live = set(outputs).union(*(p.tops for p in self.layers if isinstance(p.layer, AddLoss)))
        read: set[str] = set()
        for entry in reversed(self.layers):
            read.update(entry.bottoms)
            if live.intersection(entry.tops):
                live.update(entry.bottoms)
        for entry in self.layers:
            if not live.intersection(entry.tops) and not read.intersection(entry.tops):
                message = (
                    f"Nothing reads the layer {entry.name!r}: name it in 'output', read it with 'bottom', "
                    "give it a loss, or take it out."
                )
                self.report.add(message, entry.span, entry.chain)
        for name, node in self.inputs.items():
            if name not in read and name not in live:
                self.report.add(f"Nothing reads the input {name!r}.", node.span)


def check_input_count(cls: type[Layer], bottoms: Sequence[str], branches: bool) -> str | None:
    """What is wrong with the number of inputs of a layer, or None."""
    least, most = cls.input_range()
    count = len(bottoms)
    if least <= count and (most is None or count <= most):
        return None
    expected = f"{least} input{'s' * (least != 1)}" if least == most else f"at least {least} inputs"
    if most is not None and least != most:
        expected = f"{least} to {most} inputs"
    hint = ""
    if branches:
        branches_text = f"{count} branch{'es' * (count != 1)}"
        hint = " Each branch is one input." if getattr(cls, "accepts_branches", False) else ""
        return f"{cls.__name__} reads {expected}, and has {branches_text}.{hint}" if hint else None
    if count < least:
        hint = ' Name them: bottom: ["a", "b"]' if least > 1 else ' Name it: bottom: "a"'
        hint += ", or give it branches: branch { ... } branch { }." if getattr(cls, "accepts_branches", False) else "."
    return f"{cls.__name__} reads {expected}, and has {count}.{hint}"


def complete_top_names(layer: Layer | None, name: str, tops: Sequence[str]) -> tuple[str, ...]:
    """The names of a layer's outputs: those that are named in the text, then further ones from the layer's name."""
    count = layer.output_count() if layer is not None else max(1, len(tops))
    return (*tops, *top_names(name, count)[len(tops) :]) if len(tops) <= count else tuple(tops)


def _string(value: Value) -> str | None:
    names = string_values(value)
    return names[0] if len(names) == 1 else None


def _first_line(span: Span | None) -> str:
    return f" (first at line {span.line})" if span is not None else ""


def _list_names(names: Any) -> str:
    return f" There are {', '.join(names)}." if 0 < len(names) <= 8 else ""


def loss_outputs(compile_body: Body) -> list[Field]:
    """The ``output`` fields of the losses in the body of a compile block."""
    losses = [item for f in compile_body.fields if f.name == "loss" for item in getattr(f.value, "items", (f.value,))]
    fields = [g for item in losses if isinstance(item, Body) for g in item.fields]
    return [g for g in fields if g.name == "output" and not isinstance(g.value, InvalidValue)]
