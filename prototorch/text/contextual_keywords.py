"""Keywords that are names wherever they could be: ``let``, ``assert``, ``from``, ``for``.

Texts whose params, arguments, blocks and fields bear such names stay valid.
"""

from __future__ import annotations

import re
from typing import Protocol

__all__ = ["CONTEXTUAL", "NOT_BEFORE_STATEMENT", "is_keyword"]

#: the terminals
CONTEXTUAL = frozenset(("LET", "ASSERT", "FROM", "FOR"))
#: the tokens before which no statement ends
NOT_BEFORE_STATEMENT = frozenset(
    ("PARAM", "REPEAT", "IN", "IF", "BLOCK", "HEADER_NAME", "INCLUDE", "COLON", "ASSIGN", "LET", "ASSERT")
)
_OPERANDS = frozenset(("NAME", "NUMBER", "STRING", "RPAR", "RSQUARE", "DOLLAR_NAME"))  # the ends of operands
_OPERAND_FOLLOWS = re.compile(r"[ \t]*+[\w$(\"']").match


class Surroundings(Protocol):
    """Where a token stands."""

    in_expression: bool
    is_picking: bool  # whether the names of `include a, b from` are being read

    @property
    def in_body(self) -> bool:
        """Whether statements stand here."""


def is_keyword(kind: str, text: str, stop: int, end: int, before: str, stack: Surroundings) -> bool:
    """Whether a word that ends at ``stop`` is the keyword ``kind`` here; ``before`` is the type of the last token."""
    if kind == "FOR":
        return stack.in_expression and before in _OPERANDS
    if kind == "FROM":
        return stack.is_picking and before == "NAME"
    return stack.in_body and before not in NOT_BEFORE_STATEMENT and bool(_OPERAND_FOLLOWS(text, stop, end))
