"""Texts as the words that they are made of: one rule for tokenizers and for columns of texts."""

from __future__ import annotations

import string

__all__ = ["split_words"]

_STRIPPED = str.maketrans("", "", string.punctuation)


def split_words(
    text: str, standardize: str | None = "lower_and_strip_punctuation", split: str | None = "whitespace"
) -> list[str]:
    """The words of a text, as Keras' ``TextVectorization`` has them.

    standardize: ``lower``, ``strip_punctuation``, ``lower_and_strip_punctuation``, or None. split: ``whitespace``,
    ``character``, or None: the whole text is one.
    """
    if standardize in ("lower", "lower_and_strip_punctuation"):
        text = text.lower()
    if standardize in ("strip_punctuation", "lower_and_strip_punctuation"):
        text = text.translate(_STRIPPED)
    if split is None:
        return [text]
    return text.split() if split == "whitespace" else list(text)
