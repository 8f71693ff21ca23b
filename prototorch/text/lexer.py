"""From characters to tokens, with the limits and the balance of brackets.

The terminals come from the grammar; the loop is our own: one regular expression, each limit checked where the token is
made, comments kept aside, and every mistake noted while lexing goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prototorch.text import limits
from prototorch.text.diagnostics import Report
from prototorch.text.source import Source, Span

_PAIRS = {"{": "}", "[": "]", "(": ")", "$(": ")", "<": ">"}
_CLOSERS = {"}", "]", ")", ">"}
INVALID_TOKEN = "ODD"  # the type of a token that no grammar knows; what is wrong with it is in the report
_QUOTES = "“”„‘’‚«»`´"
_LENGTH_LIMITS = {
    "NAME": (limits.MAX_NAME_LENGTH, "name"),
    "DOLLAR_NAME": (limits.MAX_NAME_LENGTH, "name"),
    "NUMBER": (limits.MAX_NUMBER_LENGTH, "number"),
    "STRING": (limits.MAX_STRING_LENGTH, "string"),
}
_SPACE = r"[ \t\r\n]++"
_COMMENT = r"\#[^\n]*+"


class ParseContext:
    """One text on its way: its source, its report, and the comments found (start, end)."""

    __slots__ = ("comments", "report", "source")

    def __init__(self, source: Source, report: Report):
        self.source = source
        self.report = report
        self.comments: list[tuple[int, int]] = []

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)


class Token:
    """A token: lark reads ``type``, the tree builder the rest."""

    __slots__ = ("end", "job", "start", "type", "value")

    def __init__(self, type: str, value: str, start: int, end: int, job: ParseContext):
        self.type = type
        self.value = value
        self.start = start
        self.end = end
        self.job = job

    @property
    def span(self) -> Span:
        return Span(self.job.source, self.start, self.end)


class ParseAborted(Exception):
    """The text cannot be read any further; the report says why."""


class Lexer:
    """Tokens of the model language. ``terminals``: (name, pattern, is it a regular expression)."""

    def __init__(self, terminals: Iterable[tuple[str, str, bool]]):
        patterns: list[str] = []
        fixed: dict[str, str] = {}
        self.keywords: dict[str, str] = {}
        for name, pattern, is_regex in terminals:
            if is_regex:
                patterns.append(f"(?P<{name}>{pattern})")
            elif pattern.isidentifier():
                self.keywords[pattern] = name
            else:
                fixed[pattern] = name
        self.fixed = fixed
        symbols = "|".join(re.escape(p) for p in sorted(fixed, key=len, reverse=True))
        patterns.insert(0, f"(?P<SPACE>{_SPACE})|(?P<COMMENT>{_COMMENT})")
        self._match = re.compile("|".join([*patterns, f"(?P<SYMBOL>{symbols})"])).match

    def tokens(self, job: ParseContext, start: int = 0, end: int | None = None) -> Iterator[Token]:
        """The tokens of a part of the source. Mistakes go to the report; raises Broken where brackets do not match."""
        text = job.source.text
        end = len(text) if end is None else end
        match, keywords, fixed = self._match, self.keywords, self.fixed
        job.comments.clear()
        balance = BracketStack(job)
        balance.in_expression = start > 0  # a part of a text is the inside of ${...}
        before = ""  # the type of the token before
        at = start
        while at < end:
            m = match(text, at, end)
            if m is None:
                odd, at = self._odd(job, at, end)
                balance.has_unterminated_string = balance.has_unterminated_string or odd.type == "STRING"
                before = odd.type
                yield odd
                continue
            kind, stop = m.lastgroup, m.end()
            if kind == "NAME":
                value = m.group()
                self._limit(job, "NAME", at, stop)
                if not value.isascii():
                    job.report.add("Names are made of the letters a-z, A-Z, digits and '_'.", job.span(at, stop))
                before = keywords.get(value, "NAME")
                yield Token(before, value, at, stop, job)
            elif kind == "SYMBOL":
                value = m.group()
                if value == "//" and not balance.in_expression:
                    job.report.add("A comment starts with '#', not with '//'.", job.span(at, stop))
                    at = self._line_end(text, at, end)
                    continue
                fits = balance.step(value, at, before)
                if fits or value == ">":
                    before = fixed[value] if fits else INVALID_TOKEN
                    yield Token(before, value, at, stop, job)
            elif kind == "COMMENT":
                job.comments.append((at, stop))
            elif kind != "SPACE":
                before = str(kind)
                self._limit(job, before, at, stop)
                yield Token(before, m.group(), at, stop, job)
            at = stop
        balance.end()

    @staticmethod
    def _line_end(text: str, at: int, end: int) -> int:
        stop = text.find("\n", at, end)
        return end if stop < 0 else stop

    @staticmethod
    def _limit(job: ParseContext, kind: str, at: int, stop: int) -> None:
        """Refuse a token that is too long."""
        most, word = _LENGTH_LIMITS.get(kind, (stop, ""))
        if stop - at > most:
            job.report.add(f"This {word} has {stop - at} characters; the limit is {most}.", job.span(at, stop))
            raise ParseAborted

    def _odd(self, job: ParseContext, at: int, end: int) -> tuple[Token, int]:
        """A character that starts no token: say what is wrong; a token to put in its place, and where to go on."""
        text = job.source.text
        c = text[at]
        stop = at + 1
        token = Token(INVALID_TOKEN, c, at, stop, job)
        if c in "\"'":
            stop = self._line_end(text, at, end)
            job.report.add(f"This string has no closing {c} on its line.", job.span(at, at + 1))
            token = Token("STRING", c + c, at, stop, job)
        elif c == "=":
            job.report.add("A field is written with ':', not with '='.", job.span(at, stop))
            token = Token("COLON", ":", at, stop, job)
        elif c == "$":
            message = "Expected a name or an expression in parentheses after '$': $name or $(a + b)."
            job.report.add(message, job.span(at, stop))
        elif c in _QUOTES:
            line_end = self._line_end(text, at, end)
            close = min((i for q in _QUOTES if (i := text.find(q, stop, line_end)) > 0), default=at)
            job.report.add("Strings are written in straight quotes: \" or '.", job.span(at, close + 1))
            stop = close + 1
            token = Token("STRING", f'"{text[at + 1 : close]}"', at, stop, job) if close > at else token
        elif c == ".":
            message = "'.' is allowed only in numbers; a string that contains it needs quotes."
            job.report.add(message, job.span(at, stop))
        else:
            shown = repr(c) if c.isprintable() and c.isascii() else f"U+{ord(c):04X}"
            job.report.add(f"The character {shown} has no meaning here.", job.span(at, stop))
        if len(job.report) > 20:
            raise ParseAborted
        return token, stop


class BracketStack:
    """Which brackets are open; refuses what is nested too deep before anything recurses into it."""

    def __init__(self, job: ParseContext):
        self.job = job
        self.open: list[tuple[str, int, bool]] = []  # bracket, offset, whether it holds an expression
        self.closed: list[tuple[int, int]] = []  # offsets of the braces of each pair
        self.in_expression = False
        self.has_unterminated_string = False  # a string without its end may have swallowed brackets

    def step(self, value: str, at: int, before: str) -> bool:
        """Note a symbol; False where it is a closing bracket too many, which is left out."""
        if value in "<>" and self.in_expression:
            return True
        if value in _PAIRS:
            self.open.append((value, at, self.in_expression))
            self.in_expression = self.in_expression or value == "$(" or (value == "(" and before == "DOLLAR_NAME")
            if len(self.open) > limits.MAX_NESTING:
                self._say(f"This is nested deeper than {limits.MAX_NESTING} levels.", at)
                raise ParseAborted
        elif value in _CLOSERS:
            return self._close(value, at)
        return True

    def _close(self, value: str, at: int) -> bool:
        if not self.open:
            hint = " A comparison must be inside $( ): $(a > b)." if value == ">" else self._hint()
            self._say(f"This '{value}' closes nothing.{hint}", at)
            return False
        opener, where, self.in_expression = self.open.pop()
        if _PAIRS[opener] != value:
            if opener == "<":
                self._say("This '<' is never closed by '>'. A comparison must be inside $( ): $(a < b).", where)
            else:
                line, column = self.job.source.position(where)
                self._say(f"This '{value}' cannot close the '{opener}' of line {line}, column {column}.", at)
            raise ParseAborted
        if opener == "{":
            self.closed.append((where, at))
        return True

    def end(self) -> None:
        """The end of the text: everything must be closed."""
        if self.open:
            opener, where, _ = self.open[-1]
            suspect = self._suspect() if opener == "{" else None
            self._say(f"This '{opener}' is never closed.", where if suspect is None else suspect)
            raise ParseAborted

    def _suspect(self) -> int | None:
        """The first '{' whose '}' stands first on another line at another indentation."""
        position, text = self.job.source.position, self.job.source.text
        for opener, closer in sorted(self.closed)[:10_000]:
            (line, column), (last, indent) = position(opener), position(closer)
            if line != last and indent <= 200 and column <= 1000 and not text[closer - indent + 1 : closer].strip():
                begin = text[opener - column + 1 : opener]
                if len(begin) - len(begin.lstrip()) != indent - 1:
                    return opener
        return None

    def _hint(self) -> str:
        suspect = self._suspect()
        return "" if suspect is None else f" The '{{' of line {self.job.source.position(suspect)[0]} may lack its own."

    def _say(self, message: str, at: int) -> None:
        if self.has_unterminated_string:
            raise ParseAborted
        self.job.report.add(message, self.job.span(at, at + 1))
