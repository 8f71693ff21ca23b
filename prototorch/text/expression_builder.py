"""The part of the tree builder for expressions and strings: one method per rule of the grammar."""

from __future__ import annotations

from typing import Any

from prototorch.text import expressions as ex
from prototorch.text import limits
from prototorch.text.loop_targets import LoopTarget
from prototorch.text.number_literals import parse_number
from prototorch.text.parse_context import ParseAborted, Token
from prototorch.text.source import Span
from prototorch.text.string_literals import InvalidEscapeError, unescape
from prototorch.text.syntax_tree import Expression

__all__ = [
    "ExpressionBuilder",
    "ExpressionError",
    "ExpressionWithDepth",
    "as_number",
    "check_target",
    "join_spans",
    "join_targets",
    "nest",
    "to_number",
]


class ExpressionWithDepth:
    """An expression under construction with its nesting depth and the number of its nodes."""

    __slots__ = ("depth", "node", "size")

    def __init__(self, node: Any, depth: int, size: int = 1):
        self.node = node
        self.depth = depth
        self.size = size


def join_spans(first: Token | Any, last: Token | Any) -> Span:
    a, b = first.span, last.span
    return Span(a.source, a.start, b.end)


def nest(make: Any, *parts: ExpressionWithDepth) -> ExpressionWithDepth:
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


class ExpressionBuilder:
    """Each method takes the list of its rule's parts."""

    def __init__(self, fill: Any):
        self.fill = fill  # parses the expression inside a string's ${...}

    def string(self, parts: list[Token]) -> ExpressionWithDepth:
        """A string, as an expression; :func:`to_string_value` makes it a value."""
        span = join_spans(parts[0], parts[-1])
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
        inside = as_number(parts[1])
        return Expression(inside.node, join_spans(parts[0], parts[2]), inside.size)

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

    def function(self, parts: list[Any]) -> ExpressionWithDepth:
        span = join_spans(parts[0], parts[-1])
        return nest(lambda *a: ex.FunctionCall(parts[0].value, a, span), *map(as_number, parts[1:-1]))

    def series(self, parts: list[Any]) -> ExpressionWithDepth:
        span = join_spans(parts[0], parts[-1])
        return nest(lambda *a: ex.ListExpression(a, span), *parts[1:-1])

    def index(self, parts: list[Any]) -> ExpressionWithDepth:
        value, _, index, end = parts
        return nest(lambda v, i: ex.Subscript(v, i, join_spans(v, end)), *map(as_number, (value, index)))

    def slice(self, parts: list[Any]) -> ExpressionWithDepth:
        """``a[start:stop:step]``; a part that is left out is between no two other tokens."""
        bounds: list[Any] = [None, None, None]
        at = 0
        for part in parts[2:-1]:
            if type(part) is Token:
                at += 1
            else:
                bounds[at] = as_number(part)
        places = [i for i, bound in enumerate(bounds) if bound is not None]

        def make(value: Any, *nodes: Any) -> ex.SliceExpression:
            by_place = dict(zip(places, nodes, strict=True))
            span = join_spans(value, parts[-1])
            return ex.SliceExpression(value, by_place.get(0), by_place.get(1), by_place.get(2), span)

        return nest(make, as_number(parts[0]), *(bounds[place] for place in places))

    def loop(self, parts: list[Any]) -> tuple[LoopTarget, list[ExpressionWithDepth], Span]:
        """The target, the series and the conditions of a ``for``."""
        targets = [part for part in parts if type(part) is LoopTarget]
        operands = [as_number(part) for part in parts if type(part) is ExpressionWithDepth]
        return join_targets(targets), operands, join_spans(parts[0], operands[-1].node)

    def comprehension(self, parts: list[Any]) -> ExpressionWithDepth:
        loops = parts[2:-1]
        span = join_spans(parts[0], parts[-1])

        def make(element: Any, *nodes: Any) -> ex.Comprehension:
            rest = list(nodes)
            new_loops = []
            for target, operands, loop_span in loops:
                series, *conditions = rest[: len(operands)]
                del rest[: len(operands)]
                new_loops.append(ex.Loop(target, series, tuple(conditions), loop_span))
            return ex.Comprehension(element, tuple(new_loops), span)

        whole = nest(make, as_number(parts[1]), *(operand for loop in loops for operand in loop[1]))
        whole.node.size = whole.size
        whole.depth += len(loops)  # each is evaluated inside the one before
        for target, _, _ in loops:
            check_target(target)
        if whole.depth > limits.MAX_NESTING:
            raise ExpressionError(f"This expression has more than {limits.MAX_NESTING} parts inside each other.", span)
        return whole

    def unary(self, parts: list[Any]) -> ExpressionWithDepth:
        token, operand = parts
        return nest(lambda a: ex.UnaryExpression(token.value, a, join_spans(token, a)), as_number(operand))

    def binary(self, parts: list[Any]) -> ExpressionWithDepth:
        left, token, right = parts
        return nest(
            lambda a, b: ex.BinaryExpression(token.value, a, b, join_spans(a, b)), as_number(left), as_number(right)
        )

    def compare(self, parts: list[Any]) -> ExpressionWithDepth:
        operands = [as_number(part) for part in parts if type(part) is ExpressionWithDepth]
        signs, sign = [], ""
        for part in parts[1:]:
            if type(part) is Token:
                sign = f"{sign} {part.value}".lstrip()  # "not in" is two tokens
            else:
                signs.append(sign)
                sign = ""
        return nest(
            lambda first, *rest: ex.Compare(first, tuple(zip(signs, rest, strict=True)), join_spans(first, rest[-1])),
            *operands,
        )

    def choose(self, parts: list[Any]) -> ExpressionWithDepth:
        return nest(lambda yes, c, no: ex.Conditional(yes, c, no, join_spans(yes, no)), *map(as_number, parts))


def as_number(part: ExpressionWithDepth) -> ExpressionWithDepth:
    """A part of an expression where no block can stand."""
    if type(part.node) in (ex.CallValue, ex.ListExpression):
        part.node = to_number(part.node)
    return part


def to_number(node: Any) -> Any:
    if type(node) is ex.ListExpression:
        return ex.ListExpression(tuple(to_number(item) for item in node.items), node.span)
    if type(node) is not ex.CallValue:
        return node
    if node.function is None:
        raise ExpressionError(f"{node.value.word}(...) with named values is a block, and no number.", node.span)
    return node.function


def check_target(target: LoopTarget) -> None:
    """Raise ExpressionError for two names of one target that are the same."""
    duplicate = target.duplicate_name()
    if duplicate is not None:
        raise ExpressionError(f"The name {duplicate.name!r} stands twice before 'in'.", duplicate.span)


def join_targets(targets: list[LoopTarget]) -> LoopTarget:
    """The target of one name, or of several parts of a list."""
    if len(targets) == 1:
        return targets[0]
    return LoopTarget("", tuple(targets), join_spans(targets[0], targets[-1]))


def _unescape_text(token: Token, start: int, end: int) -> str:
    raw = token.value[start:end]
    try:
        return unescape(raw)
    except InvalidEscapeError as bad:
        at = token.start + start + bad.at
        token.ctx.report.add(str(bad), token.ctx.span(at, min(at + 2, token.end)))
        return raw
