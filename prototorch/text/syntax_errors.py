"""Messages for syntax errors: frequent errors are recognized by the tokens around, each with what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.text.bare_names import explain_field_without_value
from prototorch.text.expression_functions import FUNCTIONS
from prototorch.text.lexer import EQUALS_SIGN
from prototorch.text.parse_context import ParseContext, Token
from prototorch.text.source import Span

_NAMES = {"NAME", "PARAM", "REPEAT", "BLOCK", "INCLUDE", "IN"}
_VALUES = {"NUMBER", "STRING", "DOLLAR_NAME", "DOLLAR_LPAR", "LSQUARE"}
_OPERATORS = {
    "PLUS", "MINUS", "STAR", "STARS", "SLASH", "SLASHES", "PERCENT", "EQUAL", "NOT_EQUAL", "LESS", "GREATER",
    "LESS_EQUAL", "GREATER_EQUAL", "AND", "OR", "NOT",
}  # fmt: skip


def explain_unexpected_token(
    tokens: Sequence[Token], at: int, accepts: set[str], ctx: ParseContext
) -> tuple[str, Span]:
    """The message and the span for token number ``at``; beyond the last token it is the end of the text."""
    before = tokens[at - 1] if at else None
    if at >= len(tokens):
        return _explain_end(tokens, accepts, ctx)
    token = tokens[at]
    if token.type == "STRING" and at + 1 < len(tokens) and "IF" in accepts:
        name = token.value[1:-1]
        if tokens[at + 1].type == "COLON":
            return f"A name is written without quotes: {name}: ...", token.span
        if token.value == '""' and tokens[at + 1].start == token.end:
            return "A comment starts with '#', not with three quotes.", token.span
    message = (
        _explain_loop_or_name(tokens, at, accepts)
        or _explain_call(tokens, at, accepts)
        or _explain_statement(tokens, at, accepts)
        or _explain_colon_in_value(tokens, at)
        or _explain_field(token, before, accepts)
        or _explain_expression(tokens, at, accepts)
        or ((EQUALS_SIGN, token) if token.type == "ASSIGN" else None)
    )
    if message is not None:
        text, place = message
        return text, place.span
    return f"Unexpected {_quote_token(token)}.", token.span


def _explain_end(tokens: Sequence[Token], accepts: set[str], ctx: ParseContext) -> tuple[str, Span]:
    if not tokens:
        return "The text is empty.", ctx.span(0, len(ctx.source.text))
    last = tokens[-1]
    if last.type == "COLON":
        return "Expected a value after ':' at the end of the text.", last.span
    if last.type in _NAMES and "COLON" in accepts:
        return explain_field_without_value(last.value), last.span
    return f"The text ends too early, after {_quote_token(last)}.", last.span


def _explain_statement(tokens: Sequence[Token], at: int, accepts: set[str]) -> tuple[str, Token] | None:
    """The additions: param, repeat, if, block, include."""
    token = tokens[at]
    first, second = _token_before(tokens, at, 1), _token_before(tokens, at, 2)
    if token.type == "ELSE":
        return "'else' without an 'if'.", token
    if first.type == "REPEAT":
        return "Expected a number, a name, $(...) or 'name in list' after 'repeat'.", token
    header = _repeat_header(tokens, at)
    if header is not None and header[-1].type == "IN":
        hint = f": write '${token.value}'" if token.type in _NAMES else ""
        return f"A repeat iterates over a name, $range(...), $(...) or a list{hint}.", token
    if header is not None and any(t.type == "IN" for t in header) and first.type == "NAME":
        inside = f"{first.value}[...]" if token.type == "LSQUARE" else f"{first.value} {token.value} ..."
        what = f"${first.value}" if token.type == "LPAR" else f"$({inside})"
        return f"A repeat iterates over a name, $range(...), $(...) or a list: write '{what}'.", first
    if header is not None and not any(t.type == "IN" for t in header):
        if second.type == "REPEAT" and token.type in _OPERATORS | {"LPAR", "LSQUARE"}:
            return f"A repeat count is a number, a name or $(...): write '$({first.value} ...)'.", first
        words = "".join(t.value if t.value in "()" else t.value + " " for t in header).replace(" ,", ",").strip()
        return f"Expected 'in' after 'repeat {words.replace(' )', ')')}'.", token
    if second.type == "REPEAT" and first.type == "NUMBER" and token.type in ("COMMA", "IN"):
        return f"A repeat gives names to values: repeat i in ..., not repeat {first.value}.", first
    if first.type in ("IF", "ASSERT"):
        return f"Expected a name, $(...), true or false after '{first.value}'.", token
    if second.type in ("IF", "ASSERT") and first.type == "NAME":
        return f"A condition is a name or $(...): write '$({first.value} ...)'.", first
    if token.type == "STRING" and {"IF", "COMMA"} <= accepts and _is_behind_assert(tokens, at):
        return f"A ',' is missing before {_quote_token(token)}.", token
    if first.type == "LET":
        return "Expected a name and a value after 'let': let half: $(dim // 2).", token
    if second.type == "LET" and first.type == "NAME":
        return f"A value is given with ':': let {first.value}: ...", first
    if first.type == "BLOCK" and token.type != "NAME":
        return "Expected the block's name after 'block'.", token
    if second.type == "BLOCK" and first.type == "NAME":
        hint = f"block {first.value}() {{ ... }}"
        return f"A block lists its arguments in parentheses, also if it has none: {hint}.", first
    if first.type == "PARAM":
        return "Expected a name and a value after 'param': param classes: 10.", token
    if second.type == "PARAM" and first.type == "NAME":
        return f"A parameter has a value: param {first.value}: ...", first
    if first.type == "INCLUDE":
        return 'The file of an include is written in quotes: include "blocks.proto".', token
    return _explain_picks(tokens, at)


def _explain_loop_or_name(tokens: Sequence[Token], at: int, accepts: set[str]) -> tuple[str, Token] | None:
    """Comprehensions, slices, and ``Dense "name" { }``."""
    token, first, second = tokens[at], _token_before(tokens, at, 1), _token_before(tokens, at, 2)
    if token.type == "FOR" or (token.value == "for" and "RSQUARE" in accepts):
        brackets = "brackets: [" if token.type == "FOR" else "$( ): $(["
        return f"A comprehension stands in {brackets}... for i in ...{']' if token.type == 'FOR' else '])'}.", token
    begin = at - 1
    while begin > 0 and tokens[begin].type in ("NAME", "COMMA", "LPAR", "RPAR"):
        begin -= 1
    if tokens[begin].type == "FOR":
        return f"Expected names and 'in' after 'for', got {_quote_token(token)}.", token
    if token.type == "COLON" and accepts >= {"RSQUARE", "STAR"}:
        return "A slice has at most three parts: [start:stop:step].", token
    if first.type == "STRING" and second.type == "NAME" and token.type == "LPAR":
        return f"The name of a call is one of its fields: {second.value}(..., name: {first.value}).", first
    if token.type == "LBRACE" and first.type == "STRING" and second.type == "COLON":
        name = _token_before(tokens, at, 3)
        if name.type == "NAME":
            return f"A name stands before the brace without ':': {name.value} {first.value} {{ ... }}.", second
    return None


def _is_behind_assert(tokens: Sequence[Token], at: int) -> bool:
    """Whether number ``at`` is behind the condition of an ``assert``."""
    begin, depth = at - 1, 0
    while begin > 0:
        depth += (tokens[begin].type == "RPAR") - (tokens[begin].type in ("LPAR", "DOLLAR_LPAR"))
        begin -= 1
        if depth <= 0:
            break
    return tokens[begin].type == "ASSERT"


def _explain_picks(tokens: Sequence[Token], at: int) -> tuple[str, Token] | None:
    """``include a, b from "file"``."""
    token, first = tokens[at], _token_before(tokens, at, 1)
    begin = at - 1
    while begin > 0 and tokens[begin].type in ("NAME", "COMMA", "FROM"):
        begin -= 1
    if tokens[begin].type != "INCLUDE" or begin == at - 1:
        return None
    names = [t.value for t in tokens[begin + 1 : at] if t.type == "NAME"]
    if first.value == "from" and _token_before(tokens, at, 2).type == "COMMA":
        return "Expected a name after ',', got 'from'.", first
    if first.type == "FROM":
        return f'The file of an include is written in quotes: include {", ".join(names)} from "blocks.proto".', token
    if first.type == "COMMA":
        return f"Expected a name after ',', got {_quote_token(token)}.", token
    if token.type == "NAME" and not _is_on_new_line(first, token):
        return f"A ',' is missing before {_quote_token(token)}.", token
    if len(names) == 1 and token.type != "STRING":
        return 'The file of an include is written in quotes: include "blocks.proto".', first
    return f"Expected 'from' and the file: include {', '.join(names)} from \"blocks.proto\".", token


def _repeat_header(tokens: Sequence[Token], at: int) -> Sequence[Token] | None:
    """The tokens between ``repeat`` and number ``at`` where they are names and what joins them; None elsewhere."""
    begin = at - 1
    while begin > 0 and tokens[begin].type in ("NAME", "COMMA", "LPAR", "RPAR", "IN"):
        begin -= 1
    return tokens[begin + 1 : at] if tokens[begin].type == "REPEAT" and begin < at - 1 else None


def _explain_call(tokens: Sequence[Token], at: int, accepts: set[str]) -> tuple[str, Token] | None:
    """The values of a call, and what Python writes there."""
    token, before = tokens[at], _token_before(tokens, at, 1)
    if token.type == "ARROW":
        if any(t.type == "ASSIGN" and not _is_on_new_line(t, token) for t in tokens[max(0, at - 50) : at]):
            return "Outputs are named by '=' or by '->', not by both.", token
        return "'->' names the outputs of a layer or a block, behind it: attend(q, m) -> (out, scores).", token
    if before.type == "ARROW" and token.type in _NAMES:
        return f"The names of outputs stand in parentheses: -> ({token.value}).", token
    if _token_before(tokens, at, 2).type == "ARROW":
        return "The names of outputs stand between the parentheses: -> (out, scores).", token
    if _token_before(tokens, at, 2).type == "ASSIGN" and token.type in _VALUES | {"MINUS"}:
        return f"The fields of a layer stand in parentheses or braces: {before.value}(...).", before
    if token.type == "LPAR" and "IF" in accepts and (not before.ctx or _is_on_new_line(before, token)):
        return "Several outputs are named behind the layer: attend(q, m) -> (out, scores).", token
    if token.type == "LPAR" and before.type == "RPAR" and "STAR" not in accepts:
        return "The inputs of a layer stand first in its parentheses: Dense(x, 10).", token
    if "RPAR" not in accepts:
        return None
    if token.type == "COMMA" and accepts == {"RPAR"}:
        return f"A list is written in brackets: [{before.value}, ...].", token
    if "COMMA" not in accepts:
        return None
    if before.type == "DOLLAR_NAME" and token.type in _OPERATORS:
        return f"In a call expressions stand without '$': write {before.value[1:]}.", before
    if before.type in _NAMES and "COLON" in accepts and token.type in _NAMES | _VALUES:
        return f"A ':' or ',' is missing between {before.value} and {_quote_token(token)}.", before
    if "STAR" in accepts and token.type in _NAMES | _VALUES:
        return f"A ',' is missing before {_quote_token(token)}.", token
    return None


def _explain_colon_in_value(tokens: Sequence[Token], at: int) -> tuple[str, Token] | None:
    """``device: cuda:1``: a word, a colon and more, without spaces, where a value stands."""
    token, value, colon = tokens[at], _token_before(tokens, at, 1), _token_before(tokens, at, 2)
    if token.type != "COLON" or value.type != "NAME" or colon.type != "COLON" or at + 1 >= len(tokens):
        return None
    rest = tokens[at + 1]
    if value.end != token.start or token.end != rest.start or rest.type not in ("NUMBER", "NAME"):
        return None
    return f'A value with a colon is written in quotes: "{value.value}:{rest.value}".', value


def _explain_field(token: Token, before: Token | None, accepts: set[str]) -> tuple[str, Token] | None:
    """Names, colons and values."""
    if before is None:
        return (f"A text starts with a name, got {_quote_token(token)}.", token) if token.type != "ELSE" else None
    if before.type in _NAMES and "COLON" in accepts:
        if token.type in _NAMES and not _is_on_new_line(before, token) and before.value[0].isupper():
            return f"A '{{' is missing after {before.value}: {before.value} {{ {token.value}: ... }}.", before
        if token.type in _VALUES or (token.type in _NAMES and not _is_on_new_line(before, token)):
            return f"A ':' is missing between {before.value} and {_quote_token(token)}.", before
        if token.type in ("LPAR", "MINUS"):
            return f"A field is written {before.value}: value, a layer {before.value} {{ ... }}.", before
        return explain_field_without_value(before.value), before
    if before.type == "COLON":
        return f"A value is missing after the ':', before {_quote_token(token)}.", token
    if token.type == "COLON" and before.type in _VALUES | {"RSQUARE"}:
        return f"Expected a name before ':', got {_quote_token(before)}.", before
    return None


def _explain_expression(tokens: Sequence[Token], at: int, accepts: set[str]) -> tuple[str, Token] | None:
    """Expressions and lists."""
    token, before = tokens[at], tokens[at - 1]
    after_operand, before_operand = "STAR" in accepts, {"NUMBER", "LPAR"} <= accepts  # behind an operand; before one
    in_expression = after_operand or before_operand
    if token.type in ("DOLLAR_NAME", "DOLLAR_LPAR") and in_expression:
        name = token.value[1:] or "("
        return f"Inside $( ) names are written without '$': write {name}.", token
    if in_expression and token.type == "LPAR":
        *names, last = FUNCTIONS
        return f"Only {', '.join(names)} and {last} can be called.", token
    if after_operand:
        return f"Expected an operator or ')' before {_quote_token(token)}.", token
    if in_expression:
        return f"A number or a name is missing before {_quote_token(token)}.", token
    if token.type == "LSQUARE" and before.type == "DOLLAR_NAME":
        return f"An expression with an index must be inside $( ): $({before.value[1:]}[...]).", before
    if token.type in _OPERATORS:
        return f"Arithmetic and comparisons must be inside $( ): $({_operand(before)} {token.value} ...).", token
    if "COMMA" in accepts and "RSQUARE" in accepts:
        return f"A ',' is missing before {_quote_token(token)}.", token
    if token.type == "LPAR" and before.type == "NAME":
        return f"An expression starts with '$': ${before.value}(...).", before
    if token.type in _VALUES and "NAME" in accepts:
        return f"A name and ':' are missing before {_quote_token(token)}; several values make a list: [a, b].", token
    if token.type in ("COMMA", "SEMICOLON"):
        return f"'{token.value}' must follow a value.", token
    return None


def _token_before(tokens: Sequence[Token], at: int, steps: int) -> Token:
    return tokens[at - steps] if at >= steps else _NO_TOKEN


def _is_on_new_line(before: Token, token: Token) -> bool:
    return "\n" in before.ctx.source.text[before.end : token.start]


def _operand(token: Token) -> str:
    return token.value.lstrip("$") if token.type in ("NUMBER", "DOLLAR_NAME", "NAME") else "a"


def _quote_token(token: Token) -> str:
    text = token.value if len(token.value) <= 40 else token.value[:37] + "..."
    return text if token.type == "STRING" else f"'{text}'"


_NO_TOKEN = Token("", "", 0, 0, None)  # type: ignore[arg-type]
