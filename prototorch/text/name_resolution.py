"""Names in an expanded net: each layer gets a name, and references are resolved through the enclosing blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prototorch.text.case_conversion import snake_case
from prototorch.text.operands import ScopedString
from prototorch.text.repeat_turns import RepeatTurns, given_names, rename_outputs
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, Field, ListValue, Repeat, Scalar, Value

# Names that may be followed by braces at the top level of a text without being a layer.
TOP_LEVEL_BLOCKS = frozenset(("input", "Input", "output", "preprocess", "augment", "weights", "weight_set", "rules",
                              "compile", "fit", "data", "layer", "layers"))  # fmt: skip
# Names that no block may have: those, but for Caffe's, whose texts have no blocks.
RESERVED_NAMES = TOP_LEVEL_BLOCKS - {"layer", "layers"} | {"branch"}
# Names whose braces hold layers.
BODIES_OF_LAYERS = ("branch", "preprocess", "augment")
# Fields at the top level of a text, which no output can be named by.
TOP_LEVEL_FIELDS = ("name", "import", "data_format", "output", "class_names")


class NameResolver:
    """The names defined so far. A prefix is empty or ends in ``/``."""

    def __init__(self) -> None:
        self.defined: dict[str, Span | None] = {}  # where
        self.aliases: dict[str, str] = {}  # the name of a block's use, or an output's name of before -> the output
        self.weight_keys: dict[str, str] = {}  # the name of a layer -> that of its shared weights, by a block's use
        self.alias_spans: dict[str, Span | None] = {}  # of names that blocks give what they read
        self.outer: dict[str, str] = {}  # the prefix of layers in the braces of a use -> that of where they stand
        self.weight_owners: set[str] = set()  # the names in front of the weights of layers
        self.repeats: list[RepeatTurns] = []  # those of several turns around what is being expanded
        self.turn_names: dict[str, str] = {}  # a name that a turn of these gave -> the name of the output
        self.closed_names: dict[str, Span | None] = {}  # names that several turns gave -> the repeat, which is expanded
        self._given_names: dict[int, Any] = {}  # by the id of a repeat's statements: these, and the names they give
        self._counts: dict[tuple[str, str], int] = {}

    def automatic_name(self, type_name: str, prefix: str) -> str:
        """``conv2d_1``, ``conv2d_2``, ... below a prefix, passing over names that are taken."""
        word = snake_case(type_name)
        while True:
            number = self._counts.get((prefix, word), 0) + 1
            self._counts[prefix, word] = number
            name = f"{prefix}{word}_{number}"
            if name not in self.defined and name not in self.aliases:
                return name

    def block_use_name(self, block: str, prefix: str) -> str:
        """The name of a use of a block that has none: ``bottleneck_1``."""
        number = self._counts.get((prefix, "block " + block), 0) + 1
        self._counts[prefix, "block " + block] = number
        return f"{prefix}{block}_{number}"

    def resolve(self, name: str, prefix: str) -> str:
        """The full name of a reference below ``prefix``: the innermost scope that defines it wins."""
        scope = prefix
        while True:
            full = self.turn_names.get(scope + name, scope + name)
            while full not in self.defined and full in self.aliases:
                full = self.aliases[full]
            if full in self.defined:
                return full
            if not scope:
                return name
            scope = self._outer_prefix(scope)

    def _outer_prefix(self, prefix: str) -> str:
        """The prefix of the scope around one."""
        return self.outer[prefix] if prefix in self.outer else prefix[: prefix.rfind("/", 0, len(prefix) - 1) + 1]

    def is_readable(self, word: str, prefix: str) -> bool:
        """Whether a word below ``prefix`` names an output: of the same block, or of one whose braces it stands in."""
        while not any(prefix + word in names for names in (self.defined, self.aliases, self.turn_names)):
            if prefix not in self.outer:
                return False
            prefix = self.outer[prefix]
        return True

    # ------------------------------------------------------------------ names that a repeat's turns give

    def is_taken(self, full: str) -> bool:
        """Whether an output can have this full name no more."""
        if full in self.defined or full in self.aliases:
            return True
        return any(full in repeat.current for repeat in self.repeats)

    def name_output(self, full: str) -> str:
        """The name that an output bears which the text names ``full``: in a repeat of several turns one of its own."""
        repeat = next((r for r in reversed(self.repeats) if r.owns(full)), None)
        if repeat is None or full in self.defined or full in self.aliases:
            return full
        if full in repeat.current:
            return self.turn_names[full]
        self.closed_names.pop(full, None)
        new = full
        while new == full or new in self.defined or new in self.aliases:
            number = self._counts.get((full, "turn"), 0) + 1
            self._counts[full, "turn"] = number
            new = f"{full}/{number}"
        repeat.outputs.setdefault(full, []).append(new)
        repeat.current.add(full)
        self.turn_names[full] = new
        return new

    def open_repeat(self, statement: Repeat, prefix: str) -> None:
        """Before the turns of a repeat that has several."""
        statements = statement.body.statements
        if id(statements) not in self._given_names:
            self._given_names[id(statements)] = (statements, given_names(statements))
        names, always = self._given_names[id(statements)][1]
        self.repeats.append(RepeatTurns(prefix, statement.span, names, always))

    def open_turn(self) -> None:
        """Before each turn: what every turn gives is not that of the turn before."""
        repeat = self.repeats[-1]
        for word in repeat.always:
            self.turn_names.pop(repeat.prefix + word, None)
        repeat.current.clear()

    def close_repeat(self, fields: list[Field], start: int, last: list[str]) -> None:
        """Behind the last turn. A name that a single turn gave, in an ``if``, stays; the others are no longer readable.

        fields: from ``start`` on those of the repeat. last: the output of the last layer, which may be renamed.
        """
        repeat = self.repeats.pop()
        new_names: dict[str, str] = {}
        for full, outputs in repeat.outputs.items():
            self.turn_names.pop(full, None)
            if len(outputs) > 1:
                self.closed_names[full] = repeat.span
                continue
            old, new = outputs[0], self.name_output(full)
            if old in self.defined:
                self.defined[new] = self.defined.pop(old)
                new_names[old] = new
                self.aliases[old] = new
            else:
                self.aliases[new] = old
        if new_names:
            rename_outputs(fields, new_names, start)
            last[:] = [new_names.get(name, name) for name in last]

    def explain_closed_name(self, word: str, prefix: str) -> str:
        """What is wrong with reading a name that turns of a repeat gave behind it; "" where it is none."""
        prefix = _prefix_of(word, prefix)
        if self.is_readable(word, prefix):
            return ""
        while prefix + word not in self.closed_names:
            if prefix not in self.outer:
                return ""
            prefix = self.outer[prefix]
        span = self.closed_names[prefix + word]
        at = f" at line {span.line}" if span is not None else ""
        return (
            f"{str(word)!r} is local to a turn of the repeat{at}: give the layer a name, such as "
            f'name: "{word}_${{i}}", and read it by that.'
        )

    def resolve_weight_owner(self, name: str, prefix: str) -> str:
        """The full name of a layer, or of a ``weights`` field, below ``prefix``: the innermost scope that has it."""
        scope = prefix
        while scope and scope + name not in self.weight_owners:
            scope = self._outer_prefix(scope)
        return self.weight_keys.get(scope + name, scope + name)

    def resolve_strings(self, value: Value, prefix: str) -> Value:
        """A string, or each string of a list, resolved."""
        return map_strings(value, lambda text: self.resolve(text, _prefix_of(text, prefix)))

    def resolve_layer(
        self, fields: tuple[Field, ...], automatic: str, statement: Field, prefix: str, bottoms: list[Value]
    ) -> tuple[tuple[Field, ...], str | None]:
        """A layer's fields with full names, and the name of its (first) output.

        automatic: the layer's name where its fields give none. bottoms: what it reads where they do not say; emptied.
        """
        new_fields: list[Field] = []
        tops: list[str] = []
        name, has_name, has_bottom = automatic, False, False
        for f in fields:
            value = f.value
            if f.name == "name":
                has_name = True
                value = map_strings(value, lambda text: prefix + text)
                name = next(iter(string_values(value)), "")
            elif f.name == "top":
                value = map_strings(value, lambda text: self.name_output(_prefix_of(text, prefix) + text))
                tops.extend(string_values(value))
            elif f.name == "bottom":
                value = self.resolve_strings(value, prefix)
                has_bottom = True
            elif f.name == "weights":
                self.weight_owners.update(string_values(value))
            new_fields.append(f if value is f.value else replace(f, value=value))
        if not has_name:
            new_fields.insert(0, Field("name", Scalar(name, statement.name_span), statement.span, statement.name_span))
        if bottoms and not has_bottom:
            value = self.resolve_strings(bottoms[0], "")
            new_fields.insert(1, Field("bottom", value, value.span, value.span))
        bottoms.clear()
        self.defined.update(dict.fromkeys(tops or [name], statement.name_span))
        self.weight_owners.add(name)
        return tuple(new_fields), tops[0] if tops else name or None

    def rename_output(self, fields: list[Field], old: str, new: str, span: Span | None) -> bool:
        """Give an output of the layers among the fields, and those of them that read it, another name; False where none
        bears the name ``old``."""
        if not self._rename_top(fields, old, new, span):
            return False
        _rename_bottoms(fields, old, new)
        self.defined.pop(old, None)
        self.defined[new] = span
        self.aliases[old] = new
        return True

    @staticmethod
    def _rename_top(fields: list[Field], old: str, new: str, span: Span | None) -> bool:
        for number in range(len(fields) - 1, -1, -1):
            layer = fields[number]
            if not isinstance(layer.value, Body):
                continue
            inside = layer.value.fields
            top = next((f for f in inside if f.name == "top" and string_values(f.value)), None)
            name = next((f for f in inside if f.name == "name"), None)
            if old not in string_values(getattr(top or name, "value", None))[: None if top else 1]:
                continue
            if top is None:
                inside = (*inside, Field("top", Scalar(new, span), span, span))
            else:
                new_top = map_strings(top.value, lambda text: new if text == old else text)
                inside = tuple(replace(f, value=new_top) if f is top else f for f in inside)
            fields[number] = replace(layer, value=replace(layer.value, statements=inside))
            return True
        return False


def _rename_bottoms(fields: list[Field], old: str, new: str) -> None:
    """Rename an output in what layers read, in branches as well."""
    for number, layer in enumerate(fields):
        if not isinstance(layer.value, Body):
            continue
        inside = list(layer.value.fields)
        for at, f in enumerate(inside):
            if f.name == "bottom":
                value = map_strings(f.value, lambda text: new if text == old else text)
                inside[at] = f if value is f.value else replace(f, value=value)
            elif f.name == "branch" and isinstance(f.value, Body):
                layers = list(f.value.fields)
                _rename_bottoms(layers, old, new)
                if any(a is not b for a, b in zip(layers, f.value.fields, strict=True)):
                    inside[at] = replace(f, value=replace(f.value, statements=tuple(layers)))
        if any(a is not b for a, b in zip(inside, layer.value.fields, strict=True)):
            fields[number] = replace(layer, value=replace(layer.value, statements=tuple(inside)))


def _prefix_of(text: str, prefix: str) -> str:
    return text.prefix if isinstance(text, ScopedString) else prefix


def is_string_literal(value: Value) -> bool:
    """Whether a node is a quoted string."""
    return isinstance(value, Scalar) and isinstance(value.value, str)


def string_values(value: Value) -> list[str]:
    """The string, or the strings of a list."""
    items = value.items if isinstance(value, ListValue) else (value,)
    return [str(item.value) for item in items if is_string_literal(item)]


def map_strings(value: Value, change: Callable[[str], str]) -> Value:
    """A string, or each string of a list, changed; the same node where nothing changes."""
    if is_string_literal(value):
        new = change(value.value)
        return value if new == value.value and type(value.value) is str else Scalar(str(new), value.span)
    if isinstance(value, ListValue):
        items = tuple(map_strings(item, change) for item in value.items)
        same = all(a is b for a, b in zip(items, value.items, strict=True))
        return value if same else ListValue(items, value.span)
    return value
