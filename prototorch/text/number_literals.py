"""Numbers of a text: decimal, hexadecimal and octal integers, and floats."""

from __future__ import annotations

from prototorch.text.parse_context import Token


def parse_number(token: Token, most: int) -> int | float | None:
    """The value of a number token; None after an error, which is reported."""
    text = token.value
    try:
        if text.isdigit() and (text[0] != "0" or len(text) == 1):
            value = int(text) if len(text) < 25 else most + 1
        elif text[:2] in ("0x", "0X"):
            value = int(text[2:], 16) if "_" not in text else _raise_value_error()
        elif text.isdigit():
            value = int(text, 8) if len(text) < 30 else most + 1
        else:
            return _parse_float(token)
    except ValueError:
        octal = text.isdigit()
        hint = " After a leading 0 the digits are 0-7 (an octal number)." if octal else ""
        token.ctx.report.add(f"{_abbreviate(text)} is not a number.{hint}", token.span)
        return None
    if value > most:
        token.ctx.report.add(f"The number {_abbreviate(text)} does not fit in 64 bits.", token.span)
        return None
    return value


def _parse_float(token: Token) -> float | None:
    text = token.value
    value = float(text[:-1] if text[-1] in "fF" else text) if "_" not in text else _raise_value_error()
    if value in (float("inf"), float("-inf")) and not token.ctx.is_protobuf:
        token.ctx.report.add(
            f"The number {_abbreviate(text)} is too large for a float; write inf if you mean it.", token.span
        )
        return None
    return value


def _raise_value_error() -> int:
    raise ValueError


def _abbreviate(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."
