"""The lexer: from characters to tokens, with limits on their lengths and the matching of brackets.

The terminals come from the grammar. One regular expression finds all tokens; comments are collected beside them; errors
are reported and lexing continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prototorch.base.confusables import INVISIBLE, describe_character, skeleton
from prototorch.text import limits
from prototorch.text.diagnostics import Report
from prototorch.text.source import Source, Span

_PAIRS = {"{": "}", "[": "]", "(": ")", "$(": ")", "<": ">"}
_CLOSERS = {"}", "]", ")", ">"}
_BRACKETS = {*"{}[]()"}
_BEFORE_VALUES = {"COLON", "LSQUARE", "COMMA"}
EQUALS_SIGN = "A field is written with ':', not with '='."
INVALID_TOKEN = "ODD"  # the type of a token that no rule accepts; its error is in the report
_QUOTES = "“”„‘’‚«»`´"
_LENGTH_LIMITS = {
    "NAME": (limits.MAX_NAME_LENGTH, "name"),
    "DOLLAR_NAME": (limits.MAX_NAME_LENGTH, "name"),
    "NUMBER": (limits.MAX_NUMBER_LENGTH, "number"),
    "STRING": (limits.MAX_STRING_LENGTH, "string"),
}
_SPACE = r"[ \t\r\n]++"
_COMMENT = r"\#[^\n]*+"
_FOREIGN_COMMENTS = {"//": "\n", "/*": "*/", "<!--": "-->"}  # comments of other languages: where each ends
_MAX_REPORTED = 20
_UNQUOTED = re.compile(  # a string without its quotes
    r"(?!//)(?:[A-Za-z]:\\|[a-z][a-z0-9]*://|[A-Za-z_~]|\.{0,2}/)[^\s,;:{}\[\]()<>\"'#$*+=%!]*"
)
_NOT_BEFORE_OUTPUT = {"PARAM", "REPEAT", "IN", "IF", "BLOCK", "HEADER_NAME", "INCLUDE", "COLON", "ASSIGN"}
_NAME_FOLLOWS = re.compile(rf"(?:{_SPACE}|{_COMMENT})*+[^\W\d]").match
_PATH_MARKS = frozenset("/\\~.")


class ParseContext:
    """The state of parsing one text: its source, its report, and the offsets (start, end) of its comments.

    is_protobuf: whether strings and numbers are those of protobuf's text format only: ``${...}`` has no meaning, and
    infinity has more spellings. has_calls: whether a call or a bare name has been read.
    """

    __slots__ = ("comments", "has_calls", "is_protobuf", "report", "source")

    def __init__(self, source: Source, report: Report, is_protobuf: bool = False):
        self.source = source
        self.report = report
        self.is_protobuf = is_protobuf
        self.comments: list[tuple[int, int]] = []
        self.has_calls = False

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)


class Token:
    """A token. lark uses ``type``, the tree builder the rest."""

    __slots__ = ("ctx", "end", "start", "type", "value")

    def __init__(self, type: str, value: str, start: int, end: int, ctx: ParseContext):
        self.type = type
        self.value = value
        self.start = start
        self.end = end
        self.ctx = ctx

    @property
    def span(self) -> Span:
        return Span(self.ctx.source, self.start, self.end)


class ParseAborted(Exception):
    """The text cannot be parsed any further; the report has the error."""


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
        patterns.insert(0, f"(?P<SPACE>{_SPACE})|(?P<COMMENT>{_COMMENT})")
        self._match = re.compile("|".join([*patterns, f"(?P<SYMBOL>{pattern_of_symbols})"])).match

    def tokens(self, ctx: ParseContext, start: int = 0, end: int | None = None) -> Iterator[Token]:
        """The tokens of a part of the source. Errors are reported; raises ParseAborted if brackets do not match."""
        text = ctx.source.text
        end = len(text) if end is None else end
        match, keywords, symbols = self._match, self.keywords, self.symbols
        ctx.comments.clear()
        balance = BracketStack(ctx)
        balance.in_expression = start > 0  # a part of a text is the inside of ${...}
        before, earlier = "", ""  # the type of the token before; HEADER_NAME for the name of a block that is defined
        at = start
        while at < end:
            m = match(text, at, end)
            if before in _BEFORE_VALUES and (stop := self._unquoted_end(text, at, end, m, balance)):
                yield self._unquoted_string(ctx, at, stop)
                before, at = "STRING", stop
                continue
            if m is None:
                substitute = self._substitute(ctx, text, at, end)
                if substitute:
                    text = text[:at] + substitute + text[at + len(substitute) :]
                    continue
                invalid, at = self._read_invalid(ctx, at, end)
                balance.has_skipped_text = balance.has_skipped_text or invalid.type == "STRING"
                before = invalid.type
                yield invalid
                continue
            kind, stop = m.lastgroup, m.end()
            if kind == "NAME":
                value = m.group()
                self._limit(ctx, "NAME", at, stop)
                if text[stop : stop + 1] in INVISIBLE and stop < end:
                    value, stop = self._join_name(ctx, text, at, end)
                if not value.isascii():
                    value = self._latin_name(ctx, value, at, stop)
                kind = keywords.get(value, "NAME")
                earlier = before
                before = "HEADER_NAME" if before == "BLOCK" else kind
                yield Token(kind, value, at, stop, ctx)
            elif kind == "SYMBOL":
                value = m.group()
                if value in ("//", "/", "<") and not balance.in_expression:
                    after = self._skip_foreign_comment(ctx, text, at, end)
                    if after != at:
                        balance.has_skipped_text = balance.has_skipped_text or bool(_BRACKETS & {*text[at:after]})
                        at = after
                        continue
                if value == "=":
                    names_output = before == "NAME" and earlier not in _NOT_BEFORE_OUTPUT and balance.in_body
                    token = self._equals_sign(ctx, at, names_output and bool(_NAME_FOLLOWS(text, stop, end)))
                    before, at = token.type, stop
                    yield token
                    continue
                fits = balance.step(value, at, before)
                if fits or value == ">":
                    before = symbols[value] if fits else INVALID_TOKEN
                    yield Token(before, value, at, stop, ctx)
            elif kind == "COMMENT":
                ctx.comments.append((at, stop))
            elif kind != "SPACE":
                before = str(kind)
                self._limit(ctx, before, at, stop)
                yield Token(before, m.group(), at, stop, ctx)
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
    def _unquoted_end(text: str, at: int, end: int, m: re.Match[str] | None, balance: BracketStack) -> int:
        """The end of a string that lacks its quotes (``a-b``, ``data/train.csv``) at a value's place; or 0."""
        if balance.in_expression or (m is not None and m.lastgroup not in ("NAME", "SYMBOL")):
            return 0
        run = _UNQUOTED.match(text, at, end)
        is_word = run is None or (m is not None and m.lastgroup == "NAME" and run.end() == m.end())
        if is_word or run is None or not any(c in "-/\\~." for c in run.group()):
            return 0
        return run.end()

    @staticmethod
    def _unquoted_string(ctx: ParseContext, at: int, stop: int) -> Token:
        """Report a string without quotes; the string."""
        run = ctx.source.text[at:stop]
        escaped = run.replace("\\", "\\\\")
        what = "A path" if _PATH_MARKS & {*run} else "A value with '-'"
        arithmetic = f", arithmetic inside $( ): $({run})" if re.fullmatch(r"\w+-[\d.]+", run) else ""
        message = f'{what} is written in quotes: "{escaped}"{arithmetic}.'
        ctx.report.add(message, ctx.span(at, stop), is_provisional=True)
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
    def _limit(ctx: ParseContext, kind: str, at: int, stop: int) -> None:
        """Reject a token that is too long."""
        most, word = _LENGTH_LIMITS.get(kind, (stop, ""))
        if stop - at > most:
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


class BracketStack:
    """The open brackets. Nesting beyond the limit is rejected here, before the parser recurses into it."""

    def __init__(self, ctx: ParseContext):
        self.ctx = ctx
        self.open_brackets: list[tuple[str, int, bool]] = []  # bracket, offset, whether it holds an expression
        self.closed_braces: list[tuple[int, int]] = []  # offsets of the braces of each pair
        self.in_expression = False
        self.has_calls = not ctx.is_protobuf
        self.has_skipped_text = False  # a string without its end, or a foreign comment, may have swallowed brackets

    @property
    def in_body(self) -> bool:
        """Whether statements stand here: in braces, or in none."""
        return not self.in_expression and (not self.open_brackets or self.open_brackets[-1][0] in "{<")

    def step(self, value: str, at: int, before: str) -> bool:
        """Process a symbol; False for an unmatched closing bracket, which is skipped."""
        if value in "<>" and self.in_expression:
            return True
        if value in _PAIRS:
            self.open_brackets.append((value, at, self.in_expression))
            opens = value == "$(" or (
                value == "(" and (before == "DOLLAR_NAME" or (before == "NAME" and self.has_calls))
            )
            self.in_expression = self.in_expression or opens
            if len(self.open_brackets) > limits.MAX_NESTING:
                self._say(f"This is nested deeper than {limits.MAX_NESTING} levels.", at)
                raise ParseAborted
        elif value in _CLOSERS:
            return self._close(value, at)
        return True

    def _close(self, value: str, at: int) -> bool:
        if not self.open_brackets:
            hint = " A comparison must be inside $( ): $(a > b)." if value == ">" else self._hint()
            self._say(f"This '{value}' closes nothing.{hint}", at)
            return False
        opener, where, self.in_expression = self.open_brackets.pop()
        if _PAIRS[opener] != value:
            if opener == "<":
                self._say("This '<' is never closed by '>'. A comparison must be inside $( ): $(a < b).", where)
            elif any(_PAIRS[other] == value for other, _, _ in self.open_brackets):
                line, column = self.ctx.source.position(at)
                self._say(f"This '{opener}' is not closed before the '{value}' of line {line}, column {column}.", where)
            else:
                line, column = self.ctx.source.position(where)
                self._say(f"This '{value}' cannot close the '{opener}' of line {line}, column {column}.", at)
            raise ParseAborted
        if opener == "{":
            self.closed_braces.append((where, at))
        return True

    def end(self) -> None:
        """Report brackets that are open at the end of the text."""
        if self.open_brackets:
            opener, where, _ = self.open_brackets[-1]
            suspect = self._suspect() if opener == "{" else None
            self._say(f"This '{opener}' is never closed.", where if suspect is None else suspect)
            raise ParseAborted

    def _suspect(self) -> int | None:
        """The first '{' whose '}' begins another line at another indentation."""
        position, text = self.ctx.source.position, self.ctx.source.text
        for opener, closer in sorted(self.closed_braces)[:10_000]:
            (line, column), (last, indent) = position(opener), position(closer)
            if line != last and indent <= 200 and column <= 1000 and not text[closer - indent + 1 : closer].strip():
                begin = text[opener - column + 1 : opener]
                if len(begin) - len(begin.lstrip()) != indent - 1:
                    return opener
        return None

    def _hint(self) -> str:
        suspect = self._suspect()
        return "" if suspect is None else f" The '{{' of line {self.ctx.source.position(suspect)[0]} may lack its own."

    def _say(self, message: str, at: int) -> None:
        if self.has_skipped_text:
            raise ParseAborted
        self.ctx.report.add(message, self.ctx.span(at, at + 1))
