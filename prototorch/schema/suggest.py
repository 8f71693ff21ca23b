"""What a misspelt or shortened name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

from prototorch.errors import did_you_mean


def suggest(name: str, names: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string: an abbreviation, a name with all its words, else the nearest one.

    ``lr`` is ``learning_rate``, ``kernel`` is ``kernel_size``, ``sparse_crossentropy`` is
    ``sparse_categorical_crossentropy``.
    """
    words = list(names)
    for word in words if len(name) > 1 else ():
        if word.startswith(name + "_") or ("_" in word and name == "".join(part[:1] for part in word.split("_"))):
            return f" Did you mean {word!r}?"
    parts = set(name.split("_"))
    for word in words if len(parts) > 1 else ():
        if parts < set(word.split("_")):
            return f" Did you mean {word!r}?"
    return did_you_mean(name, words)
