"""The tree builder: the parser calls a method of it for each completed rule; no parse tree is stored in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text import limits
from prototorch.text.evaluator import FUNCTIONS
from prototorch.text.number_literals import parse_number
from prototorch.text.parse_context import ParseAborted, Token
from prototorch.text.source import Span
from prototorch.text.string_literals import InvalidEscapeError, unescape
from prototorch.text.syntax_tree import (
    Argument,
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


class ExpressionWithDepth:
    """An expression under construction with its nesting depth and the number of its nodes."""

    __slots__ = ("depth", "node", "size")

    def __init__(self, node: Any, depth: int, size: int = 1):
        self.node = node
        self.depth = depth
        self.size = size


def _join_spans(first: Token | Any, last: Token | Any) -> Span:
    a, b = first.span, last.span
    return Span(a.source, a.start, b.end)


def _nest(make: Any, *parts: ExpressionWithDepth) -> ExpressionWithDepth:
    depth = 1 + max((p.depth for p in parts), default=0)
    node = make(*(p.node for p in parts))
    if depth > limits.MAX_NESTING:
        message = f"This expression has more than {limits.MAX_NESTING} parts inside each other."
        raise ExpressionError(message, node.span)
    return ExpressionWithDepth(node, depth, 1 + sum(p.size for p in parts))


class ExpressionError(Exception):
    """An expression that cannot be one: nested too deeply, or a block where a number stands."""

    def __init__(self, message: str, span: Span | None):
        super().__init__(message)
        self.span = span


class TreeBuilder:
    """One method per rule of the grammar; each takes the list of the rule's parts."""

    def __init__(self, fill: Any):
        self.fill = fill  # parses the expression inside a string's ${...}

    # ---- statements

    def document(self, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def only_value(self, parts: list[Any]) -> Any:
        return to_string_value(parts[0])

    def only_expression(self, parts: list[Any]) -> Any:
        return _as_number(parts[0])

    def field(self, parts: list[Any]) -> Field:
        name, value = parts
        if type(value) is ExpressionWithDepth:
            value = to_string_value(value)
        if name.value == ERROR_FIELD or not name.value.isascii():
            return Field("", InvalidValue(name.span), name.span, name.span)
        return Field.read_at(name.value, value, name.start)

    def bare(self, parts: list[Any]) -> Field:
        name = parts[0]
        name.ctx.has_calls = True
        return self.field([name, CallBody((), None, True, name.span)])

    def with_output(self, parts: list[Any]) -> Field:
        output, name = parts[0], parts[2]
        name.ctx.has_calls = True
        statement = self.bare([name]) if len(parts) == 3 else self.field([name, parts[3]])
        span = _join_spans(output, statement)
        return replace(statement, span=span, output=Word(output.value, output.span)) if statement.name else statement

    def param(self, parts: list[Any]) -> Param:
        keyword, name, value = parts[0], parts[1], to_string_value(parts[2])
        return Param(name.value, value, _join_spans(keyword, value), name.span)

    def repeat(self, parts: list[Any]) -> Repeat:
        variable = parts[1].value if len(parts) == 4 else None
        return Repeat(variable, parts[-2], parts[-1], _join_spans(parts[0], parts[-1]))

    def conditional(self, parts: list[Any]) -> If:
        keyword, *rest = parts
        else_body = None
        if len(rest) >= 2 and isinstance(rest[-2], Token) and rest[-2].type == "ELSE":
            else_body = rest.pop()
            rest.pop()
        arms = tuple((_to_condition(rest[i]), rest[i + 1]) for i in range(0, len(rest), 2))
        return If(arms, else_body, _join_spans(keyword, parts[-1]))

    def block(self, parts: list[Any]) -> BlockDef:
        keyword, name, body = parts[0], parts[1], parts[-1]
        arguments = parts[2] if len(parts) == 4 else ()
        return BlockDef(name.value, arguments, body, _join_spans(keyword, body), name.span)

    def arguments(self, parts: list[Any]) -> tuple[Argument, ...]:
        return tuple(parts)

    def argument(self, parts: list[Any]) -> Argument:
        default = to_string_value(parts[1]) if len(parts) == 2 else None
        return Argument(parts[0].value, default, parts[0].span)

    def include(self, parts: list[Any]) -> Include:
        keyword, path = parts
        node = path.node
        if not isinstance(node, ex.Literal):
            keyword.ctx.report.add("The file of an include is a plain string, without ${...}.", node.span)
        return Include(str(getattr(node, "value", "")), _join_spans(keyword, node))

    # ---- values

    def word(self, parts: list[Any]) -> Word | Scalar:
        return _to_condition(parts[0])

    def number(self, parts: list[Any]) -> Scalar | InvalidValue:
        token, span = parts[-1], _join_spans(parts[0], parts[-1])
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
        return TypedBlock(word.text, body, _join_spans(word, body), word.span)

    def call(self, parts: list[Any]) -> CallBody:
        body = parts[-1] if type(parts[-1]) is Body else None
        parts[0].ctx.has_calls = True
        arguments = _to_arguments(parts[1 : -1 if body is None else -2])
        return CallBody(arguments, body, False, _join_spans(parts[0], parts[-1]))

    def call_argument(self, parts: list[Any]) -> Any:
        """A named value; one by position as it is, until the call is complete."""
        if len(parts) == 1:
            return parts[0]
        name, value = parts
        return CallArgument.read_at(name.value, value, name.start)

    def typed_braces(self, parts: list[Any]) -> TypedBlock:
        word = parts[0]
        return TypedBlock(word.value, self.body(parts[1:]), _join_spans(word, parts[-1]), word.span)

    def body(self, parts: list[Any]) -> Body:
        return Body(tuple(parts[1:-1]), _join_spans(parts[0], parts[-1]))

    def values(self, parts: list[Any]) -> ListValue:
        return ListValue(tuple(to_string_value(p) for p in parts[1:-1]), _join_spans(parts[0], parts[-1]))

    def string(self, parts: list[Token]) -> ExpressionWithDepth:
        """A string, as an expression; :func:`to_string_value` makes it a value."""
        span = _join_spans(parts[0], parts[-1])
        if span.end - span.start > limits.MAX_STRING_LENGTH:
            parts[0].ctx.report.add(f"This string has more than {limits.MAX_STRING_LENGTH} characters.", span)
            raise ParseAborted
        if not parts[0].ctx.is_protobuf and any("${" in token.value for token in parts):
            return self._template(parts, span)
        return ExpressionWithDepth(ex.Literal("".join(_unescape_text(token, 1, -1) for token in parts), span), 1)

    def _template(self, parts: list[Token], span: Span) -> ExpressionWithDepth:
        parts_read: list[Any] = []
        depth, size = 0, 1
        for token in parts:
            at, raw = 1, token.value
            while (begin := raw.find("${", at)) >= 0:
                stop = raw.find("}", begin)
                if stop < 0:
                    token.ctx.report.add(
                        "This '${' has no '}'.", token.ctx.span(token.start + begin, token.start + begin + 2)
                    )
                    break
                parts_read.append(_unescape_text(token, at, begin))
                inner = self.fill(token.ctx, token.start + begin + 2, token.start + stop)
                depth, size = max(depth, inner.depth), size + inner.size
                parts_read.append(inner.node)
                at = stop + 1
            parts_read.append(_unescape_text(token, at, len(raw) - 1))
        merged_parts: list[Any] = []
        for part in parts_read:
            if isinstance(part, str) and merged_parts and isinstance(merged_parts[-1], str):
                merged_parts[-1] += part
            elif part != "":
                merged_parts.append(part)
        return ExpressionWithDepth(ex.TemplateString(tuple(merged_parts), span), depth + 1, size)

    # ---- expressions

    def expression(self, parts: list[Token]) -> Expression:
        token = parts[0]
        span = token.span
        return Expression(ex.Name(token.value[1:], Span(span.source, span.start + 1, span.end)), span)

    def dollar(self, parts: list[Any]) -> Expression:
        inside = _as_number(parts[1])
        return Expression(inside.node, _join_spans(parts[0], parts[2]), inside.size)

    def dollar_call(self, parts: list[Any]) -> Expression:
        call_node = self.function(parts)
        call_node.node.function = call_node.node.function[1:]
        return Expression(call_node.node, call_node.node.span, call_node.size)

    def literal(self, parts: list[Token]) -> ExpressionWithDepth:
        return ExpressionWithDepth(ex.Literal(parse_number(parts[0], limits.INT_MAX), parts[0].span, parts[0].value), 1)

    def variable(self, parts: list[Token]) -> ExpressionWithDepth:
        return ExpressionWithDepth(ex.Name(parts[0].value, parts[0].span), 1)

    def group(self, parts: list[Any]) -> ExpressionWithDepth:
        return parts[1]

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
            values = tuple(_to_number(e.node) for e in expressions)
            function = ex.FunctionCall(parts[0].value, values, _join_spans(parts[0], parts[-1]))
        word, call = parts[0], self.call(parts[1:])
        span = _join_spans(word, call)
        block = TypedBlock(word.value, call, span, word.span)  # type: ignore[arg-type]
        return _nest(lambda *_: ex.CallValue(block, function, span), *expressions)

    def function(self, parts: list[Any]) -> ExpressionWithDepth:
        span = _join_spans(parts[0], parts[-1])
        return _nest(lambda *a: ex.FunctionCall(parts[0].value, a, span), *map(_as_number, parts[1:-1]))

    def series(self, parts: list[Any]) -> ExpressionWithDepth:
        span = _join_spans(parts[0], parts[-1])
        return _nest(lambda *a: ex.ListExpression(a, span), *parts[1:-1])

    def index(self, parts: list[Any]) -> ExpressionWithDepth:
        value, _, index, end = parts
        return _nest(lambda v, i: ex.Subscript(v, i, _join_spans(v, end)), *map(_as_number, (value, index)))

    def unary(self, parts: list[Any]) -> ExpressionWithDepth:
        token, operand = parts
        return _nest(lambda a: ex.UnaryExpression(token.value, a, _join_spans(token, a)), _as_number(operand))

    def binary(self, parts: list[Any]) -> ExpressionWithDepth:
        left, token, right = parts
        return _nest(
            lambda a, b: ex.BinaryExpression(token.value, a, b, _join_spans(a, b)), _as_number(left), _as_number(right)
        )

    def compare(self, parts: list[Any]) -> ExpressionWithDepth:
        signs = [token.value for token in parts[1::2]]
        return _nest(
            lambda first, *rest: ex.Compare(first, tuple(zip(signs, rest, strict=True)), _join_spans(first, rest[-1])),
            *map(_as_number, parts[::2]),
        )

    def choose(self, parts: list[Any]) -> ExpressionWithDepth:
        return _nest(lambda yes, c, no: ex.Conditional(yes, c, no, _join_spans(yes, no)), *map(_as_number, parts))


def to_string_value(value: Any) -> Any:
    """A string as a field value: a scalar, or an expression if it has placeholders."""
    if type(value) is ExpressionWithDepth:
        node = value.node
        if isinstance(node, ex.Literal):
            return Scalar(str(node.value), node.span)
        return Expression(node, node.span, value.size)
    return value


def _as_number(part: ExpressionWithDepth) -> ExpressionWithDepth:
    """A part of an expression where no block can stand."""
    if type(part.node) in (ex.CallValue, ex.ListExpression):
        part.node = _to_number(part.node)
    return part


def _to_number(node: Any) -> Any:
    if type(node) is ex.ListExpression:
        return ex.ListExpression(tuple(_to_number(item) for item in node.items), node.span)
    if type(node) is not ex.CallValue:
        return node
    if node.function is None:
        raise ExpressionError(f"{node.value.word}(...) with named values is a block, and no number.", node.span)
    return node.function


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


def _to_condition(value: Any) -> Any:
    if not isinstance(value, Token):
        return value
    if value.value in ("true", "false"):
        return Scalar(value.value == "true", value.span, value.value)
    return Word(value.value, value.span)


def _unescape_text(token: Token, start: int, end: int) -> str:
    raw = token.value[start:end]
    try:
        return unescape(raw)
    except InvalidEscapeError as bad:
        at = token.start + start + bad.at
        token.ctx.report.add(str(bad), token.ctx.span(at, min(at + 2, token.end)))
        return raw
