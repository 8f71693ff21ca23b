"""What a misspelt or shortened name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

from prototorch.errors import did_you_mean


def suggest(name: str, names: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string: an abbreviation, a name with all its words, else the nearest one.

    ``lr`` is ``learning_rate``, ``kernel`` is ``kernel_size``, ``pad`` is ``padding``, ``sparse_crossentropy`` is
    ``sparse_categorical_crossentropy``.
    """
    words = list(names)
    beginning = [word for word in words if len(name) > 2 and word.startswith(name)]
    if len(beginning) == 1:
        return f" Did you mean {beginning[0]!r}?"
    for word in words if len(name) > 1 else ():
        if word.startswith(name + "_") or ("_" in word and name == "".join(part[:1] for part in word.split("_"))):
            return f" Did you mean {word!r}?"
    parts = set(name.split("_"))
    for word in words if len(parts) > 1 else ():
        if parts <= set(word.split("_")):
            return f" Did you mean {word!r}?"
    return did_you_mean(name, words)


def describe_foreign_name(meaning: str | None, names: Iterable[str]) -> str:
    """The hint for a name of another framework: `` Did you mean 'x'?`` for a name of ours, a sentence as it is."""
    if meaning is None:
        return ""
    return f" Did you mean {meaning!r}?" if meaning in names else f" {meaning}"
