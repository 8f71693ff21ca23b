"""Declared rules as a renaming: the file's names become the net's, and the table of the system maps what is below."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from prototorch.errors import UsageError
from prototorch.model.loading.file_layers import Parts, split_name
from prototorch.model.name_rules import MapRule, Rules

__all__ = ["Renaming"]

_WILDCARD = re.compile(r"\*\*|\*|\?")


class Renaming:
    """The renaming that rules declare. used: the rules that have renamed a name. weights: new names of what a rule has
    named to its last part."""

    def __init__(self, rules: Rules | None):
        self.used: set[int] = set()
        self.weights: set[Parts] = set()
        self._rules: Sequence[MapRule] = () if rules is None else rules.map
        self._strip = () if rules is None else tuple(split_name(p.rstrip("./")) for p in rules.strip)
        self._patterns: list[tuple[int, re.Pattern[str], str]] = []
        self._exact: dict[Parts, tuple[int, Parts]] = {}
        for number, rule in enumerate(self._rules):
            for name in (rule.from_, *rule.alias):
                if _WILDCARD.search(name):
                    self._patterns.append((number, _compiled(name), _template(rule, name)))
                else:
                    self._exact.setdefault(split_name(name), (number, split_name(rule.to)))

    @property
    def has_wildcards(self) -> bool:
        """Whether a rule has wildcards, or prefixes are stripped."""
        return bool(self._patterns or self._strip)

    def names(self) -> list[Parts]:
        """The names of the file that rules without wildcards name."""
        return list(self._exact)

    def under(self, prefix: Parts) -> Callable[[Parts], Parts]:
        """The renaming of names below a prefix, which is removed first."""

        def rename(parts: Parts) -> Parts:
            if prefix and parts[: len(prefix)] == prefix:
                parts = parts[len(prefix) :]
            for strip in self._strip:
                if parts[: len(strip)] == strip and len(parts) > len(strip):
                    parts = parts[len(strip) :]
            return self._rename(parts)

        return rename

    def _rename(self, parts: Parts) -> Parts:
        """The first rule whose `from` is the name or the beginning of it; longer beginnings come first."""
        for end in range(len(parts), 0, -1):
            number, new = self._exact.get(parts[:end], (None, ()))
            if number is not None:
                return self._result(number, new, parts[end:])
            for number, pattern, template in self._patterns:
                match = pattern.fullmatch("/".join(parts[:end]))
                if match is not None:
                    return self._result(number, split_name(match.expand(template)), parts[end:])
        return parts

    def _result(self, number: int, new: Parts, rest: Parts) -> Parts:
        self.used.add(number)
        if not rest:
            self.weights.add(new)
        return (*new, *rest)

    def unused(self) -> list[MapRule]:
        """The rules that have renamed nothing."""
        return [rule for number, rule in enumerate(self._rules) if number not in self.used]


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern whose wildcards are groups; a name's separators are ``/``. Raises UsageError where it has several
    wildcards within a part, or several ``**``: the time of a match would grow with a power of the name's length."""
    parts = split_name(pattern)
    if pattern.count("**") > 1 or any(len(_WILDCARD.findall(part)) > 1 for part in parts):
        raise UsageError(
            f"rules: {pattern!r:.80} has more than one ** or more than one wildcard between two separators"
        )
    return re.compile("/".join(_expression(part) for part in parts))


def _expression(part: str) -> str:
    wildcard = _WILDCARD.search(part)
    if wildcard is None:
        return re.escape(part)
    group = {"**": "(.+)", "*": "([^/]+)", "?": "([^/])"}[wildcard.group()]
    return re.escape(part[: wildcard.start()]) + group + re.escape(part[wildcard.end() :])


def _template(rule: MapRule, name: str) -> str:
    """`to` for `re.Match.expand`: its wildcards are those of the name in their order. Raises UsageError."""
    theirs, ours = _WILDCARD.findall(name), _WILDCARD.findall(rule.to)
    if theirs != ours:
        raise UsageError(
            f'rules: map {{ from: "{name}"  to: "{rule.to}" }}: `to` must have the wildcards of `from`, '
            f"{' '.join(theirs)}, in their order, not {' '.join(ours) or 'none'}"
        )
    result, end = "", 0
    for number, wildcard in enumerate(_WILDCARD.finditer(rule.to), start=1):
        result += rule.to[end : wildcard.start()].replace("\\", r"\\") + rf"\g<{number}>"
        end = wildcard.end()
    return result + rule.to[end:].replace("\\", r"\\")
