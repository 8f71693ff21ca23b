"""Expansion: parameters, expressions, repeat, if, block and include become plain fields, each with its chain.

What a repeat would make is counted before it is made. The result is again a valid text, in which every layer has its
name.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from prototorch.errors import did_you_mean
from prototorch.text import limits
from prototorch.text.arguments import bind_arguments, check_arguments, check_param
from prototorch.text.diagnostics import Report
from prototorch.text.evaluator import (
    EvaluationError,
    Evaluator,
    ScopedString,
    UnknownValueError,
    from_operand,
    render_value,
    to_bool,
    to_operand,
)
from prototorch.text.gc_pause import pause_gc
from prototorch.text.includes import IncludeError, IncludeFiles
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, NameResolver, is_string_literal
from prototorch.text.reader import decode_utf8, parse
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    Argument,
    BlockDef,
    Body,
    Document,
    ExpansionFrame,
    Expression,
    Field,
    If,
    Include,
    InvalidValue,
    ListValue,
    Param,
    Repeat,
    Scalar,
    TypedBlock,
    Value,
)

Names: TypeAlias = MutableMapping[str, Any]
NET, LAYER, PLAIN = "net", "layer", "plain"  # what a body is: a piece of net, the fields of a layer, other fields


def expand(
    document: Document,
    params: Mapping[str, Any] | None = None,
    report: Report | None = None,
    root: str | None = None,
) -> Document:
    """The document with all additions worked out.

    params: values for the ``param``s of the top level, by name: Python numbers, strings, lists.
    report: takes the mistakes; without one they are raised as TextError.
    root: the folder below which files may be included (None: nothing can be).
    """
    mine = Report() if report is None else report
    expander = _Expander(
        mine, dict(params or {}), IncludeFiles(root, len(document.source.text) if document.source else 0)
    )
    with pause_gc():
        fields = expander.run(document)
    if report is None:
        mine.raise_if_any()
    complete = document.complete and expander.complete
    return Document(tuple(fields), document.source, (), tuple(expander.blocks), complete)


class _ExpansionAborted(Exception):
    """A limit was reached; the report says which."""


@dataclass(slots=True)
class _Scope:
    """Where statements are expanded: into what kind of body, under which prefix, seeing which blocks."""

    kind: str = NET
    prefix: str = ""
    visible: int = 2**31  # the number of blocks that may be used here
    chain: ExpansionFrame | None = None
    top: bool = False
    bottom: list[Value] = field(default_factory=list)  # what the next layer without a bottom reads
    last: list[str] = field(default_factory=list)  # the last layer's output


class _Expander:
    def __init__(self, report: Report, given: dict[str, Any], files: IncludeFiles):
        self.report = report
        self.given = given
        self.files = files
        self.globals: Names = {}
        self.params: dict[str, Param] = {}
        self.blocks: dict[str, tuple[int, BlockDef]] = {}
        self.later: dict[str, BlockDef] = {}
        self.names = NameResolver()
        self.steps = 0
        self.layers = 0
        self.depth = 0
        self.complete = True
        self.weights: dict[int, int] = {}
        self.open_files: list[tuple[str, ...]] = []
        self.seen_files: set[tuple[str, ...]] = set()

    # ------------------------------------------------------------------ the whole

    def run(self, document: Document) -> list[Field]:
        self.later = {s.name: s for s in document.statements if isinstance(s, BlockDef)}
        try:
            fields = self.statements(document.statements, self.globals, _Scope(top=True))
        except _ExpansionAborted:
            return []
        for name in self.given:
            if name not in self.params:
                known = did_you_mean(name, self.params)
                if not known:
                    known = f" It has {', '.join(self.params)}." if self.params else " It has none."
                self.report.add(f"The text has no param {name!r}.{known}")
        return fields

    def statements(self, statements: tuple[Any, ...], names: Names, place: _Scope) -> list[Field]:
        """The fields that some statements come to."""
        self.depth += 1
        if self.depth > limits.MAX_NESTING:
            span = statements[0].span if statements else None
            self.stop(f"This expands to more than {limits.MAX_NESTING} levels inside each other.", span, place)
        made: list[Field] = []
        for statement in statements:
            self.spend(1, statement.span, place)
            if isinstance(statement, Field):
                self.field(statement, names, place, made)
            elif isinstance(statement, Repeat):
                self.repeat(statement, names, place, made)
            elif isinstance(statement, If):
                made.extend(self.conditional(statement, names, place))
            elif isinstance(statement, Param):
                self.param(statement, names, place)
            elif isinstance(statement, BlockDef):
                self.define(statement, place)
            else:
                self.include(statement, place)
        self.depth -= 1
        return made

    def say(self, message: str, span: Span | None, place: _Scope) -> None:
        self.report.add(message, span, place.chain)

    def skip(self, message: str, span: Span | None, place: _Scope) -> None:
        """Say why a statement is left out."""
        self.complete = False
        self.say(message, span, place)

    def stop(self, message: str, span: Span | None, place: _Scope) -> None:
        self.skip(message, span, place)
        raise _ExpansionAborted

    def spend(self, steps: int, span: Span | None, place: _Scope) -> None:
        """Count work; stop where it is too much."""
        self.steps += steps
        if self.steps > limits.MAX_STEPS:
            self.stop(f"This expands in more than {limits.MAX_STEPS:,} steps.", span, place)

    # ------------------------------------------------------------------ values

    def python(self, value: Value, names: Names, place: _Scope) -> Any:
        """The value of a node as expressions see it; Unknown where there is a mistake (then reported)."""
        if not isinstance(value, Expression):
            node = self.value(value, names, place)
            return node if isinstance(node, InvalidValue) else to_operand(node)
        evaluator = Evaluator(names, lambda steps: self.spend(steps, value.span, place))
        try:
            return evaluator.value(value.root)
        except EvaluationError as error:
            self.say(error.message, error.span or value.span, place)
        except UnknownValueError:
            pass
        return InvalidValue(value.span)

    def value(self, value: Value, names: Names, place: _Scope, scoped: bool = False) -> Value:
        """The node without expressions; the same object where it has none. ``scoped``: see ``from_operand``."""
        if isinstance(value, Expression):
            found = self.python(value, names, place)
            return found if isinstance(found, InvalidValue) else from_operand(found, value.span, scoped)
        if isinstance(value, ListValue):
            items = tuple(self.value(item, names, place, scoped) for item in value.items)
            if all(new is old for new, old in zip(items, value.items, strict=True)):
                return value
            return (
                InvalidValue(value.span)
                if any(isinstance(i, InvalidValue) for i in items)
                else ListValue(items, value.span)
            )
        if isinstance(value, TypedBlock):
            body = self.body(value.body, names, replace(place, kind=PLAIN))
            return value if body is value.body else TypedBlock(value.word, body, value.span, value.word_span)
        if isinstance(value, Body):
            return self.body(value, names, replace(place, kind=PLAIN))
        return value

    def body(self, body: Body, names: Names, place: _Scope) -> Body:
        inner: Names = names if all(isinstance(s, Field) for s in body.statements) else ChainMap({}, names)
        made = tuple(self.statements(body.statements, inner, place))
        same = len(made) == len(body.statements) and all(a is b for a, b in zip(made, body.statements, strict=True))
        return body if same else Body(made, body.span)

    def truth(self, value: Value, names: Names, place: _Scope) -> bool | None:
        """A condition; None where there is a mistake (then reported)."""
        found = self.python(value, names, place)
        if isinstance(found, InvalidValue):
            return None
        try:
            return to_bool(found, value.span)
        except EvaluationError as error:
            self.say(error.message, error.span, place)
            return None

    # ------------------------------------------------------------------ statements

    def field(self, statement: Field, names: Names, place: _Scope, made: list[Field]) -> None:
        value = statement.value
        if isinstance(value, Body):
            block = self.blocks.get(statement.name)
            if block is not None and block[0] < place.visible:
                made.extend(self.use(statement, block, names, place))
                return
            if block is not None or (statement.name in self.later and place.kind == NET):
                self.too_early(statement, block, place)
                return
            if place.kind == NET and statement.name not in TOP_LEVEL_BLOCKS:
                made.append(self.layer(statement, names, place))
                return
            if place.kind == LAYER and statement.name == "branch":
                inner = _Scope(NET, place.prefix, place.visible, place.chain)
                made.append(self.with_value(statement, self.body(value, names, inner), place))
                return
        scoped = place.kind == LAYER and statement.name in ("top", "bottom")
        new = self.with_value(statement, self.value(value, names, place, scoped), place)
        made.append(self.top_level(new) if place.kind == NET and not place.prefix else new)

    @staticmethod
    def with_value(statement: Field, value: Value, place: _Scope) -> Field:
        if value is statement.value and place.chain is None:
            return statement
        return Field(statement.name, value, statement.span, statement.name_span, statement.trivia, place.chain)

    def top_level(self, made: Field) -> Field:
        """Note the inputs' names; an output may be named by the use of a block."""
        if made.name in ("input", "Input") and isinstance(made.value, Body):
            for inner in made.value.fields:
                if inner.name == "name" and isinstance(inner.value, Scalar):
                    self.names.defined.add(str(inner.value.value))
        if made.name == "output":
            return replace(made, value=self.names.resolve_strings(made.value, ""))
        return made

    def too_early(self, statement: Field, block: tuple[int, BlockDef] | None, place: _Scope) -> None:
        """A block that is used inside itself, or before it is defined."""
        if block is not None and block[0] == place.visible:
            said = f"The block {statement.name!r} uses itself."
        else:
            definition = block[1] if block is not None else self.later[statement.name]
            where = definition.name_span.line if definition.name_span else 0
            said = f"The block {statement.name!r} is defined only at line {where}; move its definition before its use."
        self.skip(said, statement.name_span, place)

    def layer(self, statement: Field, names: Names, place: _Scope) -> Field:
        """A layer of the net: it gets its full name, and what it reads is found."""
        self.layers += 1
        if self.layers > limits.MAX_LAYERS:
            self.stop(f"The net has more than {limits.MAX_LAYERS:,} layers.", statement.name_span, place)
        body: Body = statement.value
        given = next((s for s in body.statements if isinstance(s, Field) and s.name == "name"), None)
        automatic = self.names.automatic_name(statement.name, place.prefix) if given is None else ""
        inside = replace(place, kind=LAYER, top=False, bottom=[], last=[])
        made = self.body(body, names, inside)
        fields, output = self.names.resolve_layer(made.fields, automatic, statement, place.prefix, place.bottom)
        if output is not None:
            place.last[:] = [output]
        whole = Body(fields, body.span)
        return Field(statement.name, whole, statement.span, statement.name_span, statement.trivia, place.chain)

    def param(self, statement: Param, names: Names, place: _Scope) -> None:
        """Bind a name. At the top level the caller's value goes first."""
        top = names is self.globals
        if top and statement.name in self.params:
            first = self.params[statement.name].span
            at = f" (first at {first})" if first is not None else ""
            self.say(f"The param {statement.name!r} is defined twice{at}.", statement.name_span, place)
            return
        value = self.python(statement.value, names, place)
        if top:
            self.params[statement.name] = statement
            if statement.name in self.given:
                other = self.given[statement.name]
                wrong = check_param(statement.name, value, other)
                if wrong is not None:
                    self.say(wrong, statement.name_span, place)
                value = other
        names[statement.name] = value

    def define(self, statement: BlockDef, place: _Scope) -> None:
        if not place.top:
            self.skip("A block is defined at the top level of a file.", statement.name_span, place)
            return
        if statement.name in self.blocks:
            first = self.blocks[statement.name][1].span
            said = f"The block {statement.name!r} is defined twice (first at {first})."
            self.skip(said, statement.name_span, place)
            return
        if statement.name in TOP_LEVEL_BLOCKS or statement.name == "branch":
            said = f"A block cannot be called {statement.name!r}: the language uses that name."
            self.skip(said, statement.name_span, place)
            return
        for said, span in check_arguments(statement):
            self.skip(said, span, place)
        self.weight(statement.body.statements)
        self.blocks[statement.name] = (len(self.blocks), statement)
        self.later.pop(statement.name, None)

    def conditional(self, statement: If, names: Names, place: _Scope) -> list[Field]:
        for condition, body in statement.arms:
            holds = self.truth(condition, names, place)
            if holds is None:
                self.complete = False
                return []
            if holds:
                return self.statements(body.statements, names, place)
        return self.statements(statement.otherwise.statements, names, place) if statement.otherwise else []

    def repeat(self, statement: Repeat, names: Names, place: _Scope, made: list[Field]) -> None:
        """Expand the body once for each value, after counting what that comes to."""
        values = self.times(statement, names, place)
        if not values:
            return
        each = self.weight(statement.body.statements)
        if self.steps + len(values) * each > limits.MAX_STEPS:
            said = f"This repeat takes at least {len(values) * each:,} steps; the limit is {limits.MAX_STEPS:,}."
            self.stop(said, statement.span, place)
        inside = replace(place, chain=ExpansionFrame("repeat", statement.span, place.chain), top=False)
        for value in values:
            self.spend(1, statement.span, place)
            inner: Names = ChainMap({}, names)
            if statement.variable is not None:
                inner[statement.variable] = value
            made.extend(self.statements(statement.body.statements, inner, inside))

    def times(self, statement: Repeat, names: Names, place: _Scope) -> list[Any] | range:
        """What a repeat goes over; empty where there is a mistake (then reported)."""
        count = self.python(statement.count, names, place)
        at = statement.count.span
        if isinstance(count, InvalidValue):
            self.complete = False
            return []
        if statement.variable is None:
            if isinstance(count, list):
                self.skip("A repeat over a list needs a name: repeat i in ...", at, place)
            elif not isinstance(count, int) or isinstance(count, bool) or count < 0:
                self.skip(f"A repeat count must be an integer of at least 0, not {render_value(count)}.", at, place)
            elif count > limits.MAX_STEPS:
                self.stop(f"A repeat of {count} times is above the limit of {limits.MAX_STEPS:,} steps.", at, place)
            else:
                return range(count)
            return []
        if not isinstance(count, list):
            hint = f" Write $range({count})." if isinstance(count, int) else ""
            self.skip(f"'repeat {statement.variable} in' goes over a list, not {render_value(count)}.{hint}", at, place)
            return []
        return count

    def weight(self, statements: tuple[Any, ...]) -> int:
        """At least how many steps some statements take: blocks and repeats of a written number are multiplied out."""
        known = self.weights.get(id(statements))
        if known is not None:
            return known
        total = 0
        for s in statements:
            total += 1
            if isinstance(s, Repeat) and isinstance(s.count, Scalar) and isinstance(s.count.value, int):
                total += max(0, s.count.value) * (1 + self.weight(s.body.statements))
            elif isinstance(s, Field) and s.name in self.blocks and isinstance(s.value, Body):
                total += self.weights.get(id(self.blocks[s.name][1].body.statements), 0)
            elif isinstance(s, Field) and isinstance(s.value, Body):
                total += self.weight(s.value.statements)
        self.weights[id(statements)] = min(total, 10**30)
        return self.weights[id(statements)]

    # ------------------------------------------------------------------ blocks and files

    def use(self, statement: Field, block: tuple[int, BlockDef], names: Names, place: _Scope) -> list[Field]:
        """The layers of a block, with its arguments in place."""
        order, definition = block
        least = self.weight(definition.body.statements)
        if self.steps + least > limits.MAX_STEPS:
            said = f"This block takes at least {least:,} steps; the limit is {limits.MAX_STEPS:,}."
            self.stop(said, statement.name_span, place)
        frame = ExpansionFrame(statement.name, statement.name_span, place.chain)
        inner: Names = ChainMap({}, self.globals)
        inside = replace(place, chain=frame)
        given, wrong = bind_arguments(statement, definition)
        for said, span in wrong:
            self.say(said, span, place)
        for argument in definition.arguments:
            inner[argument.name] = self.argument(argument, given, inner, statement, inside, names)
        label = self.use_name(given.get("name"), definition.name, names, place)
        target = _Scope(place.kind, label + "/" if place.kind == NET else place.prefix, order, frame)
        if "bottom" in given:
            target.bottom = [self.names.resolve_strings(self.value(given["bottom"].value, names, place), place.prefix)]
        elif place.bottom:
            target.bottom, place.bottom = place.bottom, []
        made = self.statements(definition.body.statements, inner, target)
        if "bottom" in given and target.bottom:
            self.say("This block has no layer that could read its bottom.", given["bottom"].span, place)
        elif target.bottom:
            place.bottom = target.bottom
        if target.last and place.kind == NET:
            self.names.aliases[label] = target.last[0]
            place.last[:] = target.last
        return made

    def use_name(self, given: Field | None, block: str, names: Names, place: _Scope) -> str:
        if place.kind != NET:
            return ""
        if given is None:
            return self.names.block_use_name(block, place.prefix)
        value = self.value(given.value, names, place)
        if is_string_literal(value) and value.value:
            full = place.prefix + str(value.value)
            if full in self.names.aliases or full in self.names.defined:
                self.say(f"The name {full!r} is used twice.", given.value.span, place)
            return full
        if not isinstance(value, InvalidValue):
            self.say("The name of a block's use is a string in quotes.", given.value.span, place)
        return self.names.block_use_name(block, place.prefix)

    def argument(
        self, argument: Argument, given: dict[str, Field], inner: Names, statement: Field, inside: _Scope, names: Names
    ) -> Any:
        """The value of a block's argument: as the use gives it, or its default."""
        outside = replace(inside, chain=inside.chain and inside.chain.outer)
        if argument.name in given:
            return ScopedString.wrap(self.python(given[argument.name].value, names, outside), outside.prefix)
        if argument.default is not None:
            return self.python(argument.default, inner, inside)
        if "?" not in given and not any(key.endswith(f"{argument.name!r}?") for key in given):
            self.say(f"The block {statement.name} needs {argument.name!r}.", statement.name_span, outside)
        return InvalidValue(statement.name_span)

    def include(self, statement: Include, place: _Scope) -> None:
        """Take in the params and blocks of another file."""
        if not place.top:
            self.skip("An include must be at the top level of a file.", statement.span, place)
            return
        try:
            base = self.open_files[-1][:-1] if self.open_files else ()
            parts = self.files.locate(statement.path, base)
            if parts in self.open_files:
                circle = " -> ".join("/".join(p) for p in [*self.open_files, parts])
                raise IncludeError(f"These files include each other in a circle: {circle}.")
            if parts in self.seen_files:
                return
            if len(self.open_files) >= limits.MAX_INCLUDE_DEPTH:
                raise IncludeError(f"More than {limits.MAX_INCLUDE_DEPTH} files include each other in a row.")
            data = self.files.read(parts)
        except IncludeError as refused:
            self.skip(str(refused), statement.span, place)
            return
        self.seen_files.add(parts)
        text = decode_utf8(data, self.files.name(parts), self.report)
        if text is None:
            self.complete = False
            return
        included = parse(text, self.files.name(parts), self.report)
        self.complete = self.complete and included.complete
        self.open_files.append(parts)
        for s in included.statements:
            self.spend(1, s.span, place)
            if isinstance(s, Param):
                self.param(s, self.globals, place)
            elif isinstance(s, BlockDef):
                self.define(s, place)
            elif isinstance(s, Include):
                self.include(s, place)
            elif not isinstance(s, Field) or s.name:
                self.skip("An included file holds only param, block and include.", s.span, place)
                break
        self.open_files.pop()
