"""Statements as the text of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prototorch.interop.text_generation.statements import (
    LAYER,
    REPEAT,
    USE,
    BlockDraft,
    Reference,
    Statement,
    StatementList,
    is_number,
)
from prototorch.text.case_conversion import snake_case
from prototorch.text.string_literals import quote
from prototorch.text.syntax_tree import to_value_node
from prototorch.text.writer import format_value

__all__ = ["Renderer"]


_EXPONENT = re.compile(r"e([+-])0+(?=\d)")


class Renderer:
    """Writes statements. inputs: the names of the net's inputs. defaults: values that are left out, by head and field.

    params: the text of some values, by the number of the layer and the field.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        defaults: Mapping[tuple[str, str], Any],
        params: Mapping[tuple[int, str], str],
        blocks: Sequence[BlockDraft],
        top: StatementList,
        outputs: Sequence[Reference],
    ):
        self.inputs = inputs
        self.defaults = defaults
        self.params = params
        self.blocks = blocks
        self.top = top
        self.outputs = outputs
        self.names: dict[int, str] = {}
        self._name_what_is_read()

    def _name_what_is_read(self) -> None:
        roots = [block.body for block in self.blocks] + [self.top]
        items = [item for root in roots for body in root.bodies() for item in body.items]
        read = {reference.node for item in items for reference in item.references()}
        last = self.top.items[-1].exit
        read |= {reference.node for reference in self.outputs if reference != Reference(last) or len(self.outputs) > 1}
        names_in_use = {"".join(item.name) for item in items if item.name is not None}
        counts: dict[str, int] = {}
        skipped = {id(block.body.items[-1]) for block in self.blocks}
        for item in items:
            if item.exit not in read or item.kind == REPEAT or id(item) in skipped:
                continue
            if item.name is not None:
                self.names[item.exit] = "".join(item.name)
                continue
            word = snake_case(item.head)
            name = ""
            while not name or name in names_in_use:
                name = f"{word}_{_letters(counts.get(word, 0))}"
                counts[word] = counts.get(word, 0) + 1
            self.names[item.exit] = name

    # ------------------------------------------------------------------ text

    def lines(self) -> Iterator[str]:
        """The block definitions, the layers, and the output."""
        for block in self.ordered_blocks():
            arguments = (a if d is None else f"{a}: {self.value(d)}" for a, d in block.arguments)
            yield ""
            yield f"block {block.name}({', '.join(arguments)}) {{"
            yield from self.body(block.body)
            yield "}"
        yield ""
        yield from self.body(self.top)
        last = self.top.items[-1].exit
        if list(self.outputs) != [Reference(last)]:
            names = [self.reference(reference) for reference in self.outputs]
            yield ""
            yield f"output: {names[0] if len(names) == 1 else '[' + ', '.join(names) + ']'}"

    def ordered_blocks(self) -> Iterator[BlockDraft]:
        """The blocks, each after those that it uses."""
        by_name = {block.name: block for block in self.blocks}
        names_before: set[str] = set()
        stack = list(reversed(self.blocks))
        while stack:
            block = stack[-1]
            used = {item.head for body in block.body.bodies() for item in body.items if item.kind == USE}
            missing = sorted(used - names_before)
            if block.name not in names_before and not missing:
                names_before.add(block.name)
                yield block
            if missing:
                stack.extend(by_name[name] for name in missing)
            else:
                stack.pop()

    def body(self, body: StatementList) -> Iterator[str]:
        """The statements of a sequence, each on lines of its own where it holds others."""
        for item in body.items:
            yield from self.statement(item)

    def statement(self, item: Statement) -> Iterator[str]:
        if item.kind == REPEAT:
            count = self.value(item.fields[0][1])
            is_expression = count.startswith("$")
            over = count if not item.head else f"$range({count[2:-1] if count.startswith('$(') else count.lstrip('$')})"
            yield f"repeat {f'{item.head} in ' if item.head else ''}{over if item.head or is_expression else count} {{"
            yield from self.body(item.bodies[0])
            yield "}"
            return
        fields = list(self.fields(item))
        if not item.bodies:
            yield f"{item.head} {{ {'  '.join(fields)} }}"
            return
        yield f"{item.head} {{"
        yield from fields
        for branch in item.bodies:
            if not branch.items:
                yield "branch { }"
                continue
            lines = list(self.body(branch))
            one_line = "branch { " + "  ".join(lines) + " }"
            if len(lines) == 1 and len(one_line) < 110:
                yield one_line
                continue
            yield "branch {"
            yield from lines
            yield "}"
        yield "}"

    def fields(self, item: Statement) -> Iterator[str]:
        name = self.names.get(item.exit) if item.name is None else "".join(item.name)
        if name is not None and (item.name is not None or self._is_named(item)):
            yield f'name: "{name}"'
        if item.bottoms is not None:
            bottoms = [b if isinstance(b, str) else self.reference(b) for b in item.bottoms]
            yield f"bottom: {bottoms[0] if len(bottoms) == 1 else '[' + ', '.join(bottoms) + ']'}"
        for key, value in item.fields:
            default = self.defaults.get((item.head, key))
            if default is not None and not isinstance(value, str | Reference) and value == default:
                continue
            text = self.params.get((item.exit, key)) if item.kind == LAYER else None
            text = text if text is not None else self.value(value)
            yield f"{key} {text}" if text.startswith("{") else f"{key}: {text}"

    def _is_named(self, item: Statement) -> bool:
        return not any(block.body.items and block.body.items[-1] is item for block in self.blocks)

    def value(self, value: Any) -> str:
        """A number, a list or an expression as text; text as it is."""
        if isinstance(value, Reference):
            return self.reference(value)
        if is_number(value):
            return _EXPONENT.sub(lambda m: "e" + m.group(1).strip("+"), format_value(to_value_node(value)))
        return str(value)

    def reference(self, reference: Reference) -> str:
        """The quoted name of an output."""
        if reference.node < 0:
            return quote(self.inputs[-1 - reference.node])
        name = self.names[reference.node]
        return quote(name if not reference.top else f"{name}:{reference.top}")


def _letters(number: int) -> str:
    text = ""
    while True:
        text = chr(ord("a") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text
