"""Characters that look like ASCII and are not: Cyrillic and Greek letters, fullwidth forms, dashes, odd spaces.

"Confusable" and "skeleton" are the terms of Unicode's Technical Standard 39; of its table only what a keyboard or a
word processor puts into a model text is here.
"""

from __future__ import annotations

import unicodedata

__all__ = ["INVISIBLE", "describe_character", "skeleton"]

INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u2060\ufeff")  # soft hyphen, zero-width characters, byte order mark
_CYRILLIC = dict(zip("аеіјкорсѕтухһԁԛԝАВЕЅІЈКМНОРСТУХ", "aeijkopcstyxhdqwABESIJKMHOPCTYX", strict=True))
_GREEK = dict(zip("αικνορτυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aikvoptuABEZHIKMNOPTYX", strict=True))
_PUNCTUATION = {**dict.fromkeys("‐‑‒–—―−", "-"), "×": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "∶": ":", "，": ",",
                "、": ",", "。": "."}  # fmt: skip
_LOOKALIKES = {**_CYRILLIC, **_GREEK, **_PUNCTUATION, "ı": "i", "ɡ": "g"}


def skeleton(text: str) -> str:
    """The text with each look-alike replaced by the ASCII character that it looks like; any other stays."""
    return text if text.isascii() else "".join(map(_ascii_form, text))


def describe_character(character: str) -> str:
    """``Cyrillic 'а' (U+0430)``, ``ZERO WIDTH SPACE (U+200B)``: its script or its name, itself, its code."""
    code, name = f"U+{ord(character):04X}", unicodedata.name(character, "")
    if unicodedata.category(character)[0] in "LN" and name:
        return f"{name.split()[0].capitalize()} {character!r} ({code})"
    return f"{name} ({code})" if name else code


def _ascii_form(character: str) -> str:
    if character in _LOOKALIKES or character.isascii():
        return _LOOKALIKES.get(character, character)
    if unicodedata.category(character) == "Zs":
        return " "
    plain = unicodedata.normalize("NFKC", character)  # fullwidth and mathematical forms
    return plain if len(plain) == 1 and plain.isascii() and plain.isprintable() else character
