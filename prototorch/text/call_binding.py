"""Calls as bodies: values by position become fields, and each word what its field takes it for.

``Conv2D(x, filters, 3, activation: relu)`` becomes ``Conv2D { bottom: "x"  filters: $filters  kernel_size: 3
activation: relu }``. What comes after this step (expansion, checks, saved models) knows bodies only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text.arguments import body_arguments, is_layer
from prototorch.text.call_schema import CallSchema, schema_at
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallArgument,
    CallBody,
    CallWord,
    Expression,
    Field,
    InvalidValue,
    ListValue,
    Scalar,
    TypedBlock,
    Value,
    Word,
)

__all__ = ["CallBinder"]

_NUMBER_WORDS = ("none", "inf", "nan")


class CallBinder(ABC):
    """Makes bodies of calls, by what is known where they stand."""

    def __init__(self) -> None:
        self._ambiguous: set[str] = set()  # words of this call that were reported

    @abstractmethod
    def describe_variable(self, word: str) -> str | None:
        """The param, argument or loop variable of that name, for a message; None where there is none."""

    @abstractmethod
    def describe_output(self, word: str) -> str | None:
        """The output of that name that can be read here, for a message; None where there is none."""

    @abstractmethod
    def output_to_come(self, word: CallWord) -> Span | None:
        """Where ``=`` gives an output this name below the word; None where it does not."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether all of the text could be read, so that what is not defined is a mistake where it is named."""

    @abstractmethod
    def explain_outer_output(self, word: CallWord) -> str:
        """What to write for an output outside of the block, or the turn of a repeat, that the word stands in; "" where
        there is none."""

    @abstractmethod
    def output_value(self, word: str, span: Span | None) -> Value:
        """The string that names that output in ``bottom``."""

    @abstractmethod
    def is_block(self, name: str) -> bool:
        """Whether a block of that name may be used here."""

    @abstractmethod
    def report_call(self, message: str, span: Span | None, is_provisional: bool = False) -> None:
        """Report a mistake in a call."""

    # ------------------------------------------------------------------ what is called

    def bind_class(self, name: str, call: CallBody, schema: CallSchema | None, span: Span | None) -> Body:
        """The body of a call of a class; None where the class is not known."""
        if schema is None:
            return self._bind_unknown(name, call, span)
        inputs, arguments = self._split_inputs(schema, call.arguments) if schema.reads_inputs else ([], call.arguments)
        named_arguments, is_complete = self._name_arguments(
            schema.name, schema.positional, arguments, call, schema.is_merging
        )
        fields = [self._bind_field(schema, a) for a in named_arguments]
        return self._make_body(self._bottom(inputs, is_complete or not schema.is_merging), fields, call, is_complete)

    def bind_block(self, block: BlockDef, call: CallBody, input_count: int | None, layers: Collection[str]) -> Body:
        """The body of a use of a block. input_count: the number of inputs that it declares; None where it declares
        none, and reads one. layers: its arguments that are layers."""
        arguments_by_name = {a.name: a for a in block.arguments}
        bodies = body_arguments(block, layers)
        has_layers = call.body is not None and any(is_layer(s, arguments_by_name) for s in call.body.statements)
        given_in_braces = bodies if has_layers and len(bodies) == 1 else []
        names = tuple(n for n in arguments_by_name if n not in given_in_braces) if input_count is None else ()
        inputs: list[CallArgument] = []
        arguments = call.arguments
        while arguments and self._is_input(arguments[0], None, "", input_count is not None):
            inputs.append(arguments[0])
            arguments = arguments[1:]
        if len(inputs) > 1 and input_count is None:
            self.report_call(f"The block {block.name} reads one input.", inputs[1].span)
            del inputs[1:]
        what = f"The block {block.name}"
        named_arguments, is_complete = self._name_arguments(what, names, arguments, call, input_count is not None)
        words = {a.name for a in block.arguments if not isinstance(a.default, Scalar | ListValue | Expression)}
        fields = []
        for a in named_arguments:
            name = a.name or ""
            if name == "bottom" and all(argument.name != "bottom" for argument in block.arguments):
                value = self._bind_inputs(a.value)
            elif name in layers and isinstance(a.value, TypedBlock):
                value = self._bind_layer(a.value)
            else:
                value = self._bind_value(a.value, None, name, name in words)
            fields.append(Field(name, value, a.span, a.name_span))
        return self._make_body(self._bottom(inputs, is_complete or input_count is None), fields, call, is_complete)

    def _bind_layer(self, value: TypedBlock) -> TypedBlock:
        """``Name(...)`` as an argument that is a layer; the use of a block is expanded where it stands."""
        if not isinstance(value.body, CallBody) or self.is_block(value.word):
            return value
        body = self.bind_class(value.word, value.body, schema_at((value.word,)), value.word_span)
        return TypedBlock(value.word, body, value.span, value.word_span)

    def _bind_unknown(self, name: str, call: CallBody, span: Span | None) -> Body:
        positional = [a for a in call.arguments if a.name is None]
        if positional:
            message = f"Nothing here says what {name} is, so that its fields are given by name: {name}(field: value)."
            self.report_call(message, span, is_provisional=True)
        fields = [
            Field(a.name, self._bind_value(a.value, None, a.name, True), a.span, a.name_span)
            for a in call.arguments
            if a.name is not None
        ]
        return self._make_body([], fields, call, not positional)

    @staticmethod
    def _make_body(bottom: list[Field], fields: list[Field], call: CallBody, is_complete: bool) -> Body:
        """is_complete: False where a mistake left a field out, which is then not missed."""
        rest = call.body.statements if call.body is not None else ()
        damaged = [] if is_complete else [Field("", InvalidValue(call.span), call.span, call.span)]
        return Body((*bottom, *fields, *damaged, *rest), call.span)

    # ------------------------------------------------------------------ arguments

    def _name_arguments(
        self,
        what: str,
        names: Sequence[str],
        arguments: Sequence[CallArgument],
        call: CallBody,
        is_merging: bool,
    ) -> tuple[list[CallArgument], bool]:
        """The arguments with the names of their fields, and whether these are all; the others are reported."""
        named_arguments: list[CallArgument] = []
        is_complete = True
        seen: dict[str, Span | None] = {}
        after_name = False
        position = 0
        for a in arguments:
            name, name_span = a.name, a.name_span
            if name is None:
                if after_name:
                    self.report_call("A value by position stands before those by name.", a.span)
                    is_complete = False
                    continue
                if position == len(names):
                    if is_complete:
                        self._report_surplus(what, names, a, is_merging)
                    is_complete = False
                    continue
                name, name_span = names[position], a.span
                position += 1
            else:
                after_name = True
            if name in seen:
                self._report_twice(what, name, seen[name], name_span)
                continue
            seen[name] = name_span
            named_arguments.append(CallArgument(name, a.value, a.span, name_span))
        for s in call.body.fields if call.body is not None else ():
            if s.name in seen:
                self._report_twice(what, s.name, seen[s.name], s.name_span)
                named_arguments = [a for a in named_arguments if a.name != s.name]
        return named_arguments, is_complete

    def _report_surplus(self, what: str, names: Sequence[str], a: CallArgument, is_merging: bool) -> None:
        if is_merging:
            call = what.removeprefix("The block ")
            reader = what if call == what else f"the block {call}"
            message = f"{what} reads outputs and takes no field by position: {call}(a, b, field: value)."
            if isinstance(a.value, CallWord):
                message = f"There is no output named {a.value.text!r} before it, to be an input of {reader}."
        elif names:
            message = (
                f"{what} takes {len(names)} values by position ({', '.join(names)}); the others are given by name."
            )
        else:
            message = f"{what} takes no values by position."
        self.report_call(message, a.span)

    def _report_twice(self, what: str, name: str, first: Span | None, second: Span | None) -> None:
        at = f" (first at line {first.line}, column {first.source.position(first.start)[1]})" if first else ""
        self.report_call(f"{what}.{name} is given twice{at}.", second)

    # ------------------------------------------------------------------ inputs

    def _split_inputs(
        self, schema: CallSchema, arguments: tuple[CallArgument, ...]
    ) -> tuple[list[CallArgument], tuple[CallArgument, ...]]:
        """The leading arguments that are inputs, and the rest."""
        inputs: list[CallArgument] = []
        first = schema.positional[0] if schema.positional else ""
        while arguments and self._is_input(arguments[0], schema, first, schema.is_merging):
            inputs.append(arguments[0])
            arguments = arguments[1:]
        return inputs, arguments

    def _is_input(self, a: CallArgument, schema: CallSchema | None, first: str, is_merging: bool) -> bool:
        """Whether an argument by position names an output. is_merging: whether all of them do."""
        if a.name is not None:
            return False
        if isinstance(a.value, CallWord):
            output = self.describe_output(a.value.text)
            if output is None:
                return self._reads_below(a.value, schema, first)
            others = self._meanings(a.value.text, schema, first)
            if others:
                self._report_ambiguous(a.value, [output, *others])
                return False
            return True
        if not isinstance(a.value, Scalar | Expression):
            return False
        if isinstance(a.value, Expression):
            return is_merging
        if is_merging or schema is None or not isinstance(a.value.value, str):
            return is_merging and isinstance(a.value.value, str)
        return self.describe_output(a.value.value) is not None and not schema.takes_strings(first)

    def _reads_below(self, word: CallWord, schema: CallSchema | None, first: str) -> bool:
        """Whether a word that has no other meaning names an output below it, which is reported."""
        if self._meanings(word.text, schema, first):
            return False
        below = self.output_to_come(word)
        message = self.explain_outer_output(word)
        if below is not None:
            message = (
                f"{word.text!r} is defined below (line {below.line}); a layer reads only what is defined above it."
            )
        if message:
            self.report_call(message, word.span)
        return bool(message) or not self.is_complete()

    def _bottom(self, inputs: Sequence[CallArgument], is_complete: bool = True) -> list[Field]:
        if not is_complete:
            return [Field("bottom", InvalidValue(None))]
        if not inputs:
            return []
        values = [self.output_value(a.value.text, a.span) if isinstance(a.value, CallWord) else a.value for a in inputs]
        first, last = inputs[0].span, inputs[-1].span
        span = Span(first.source, first.start, last.end) if first is not None and last is not None else None
        return [Field("bottom", values[0] if len(values) == 1 else ListValue(tuple(values), span), span, span)]

    # ------------------------------------------------------------------ words

    def _bind_field(self, schema: CallSchema, a: CallArgument) -> Field:
        name = a.name or ""
        if name == "bottom" and schema.reads_inputs:
            return Field(name, self._bind_inputs(a.value), a.span, a.name_span)
        is_word_field = not schema.has_field(name) or schema.is_enumerated(name)
        return Field(name, self._bind_value(a.value, schema, name, is_word_field), a.span, a.name_span)

    def _bind_inputs(self, value: Value) -> Value:
        """The value of ``bottom``: words are outputs, or variables that hold a name."""
        if isinstance(value, ListValue):
            return ListValue(tuple(map(self._bind_inputs, value.items)), value.span)
        if not isinstance(value, CallWord):
            return value
        output, variable = self.describe_output(value.text), self.describe_variable(value.text)
        if output is not None and variable is not None:
            self._report_ambiguous(value, [output, variable])
        if variable is not None:
            return _variable(value)
        return self.output_value(value.text, value.span)

    def _bind_value(self, value: Value, schema: CallSchema | None, field: str, keep_word: bool) -> Value:
        """A value with its words resolved. keep_word: whether a word that is no variable stays a word."""
        if isinstance(value, CallWord):
            meanings = self._meanings(value.text, schema, field)
            if len(meanings) > 1:
                self._report_ambiguous(value, meanings)
            if value.text in self._ambiguous:
                return InvalidValue(value.span)
            is_variable = self.describe_variable(value.text) is not None
            if is_variable or not (keep_word or meanings or value.text in _NUMBER_WORDS):
                return _variable(value)
            return Word(value.text, value.span)
        if isinstance(value, ListValue):
            return ListValue(tuple(self._bind_value(v, schema, field, keep_word) for v in value.items), value.span)
        if isinstance(value, TypedBlock) and isinstance(value.body, CallBody):
            inner = schema.value_class(field, value.word) if schema is not None else None
            body = self.bind_class(value.word, value.body, inner, value.word_span)
            return TypedBlock(value.word, body, value.span, value.word_span)
        return value

    def _meanings(self, word: str, schema: CallSchema | None, field: str) -> list[str]:
        """What a word may mean in a field, for messages: a value, a word of the field."""
        meanings = []
        variable = self.describe_variable(word)
        if variable is not None:
            meanings.append(variable)
        if schema is not None and word not in _NUMBER_WORDS and schema.takes_word(field, word):
            meanings.append(f"the word of {schema.name}.{field}")
        return meanings

    def _report_ambiguous(self, word: CallWord, meanings: Sequence[str]) -> None:
        name = word.text
        self._ambiguous.add(name)
        message = f'{name!r} may mean {" or ".join(meanings)}: write ${name} for the value, "{name}" for the name.'
        self.report_call(message, word.span)


def _variable(word: CallWord) -> Any:
    return Expression(ex.Name(word.text, word.span), word.span)
