"""The open brackets of a text: their matching, their nesting, and whether an expression stands in them."""

from __future__ import annotations

from prototorch.text import limits
from prototorch.text.parse_context import ParseAborted, ParseContext

__all__ = ["BRACKETS", "BracketStack"]

BRACKETS = {*"{}[]()"}
_PAIRS = {"{": "}", "[": "]", "(": ")", "$(": ")", "<": ">"}
_CLOSERS = {"}", "]", ")", ">"}


class BracketStack:
    """The open brackets. Nesting beyond the limit is rejected here, before the parser recurses into it."""

    def __init__(self, ctx: ParseContext):
        self.ctx = ctx
        self.open_brackets: list[tuple[str, int, bool]] = []  # bracket, offset, whether it holds an expression
        self.closed_braces: list[tuple[int, int]] = []  # offsets of the braces of each pair
        self.in_expression = False
        self.has_calls = not ctx.is_protobuf
        self.is_picking = False  # whether the names of `include a, b from` are being read
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
