"""The lexer: from characters to tokens, with limits on their lengths and the matching of brackets.

The terminals come from the grammar. One regular expression finds all tokens; comments are collected beside them; errors
are reported and lexing continues.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from prototorch.base.confusables import INVISIBLE, describe_character, skeleton
from prototorch.text import limits
from prototorch.text.brackets import BRACKETS, BracketStack
from prototorch.text.contextual_keywords import CONTEXTUAL, NOT_BEFORE_STATEMENT, is_keyword
from prototorch.text.parse_context import ParseAborted, ParseContext, Token

_PAIRS = {"{": "}", "[": "]", "(": ")", "$(": ")", "<": ">"}
_CLOSERS = {"}", "]", ")", ">"}
_PLAIN_SYMBOLS = {
    "COLON",
    "COMMA",
    "SEMICOLON",
    "PLUS",
    "MINUS",
    "STAR",
    "STARS",
    "PERCENT",
}  # no brackets, no mistakes
_BRACKETS = {*"{}[]()"}
_BEFORE_VALUES = {"COLON", "LSQUARE", "COMMA", "INCLUDE", "FROM"}
_UNQUOTED_BEGINS = ("NAME", "SYMBOL", None)  # what a string without quotes may seem to begin with
EQUALS_SIGN = "A field is written with ':', not with '='."
INVALID_TOKEN = "ODD"  # the type of a token that no rule accepts; its error is in the report
_QUOTES = "“”„‘’‚«»`´"
_LENGTH_LIMITS = {
    "NAME": (limits.MAX_NAME_LENGTH, "name"),
    "DOLLAR_NAME": (limits.MAX_NAME_LENGTH, "name"),
    "NUMBER": (limits.MAX_NUMBER_LENGTH, "number"),
    "STRING": (limits.MAX_STRING_LENGTH, "string"),
}
_SPACE = r"[ \t\r\n]*+"
_SPACES = re.compile(_SPACE).match
_COMMENT = r"\#[^\n]*+"
_FOREIGN_COMMENTS = {"//": "\n", "/*": "*/", "<!--": "-->"}  # comments of other languages: where each ends
_MAX_REPORTED = 20
_UNQUOTED = re.compile(  # a string without its quotes
    r"(?!//)(?:[A-Za-z]:\\|[a-z][a-z0-9]*://|[A-Za-z_~]|\.{0,2}/)[^\s,;:{}\[\]()<>\"'#$*+=%!]*"
)
_NAME_FOLLOWS = re.compile(rf"(?:[ \t\r\n]++|{_COMMENT})*+[^\W\d]").match
_PATH_MARKS = frozenset("/\\~.")


class Lexer:
    """Tokens of the model language. ``terminals``: (name, pattern, is it a regular expression)."""

    def __init__(self, terminals: Iterable[tuple[str, str, bool]]):
        patterns: list[str] = []
        symbols: dict[str, str] = {}
        self.keywords: dict[str, str] = {}
        for name, pattern, is_regex in terminals:
            if is_regex:
                patterns.append(f"(?P<{name}>{pattern})")
            elif pattern.isidentifier():
                self.keywords[pattern] = name
            else:
                symbols[pattern] = name
        self.symbols = symbols
        pattern_of_symbols = "|".join(re.escape(p) for p in sorted(symbols, key=len, reverse=True))
        patterns.append(f"(?P<COMMENT>{_COMMENT})|(?P<SYMBOL>{pattern_of_symbols})")
        self._match = re.compile(f"{_SPACE}(?:{'|'.join(patterns)})").match

    def tokens(self, ctx: ParseContext, start: int = 0, end: int | None = None) -> Iterator[Token]:
        """The tokens of a part of the source. Errors are reported; raises ParseAborted if brackets do not match."""
        text = ctx.source.text
        end = len(text) if end is None else end
        match, keywords, symbols, intern = self._match, self.keywords, self.symbols, sys.intern
        is_ascii = text.isascii()
        ctx.comments.clear()
        balance = BracketStack(ctx)
        balance.in_expression = start > 0  # a part of a text is the inside of ${...}
        before, earlier = "", ""  # the type of the token before; HEADER_NAME for the name of a block that is defined
        at = start
        while at < end:
            m = match(text, at, end)
            if m is None:
                kind, value = None, ""
                at = _SPACES(text, at, end).end()  # type: ignore[union-attr]
                if at == end:
                    break
            else:
                kind, value = m.lastgroup, m[m.lastgroup]  # type: ignore[index]
                stop = m.end()
                at = stop - len(value)
            if before in _BEFORE_VALUES and kind in _UNQUOTED_BEGINS and not balance.in_expression:
                unquoted_end = self._unquoted_end(text, at, end, m)
                if unquoted_end:
                    yield self._unquoted_string(ctx, at, unquoted_end, before)
                    before, at = "STRING", unquoted_end
                    continue
            if kind == "NAME":
                if len(value) > limits.MAX_NAME_LENGTH:
                    self._refuse_length(ctx, "NAME", at, stop)
                if not is_ascii:
                    if text[stop : stop + 1] in INVISIBLE and stop < end:
                        value, stop = self._join_name(ctx, text, at, end)
                    if not value.isascii():
                        value = self._latin_name(ctx, value, at, stop)
                value = intern(value)
                kind = keywords.get(value, "NAME")
                if kind in CONTEXTUAL and not is_keyword(kind, text, stop, end, before, balance):
                    kind = "NAME"
                balance.is_picking = kind == "INCLUDE" or (balance.is_picking and kind == "NAME")
                earlier = before
                before = "HEADER_NAME" if before == "BLOCK" else kind
                yield Token(kind, value, at, stop, ctx)
            elif kind == "SYMBOL":
                kind = symbols[value]
                if kind in _PLAIN_SYMBOLS:
                    before = kind
                    yield Token(kind, value, at, stop, ctx)
                elif value == "=" and balance.open_brackets and balance.open_brackets[-1][0] == "$(":
                    ctx.report.add("A comparison is written with '==', not with '='.", ctx.span(at, stop))
                    before = "EQUAL"
                    yield Token(before, "==", at, stop, ctx)
                elif value == "=":
                    names_output = before == "NAME" and earlier not in NOT_BEFORE_STATEMENT and balance.in_body
                    token = self._equals_sign(ctx, at, names_output and bool(_NAME_FOLLOWS(text, stop, end)))
                    before = token.type
                    yield token
                else:
                    if value in ("//", "/", "<") and not balance.in_expression:
                        after = self._skip_foreign_comment(ctx, text, at, end)
                        if after != at:
                            balance.has_skipped_text = balance.has_skipped_text or bool(BRACKETS & {*text[at:after]})
                            at = after
                            continue
                    fits = balance.step(value, at, before)
                    if fits or value == ">":
                        before = kind if fits else INVALID_TOKEN
                        yield Token(before, value, at, stop, ctx)
            elif kind is None:
                substitute = self._substitute(ctx, text, at, end)
                if substitute:
                    text = text[:at] + substitute + text[at + len(substitute) :]
                    continue
                invalid, at = self._read_invalid(ctx, at, end)
                balance.has_skipped_text = balance.has_skipped_text or invalid.type == "STRING"
                before = invalid.type
                yield invalid
                continue
            elif kind == "COMMENT":
                ctx.comments.append((at, stop))
            else:
                before, balance.is_picking = kind, False
                if len(value) > _LENGTH_LIMITS[kind][0]:
                    self._refuse_length(ctx, kind, at, stop)
                yield Token(kind, intern(value) if kind == "NUMBER" else value, at, stop, ctx)
            at = stop
        balance.end()

    @staticmethod
    def _equals_sign(ctx: ParseContext, at: int, names_output: bool) -> Token:
        """``=`` between the name of an output and a layer; anywhere else it is reported, and meant for ``:``."""
        if names_output:
            return Token("ASSIGN", "=", at, at + 1, ctx)
        ctx.report.add(EQUALS_SIGN, ctx.span(at, at + 1))
        return Token("COLON", ":", at, at + 1, ctx)

    @staticmethod
    def _line_end(text: str, at: int, end: int) -> int:
        stop = text.find("\n", at, end)
        return end if stop < 0 else stop

    @staticmethod
    def _unquoted_end(text: str, at: int, end: int, m: re.Match[str] | None) -> int:
        """The end of a string that lacks its quotes (``a-b``, ``data/train.csv``) at a value's place; or 0."""
        run = _UNQUOTED.match(text, at, end)
        is_word = run is None or (m is not None and m.lastgroup == "NAME" and run.end() == m.end())
        if is_word or run is None or not any(c in "-/\\~." for c in run.group()):
            return 0
        return run.end()

    @staticmethod
    def _unquoted_string(ctx: ParseContext, at: int, stop: int, before: str) -> Token:
        """Report a string without quotes; the string."""
        run = ctx.source.text[at:stop]
        escaped = run.replace("\\", "\\\\")
        what = "A path" if _PATH_MARKS & {*run} else "A value with '-'"
        arithmetic = f", arithmetic inside $( ): $({run})" if re.fullmatch(r"\w+-[\d.]+", run) else ""
        message = f'{what} is written in quotes: "{escaped}"{arithmetic}.'
        if before in ("INCLUDE", "FROM"):
            message = f'The file of an include is written in quotes: include "{escaped}".'
        ctx.report.add(message, ctx.span(at, stop), is_provisional=before not in ("INCLUDE", "FROM"))
        return Token("STRING", f'"{escaped}"', at, stop, ctx)

    def _skip_foreign_comment(self, ctx: ParseContext, text: str, at: int, end: int) -> int:
        """Report a comment of another language; where it ends, or ``at`` if there is none."""
        for opener, closer in _FOREIGN_COMMENTS.items():
            if text.startswith(opener, at):
                ctx.report.add(f"A comment starts with '#', not with '{opener}'.", ctx.span(at, at + len(opener)))
                stop = text.find(closer, at + len(opener), end)
                if stop < 0:
                    return end if closer == "\n" else self._line_end(text, at, end)
                return stop if closer == "\n" else stop + len(closer)
        return at

    def _join_name(self, ctx: ParseContext, text: str, at: int, end: int) -> tuple[str, int]:
        """The name that starts at ``at`` without the invisible characters in it, which are reported; and its end."""
        stop, parts = at, []
        while stop < end and (text[stop] in INVISIBLE or text[stop].isalnum() or text[stop] == "_"):
            if text[stop] in INVISIBLE:
                ctx.report.add(_invisible_message(text[stop]), ctx.span(stop, stop + 1))
            else:
                parts.append(text[stop])
            stop += 1
        return "".join(parts), stop

    @staticmethod
    def _latin_name(ctx: ParseContext, value: str, at: int, stop: int) -> str:
        """Report a name with other letters than a-z; the name in Latin letters, where they are only look-alikes."""
        latin = skeleton(value)
        if not latin.isascii():
            ctx.report.add("Names are made of the letters a-z, A-Z, digits and '_'.", ctx.span(at, stop))
            return value
        odd = next(c for c in value if not c.isascii())
        offset = ctx.source.text.find(odd, at)
        ctx.report.add(
            f"{value!r} contains the {describe_character(odd)}, which looks like {skeleton(odd)!r}. Write {latin}.",
            ctx.span(offset, offset + 1),
        )
        return latin

    @staticmethod
    def _substitute(ctx: ParseContext, text: str, at: int, end: int) -> str:
        """Report characters that look like ASCII, or that are not seen; the ASCII characters in their place, or ""."""
        stop = at
        while stop < end and not text[stop].isascii() and (text[stop] in INVISIBLE or skeleton(text[stop]).isascii()):
            stop += 1
        if stop == at:
            return ""
        odd, plain = text[at], skeleton(text[at])
        if odd in INVISIBLE:
            message = _invisible_message(odd)
        else:
            message = f"This is {describe_character(odd)}. Write {'a space' if plain == ' ' else repr(plain)}."
        ctx.report.add(message, ctx.span(at, stop))
        if len(ctx.report) > _MAX_REPORTED:
            raise ParseAborted
        return "".join(" " if c in INVISIBLE else skeleton(c) for c in text[at:stop])

    @staticmethod
    def _refuse_length(ctx: ParseContext, kind: str, at: int, stop: int) -> None:
        """Report a token that is too long."""
        most, word = _LENGTH_LIMITS[kind]
        ctx.report.add(f"This {word} has {stop - at} characters; the limit is {most}.", ctx.span(at, stop))
        raise ParseAborted

    def _read_invalid(self, ctx: ParseContext, at: int, end: int) -> tuple[Token, int]:
        """Report a character that starts no token; a substitute token, and the offset to continue at."""
        text = ctx.source.text
        c = text[at]
        stop = at + 1
        token = Token(INVALID_TOKEN, c, at, stop, ctx)
        if c in "\"'":
            stop = self._line_end(text, at, end)
            ctx.report.add(f"This string has no closing {c} on its line.", ctx.span(at, at + 1))
            token = Token("STRING", c + c, at, stop, ctx)
        elif c == "=":
            token = Lexer._equals_sign(ctx, at, False)
        elif c == "$":
            message = "Expected a name or an expression in parentheses after '$': $name or $(a + b)."
            ctx.report.add(message, ctx.span(at, stop))
        elif c in _QUOTES:
            line_end = self._line_end(text, at, end)
            close = min((i for q in _QUOTES if (i := text.find(q, stop, line_end)) > 0), default=at)
            ctx.report.add("Strings are written in straight quotes: \" or '.", ctx.span(at, close + 1))
            stop = close + 1
            token = Token("STRING", f'"{text[at + 1 : close]}"', at, stop, ctx) if close > at else token
        elif c == ".":
            message = "'.' is allowed only in numbers; a string that contains it needs quotes."
            ctx.report.add(message, ctx.span(at, stop))
        else:
            shown_character = repr(c) if c.isprintable() and c.isascii() else f"U+{ord(c):04X}"
            ctx.report.add(f"The character {shown_character} has no meaning here.", ctx.span(at, stop))
        if len(ctx.report) > _MAX_REPORTED:
            raise ParseAborted
        return token, stop


def _invisible_message(character: str) -> str:
    return f"An invisible character, {describe_character(character)}, is here. Delete it."
