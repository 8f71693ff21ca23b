"""The tree builder: the parser calls a method of it for each completed rule; no parse tree is stored in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text import limits
from prototorch.text.expression_builder import (
    ExpressionBuilder,
    ExpressionWithDepth,
    as_number,
    check_target,
    join_spans,
    join_targets,
    nest,
    to_number,
)
from prototorch.text.expression_functions import FUNCTIONS
from prototorch.text.loop_targets import LoopTarget
from prototorch.text.number_literals import parse_number
from prototorch.text.parse_context import Token
from prototorch.text.syntax_tree import (
    Argument,
    Assert,
    BlockDef,
    Body,
    CallArgument,
    CallBody,
    CallWord,
    Expression,
    Field,
    If,
    Include,
    InvalidValue,
    Let,
    ListValue,
    Param,
    Repeat,
    Scalar,
    TypedBlock,
    Word,
)

_FLOAT_WORDS = ("inf", "infinity", "nan")  # in any case
EXPRESSIONS = frozenset(c for c in vars(ex).values() if getattr(c, "__module__", "") == ex.__name__)  # their nodes
ERROR_FIELD = "\0damaged"  # the name of a field that replaces a statement that could not be parsed


class TreeBuilder(ExpressionBuilder):
    """One method per rule of the grammar; each takes the list of the rule's parts."""

    # ---- statements

    def document(self, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def only_value(self, parts: list[Any]) -> Any:
        return to_string_value(parts[0])

    def only_expression(self, parts: list[Any]) -> Any:
        return as_number(parts[0])

    def field(self, parts: list[Any]) -> Field:
        name, value, *outputs = parts
        value = to_string_value(value)
        if name.value == ERROR_FIELD or not name.value.isascii():
            return Field("", InvalidValue(name.span), name.span, name.span)
        if not outputs:
            return Field.read_at(name.value, value, name.start)
        *tokens, end = outputs[0]
        words = tuple(Word(token.value, token.span) for token in tokens)
        return Field(name.value, value, join_spans(name, end), name.span, outputs=words)

    def bare(self, parts: list[Any]) -> Field:
        name, *outputs = parts
        name.ctx.has_calls = True
        return self.field([name, CallBody((), None, True, name.span), *outputs])

    def outputs(self, parts: list[Token]) -> list[Token]:
        """The names behind ``->``, and the parenthesis that closes them."""
        parts[0].ctx.has_calls = True
        return parts[2:]

    def with_output(self, parts: list[Any]) -> Field:
        output, _, name, *value = parts
        name.ctx.has_calls = True
        new = self.field([name, *value]) if value else self.bare([name])
        words = (Word(output.value, output.span),)
        return replace(new, span=join_spans(output, new), outputs=words) if new.name else new

    def with_label(self, parts: list[Any]) -> Field:
        """``x = Dense "name" { ... } -> (a, b)``: all but the name and the string may be left out."""
        names = [part for part in parts[:3] if type(part) is Token and part.type == "NAME"]
        name, text, *rest = parts[2:] if len(names) == 2 else parts
        label = to_string_value(text)
        value = rest.pop(0) if rest and type(rest[0]) is Body else Body((), label.span)
        name.ctx.has_calls = True
        new = self.field([name, value, *rest])
        words = (Word(names[0].value, names[0].span),) if len(names) == 2 else ()
        if words and rest:
            name.ctx.report.add("Outputs are named by '=' or by '->', not by both.", names[0].span)
        if not new.name:
            return new
        last = rest[0][-1] if rest else value
        return replace(new, span=join_spans(parts[0], last), label=label, outputs=words or new.outputs)

    def param(self, parts: list[Any]) -> Param:
        keyword, name, value = parts[0], parts[1], to_string_value(parts[2])
        return Param(name.value, value, join_spans(keyword, value), name.span)

    def let(self, parts: list[Any]) -> Let:
        keyword, name, value = parts[0], parts[1], to_string_value(parts[2])
        return Let(name.value, value, join_spans(keyword, value), name.span)

    def assertion(self, parts: list[Any]) -> Assert:
        message = to_string_value(parts[2]) if len(parts) == 3 else None
        return Assert(_to_variable(parts[1]), message, join_spans(parts[0], parts[-1] if message is None else message))

    def repeat(self, parts: list[Any]) -> Repeat:
        targets = [part for part in parts if type(part) is LoopTarget]
        target = join_targets(targets) if targets else None
        if target is not None:
            check_target(target)
        return Repeat(target, _to_variable(parts[-2]), parts[-1], join_spans(parts[0], parts[-1]))

    def target(self, parts: list[Any]) -> LoopTarget:
        if len(parts) == 1:
            return LoopTarget(parts[0].value, (), parts[0].span)
        target = join_targets(parts[1:-1])
        return LoopTarget(target.name, target.parts, join_spans(parts[0], parts[-1]))

    def conditional(self, parts: list[Any]) -> If:
        keyword, *rest = parts
        else_body = None
        if len(rest) >= 2 and isinstance(rest[-2], Token) and rest[-2].type == "ELSE":
            else_body = rest.pop()
            rest.pop()
        arms = tuple((_to_variable(rest[i]), rest[i + 1]) for i in range(0, len(rest), 2))
        return If(arms, else_body, join_spans(keyword, parts[-1]))

    def block(self, parts: list[Any]) -> BlockDef:
        keyword, name, body = parts[0], parts[1], parts[-1]
        arguments = parts[2] if len(parts) == 4 else ()
        return BlockDef(name.value, arguments, body, join_spans(keyword, body), name.span)

    def arguments(self, parts: list[Any]) -> tuple[Argument, ...]:
        return tuple(parts)

    def argument(self, parts: list[Any]) -> Argument:
        default = to_string_value(parts[1]) if len(parts) == 2 else None
        return Argument(parts[0].value, default, parts[0].span)

    def include(self, parts: list[Any]) -> Include:
        keyword, *names, path = parts
        node = path.node
        if not isinstance(node, ex.Literal):
            keyword.ctx.report.add("The file of an include is a plain string, without ${...}.", node.span)
        picks = tuple(Word(t.value, t.span) for t in names[:-1]) if names else None  # the last is "from"
        return Include(str(getattr(node, "value", "")), join_spans(keyword, node), picks)

    # ---- values

    def word(self, parts: list[Any]) -> Word | Scalar:
        return _to_word(parts[0])

    def number(self, parts: list[Any]) -> Scalar | InvalidValue:
        token, span = parts[-1], join_spans(parts[0], parts[-1])
        negative = len(parts) == 2
        value: int | float | None = None
        if token.type == "NUMBER":
            value = parse_number(token, -limits.INT_MIN if negative else limits.INT_MAX)
        elif token.value in ("inf", "nan") or (token.ctx.is_protobuf and token.value.lower() in _FLOAT_WORDS):
            value = float(token.value)
        else:
            token.ctx.report.add(f"'-' must be followed by a number, not by {token.value}.", token.span)
        if value is None:
            return InvalidValue(span)
        return Scalar(-value if negative else value, span, "-" * negative + token.value)

    def typed(self, parts: list[Any]) -> TypedBlock:
        word, body = parts
        return TypedBlock(word.text, body, join_spans(word, body), word.span)

    def call(self, parts: list[Any]) -> CallBody:
        body = parts[-1] if type(parts[-1]) is Body else None
        parts[0].ctx.has_calls = True
        arguments = _to_arguments(parts[1 : -1 if body is None else -2])
        return CallBody(arguments, body, False, join_spans(parts[0], parts[-1]))

    def call_argument(self, parts: list[Any]) -> Any:
        """A named value; one by position as it is, until the call is complete."""
        if len(parts) == 1:
            return parts[0]
        name, value = parts
        return CallArgument.read_at(name.value, value, name.start)

    def typed_braces(self, parts: list[Any]) -> TypedBlock:
        word = parts[0]
        return TypedBlock(word.value, self.body(parts[1:]), join_spans(word, parts[-1]), word.span)

    def body(self, parts: list[Any]) -> Body:
        return Body(tuple(parts[1:-1]), join_spans(parts[0], parts[-1]))

    def values(self, parts: list[Any]) -> ListValue:
        return ListValue(tuple(to_string_value(p) for p in parts[1:-1]), join_spans(parts[0], parts[-1]))

    # ---- expressions

    def call_value(self, parts: list[Any]) -> ExpressionWithDepth:
        """A function of expressions, or a block with its fields."""
        arguments = parts[2:-1]
        expressions = [a for a in arguments if type(a) is ExpressionWithDepth]
        if parts[0].value in FUNCTIONS:
            for a in _to_arguments([a for a in arguments if type(a) is not ExpressionWithDepth]):
                message = f"The values of {parts[0].value}(...) have no names."
                parts[0].ctx.report.add(message, a.span if a.name is None else a.name_span)
            return self.function([parts[0], *expressions, parts[-1]])
        function = None
        if len(expressions) == len(arguments):
            values = tuple(to_number(e.node) for e in expressions)
            function = ex.FunctionCall(parts[0].value, values, join_spans(parts[0], parts[-1]))
        word, call = parts[0], self.call(parts[1:])
        span = join_spans(word, call)
        block = TypedBlock(word.value, call, span, word.span)  # type: ignore[arg-type]
        return nest(lambda *_: ex.CallValue(block, function, span), *expressions)


def to_string_value(value: Any) -> Any:
    """A string as a field value: a scalar, or an expression if it has placeholders."""
    if type(value) is ExpressionWithDepth:
        node = value.node
        if isinstance(node, ex.Literal):
            return Scalar(str(node.value), node.span)
        return Expression(node, node.span, value.size)
    return value


def _to_arguments(arguments: Sequence[Any]) -> tuple[CallArgument, ...]:
    """The arguments of a call, with values as fields have them."""
    new_arguments = []
    for a in arguments:
        if type(a) is CallArgument:
            a.value = _to_argument_value(a.value)
            new_arguments.append(a)
        else:
            value = _to_argument_value(a)
            new_arguments.append(CallArgument(None, value, value.span))
    return tuple(new_arguments)


def _to_argument_value(value: Any) -> Any:
    return _to_call_value(value.node, value.size) if type(value) is ExpressionWithDepth else value


def _to_call_value(node: Any, size: int) -> Any:
    """An expression in a call as the value of a field: numbers, strings and words as themselves."""
    kind = type(node)
    if kind is ex.Name:
        if node.name in ("true", "false"):
            return Scalar(node.name == "true", node.span, node.name)
        return CallWord(node.name, node.span)
    if kind is ex.Literal:
        return Scalar(node.value, node.span, node.text) if node.value is not None else InvalidValue(node.span)
    if kind is ex.CallValue:
        return node.value
    if kind is ex.ListExpression:
        each = max(1, size // max(1, len(node.items)))
        return ListValue(tuple(_to_call_value(item, each) for item in node.items), node.span)
    if kind is ex.UnaryExpression and node.operator == "-":
        operand = node.operand
        if type(operand) is ex.Literal and isinstance(operand.value, int | float):
            return Scalar(-operand.value, node.span, operand.text and "-" + operand.text)
        if type(operand) is ex.Name and operand.name in ("inf", "nan"):
            return Scalar(-float(operand.name), node.span, "-" + operand.name)
    return Expression(node, node.span, size) if kind in EXPRESSIONS else node


def _to_word(token: Token) -> Word | Scalar:
    if token.value in ("true", "false"):
        return Scalar(token.value == "true", token.span, token.value)
    return Word(token.value, token.span)


def _to_variable(value: Any) -> Any:
    """A count, a series or a condition: a name is the value of that name."""
    if type(value) is not Token:
        return value
    if value.value in ("true", "false"):
        return _to_word(value)
    return Expression(ex.Name(value.value, value.span), value.span, is_bare=True)
