"""Error recovery: which tokens to skip after a syntax error so that the rest can be parsed."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.text.parse_context import Token

_OPEN = {"LBRACE", "LSQUARE", "LPAR", "DOLLAR_LPAR"}
_CLOSE = {"RBRACE", "RSQUARE", "RPAR"}
_NAMES = {"NAME", "PARAM", "REPEAT", "IF", "BLOCK", "INCLUDE", "IN"}
_AFTER_NAME = {"COLON", "ASSIGN", "LBRACE", "LESS"}
_KEYWORDS = {"PARAM", "REPEAT", "IF", "BLOCK", "INCLUDE"}


def repair_token(tokens: list[Token], at: int) -> bool:
    """Whether token ``at`` was replaced by what was surely meant, after its error: a name in quotes by the name."""
    if at + 1 >= len(tokens) or tokens[at].type != "STRING" or tokens[at + 1].type not in ("COLON", "LBRACE"):
        return False
    token = tokens[at]
    name = token.value[1:-1]
    if not (name.isidentifier() and name.isascii()):
        return False
    tokens[at] = Token("NAME", name, token.start, token.end, token.ctx)
    return True


def find_damaged_range(tokens: Sequence[Token], at: int, complete: bool) -> tuple[int, int]:
    """The range [begin, end) of the tokens to skip around token ``at``; never empty.

    complete: the statement before ``at`` is complete, so that only what begins at ``at`` is to blame.
    """
    at = min(at, len(tokens) - 1)
    if complete and tokens[at].type in ("COMMA", "SEMICOLON"):
        return at, at + 1
    if complete:
        return at, max(_find_statement_end(tokens, at, at), at + 1)
    if at and _starts_statement(tokens, at) and tokens[at - 1].type != "RBRACE":
        return _find_statement_start(tokens, at - 1), at
    begin = _find_statement_start(tokens, at)
    return begin, max(_find_statement_end(tokens, at, begin), begin + 1)


def starts_new_statement(last_tokens: Sequence[Token]) -> bool:
    """Whether the second of two tokens cannot belong to the statement of the first, where that may be complete."""
    if len(last_tokens) < 2:
        return bool(last_tokens)
    return last_tokens[0].type in ("RBRACE", "LBRACE") or last_tokens[1].type in ("ELSE", "COMMA", "SEMICOLON")


def _find_statement_start(tokens: Sequence[Token], at: int) -> int:
    """Back to the start of the statement: over whole brackets, but not out of the braces around it."""
    i = at
    depth = 0
    while i >= 0:
        kind = tokens[i].type
        if i < at and kind in _CLOSE:
            depth += 1
        elif i < at and kind in _OPEN:
            if depth == 0 and kind == "LBRACE":
                return i + 1
            depth = max(0, depth - 1)
        elif depth == 0 and _starts_statement(tokens, i):
            return i
        i -= 1
    return 0


def _starts_statement(tokens: Sequence[Token], i: int) -> bool:
    """Whether a statement seems to start here."""
    if tokens[i].type not in _NAMES:
        return False
    before = tokens[i - 1].type if i else "RBRACE"
    after = tokens[i + 1].type if i + 1 < len(tokens) else ""
    if before in ("COLON", "ASSIGN", "COMMA", "LPAR", "DOLLAR_LPAR", "LSQUARE", "IN", *_KEYWORDS):
        return False
    if tokens[i].type != "IF" and (tokens[i].type in _KEYWORDS or after in _AFTER_NAME):
        return True
    if tokens[i].type == "IF" and before in ("LBRACE", "RBRACE"):
        return True
    source = tokens[i].ctx.source.text
    return i == 0 or "\n" in source[tokens[i - 1].end : tokens[i].start]


def _find_statement_end(tokens: Sequence[Token], at: int, begin: int) -> int:
    """On to the next statement of the same level, or to the brace that closes it."""
    depth = 0
    for i in range(begin, len(tokens)):
        kind = tokens[i].type
        if i > at and depth <= 0 and kind != "IF" and _starts_statement(tokens, i):
            return i
        if kind in _OPEN:
            depth += 1
        elif kind in _CLOSE:
            depth -= 1
            if depth < 0 and i >= at and kind == "RBRACE":
                return i if i > begin else i + 1
    return len(tokens)
