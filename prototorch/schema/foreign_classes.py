"""What is written for a class of another library, or of tensors, where a member of a family is expected."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["foreign_class_hint"]


def foreign_class_hint(root: Any, foreign: type) -> str:
    """Where a class comes from that is no member of the family with this root, and what is written for it
    here: for PyTorch's MSELoss as a loss our class of that meaning, called as in a program. "" for a class that is
    no module and bears no name of the root's."""
    if not any(base.__name__ in (root.__name__, "Module") for base in foreign.__mro__):
        return ""
    origin = f"another library ({foreign.__module__})"
    if foreign.__module__.startswith("prototorch."):
        origin = f"pt.{foreign.__module__.split('.')[1]}, whose objects work on tensors, in loops of your own"
    roots = [one for one in (root, root.adopted_root) if one is not None]
    ways = (_python_spelling(one.family_registry, foreign.__name__) for one in roots)
    way = next((way for way in ways if way), f"take one of {_namespace(root.family_registry)}")
    return f" It belongs to {origin}: {way}."


def _namespace(family: Any) -> str:
    return f"pt.{'losses' if family.name == 'loss' else family.name + 's'}"


def _python_spelling(family: Any, foreign_name: str) -> str:
    """How a program writes what another framework calls so; "" if unknown."""
    meaning = family.foreign_meaning(foreign_name) or ""
    word = re.match(r"Write (\w+)( \{ from_logits: true \})?\.$", meaning)
    cls = family.find(foreign_name) if word is None else family.find(word[1])
    if cls is None:
        return ""
    return f"write {_namespace(family)}.{cls.__name__}({'from_logits=True' if word and word[2] else ''})"
