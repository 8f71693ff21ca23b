"""Names of layers in parts: which carry a meaning, what a block's layers share, and what counts in a repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache
from itertools import pairwise

from prototorch.layers.base import Layer
from prototorch.text.case_conversion import snake_case

__all__ = ["block_name", "common_prefix", "is_automatic", "join_parts", "name_template", "split_name"]

Parts = tuple[str, ...]
_TOKEN = re.compile(r"\$\{[^}]*\}|[0-9]+|[^0-9$]+")
#: what exporters and frameworks call layers by themselves, besides the names of our layers
_GENERIC = (
    "act activation avg_pool average_pool avgpool batchnorm batch_norm batchnormalization bn clip concat conv "
    "convolution fc flat gap gemm global_average_pool global_avg_pool identity leaky_relu linear lrn matmul max_pool "
    "maxpool mean merge mul norm output pad reduce_mean relu relu6 reshape sum transpose view"
)


@cache
def _class_words() -> frozenset[str]:
    return frozenset(form for name in Layer.member_names() for form in (name.lower(), snake_case(name)))


@cache
def _generic_words() -> frozenset[str]:
    return _class_words() | set(_GENERIC.split())


def is_automatic(name: str, has_weights: bool) -> bool:
    """Whether a name says no more than the layer's type: ``conv2d_17``, ``node_Conv_3``.

    Of a layer without weights only the last part counts (``block1_2_relu``).
    """
    if not has_weights:
        name = re.split(r"[/.]", name)[-1]
        match = re.search(r"(?:^|[_\d])([A-Za-z]+(?:_?[A-Za-z]+)*\d?[dD]?6?)_?\d*$", name)
        words = {match.group(1).lower()} if match else set()
        words |= {re.sub(r"_?\d+$", "", name).lower(), re.sub(r"^.*\d_", "", name).lower().rstrip("_0123456789")}
        return bool(words & _generic_words()) or not re.search(r"[^\W\d_]", name)
    bare = re.sub(r"^node_", "", name.rpartition("/")[2])
    stem = re.sub(r"(_\d+)+$", "", bare).lower()
    return stem in _generic_words() and (stem != bare.lower() or stem in _class_words())


def split_name(name: str) -> Parts:
    """The parts of a name at its ``/``, ``.`` and ``_``, each with the separators behind it; ``.`` becomes ``/``."""
    return tuple(re.findall(r"[/_]*[^/_]+[/_]*", name.replace(".", "/"))) or (name,)


def join_parts(parts: Parts) -> str:
    """A name from its parts."""
    return "".join(parts)


def common_prefix(names: Sequence[Parts], variables: Set[str]) -> tuple[Parts, tuple[Parts, ...]] | None:
    """The parts that names begin with, and what remains of each; None where they share none.

    variables: loop variables that have no value outside, so that the prefix cannot have them; the rest has no others.
    """
    length = min(map(len, names)) - 1
    while length > 0 and (
        any(name[:length] != names[0][:length] for name in names) or _variables(names[0][length - 1]) & variables
    ):
        length -= 1
    if length <= 0 or any(_variables(part) - variables for name in names for part in name[length:]):
        return None
    prefix = names[0][:length]
    bare = prefix[-1].rstrip("/_")
    if not bare:
        return None
    return (*prefix[:-1], bare), tuple(name[length:] for name in names)


def _variables(part: str) -> set[str]:
    return {word for inner in re.findall(r"\$\{([^}]*)\}", part) for word in re.findall(r"[a-z]+", inner)}


def block_name(prefixes: Sequence[Parts]) -> str | None:
    """A name for a block whose uses have these names: the word that the last parts share."""
    words = {next((w for part in reversed(prefix) if len(w := _word(part)) > 2), "") for prefix in prefixes}
    return next(iter(words)) if len(words) == 1 and "" not in words else None


def _word(part: str) -> str:
    word = re.sub(r"\$\{[^}]*\}|\d+", "", part).strip("/_.:-").lower()
    return word if word.isascii() and word.isidentifier() else ""


def name_template(names: Sequence[Parts], variable: str) -> Parts | None:
    """A name with an expression of the loop variable (0, 1, ...) that gives each of these in turn; None if none does.

    ``layer1_``, ``layer2_`` -> ``layer${i + 1}_``.
    """
    if any(len(name) != len(names[0]) for name in names):
        return None
    parts = []
    for column in zip(*names, strict=True):
        tokens = [_TOKEN.findall(part) for part in column]
        if any(len(row) != len(tokens[0]) for row in tokens):
            return None
        text = ""
        for values in zip(*tokens, strict=True):
            if all(value == values[0] for value in values):
                text += values[0]
                continue
            if not all(value.isdigit() and str(int(value)) == value for value in values):
                return None
            numbers = [int(value) for value in values]
            step = numbers[1] - numbers[0]
            if any(b - a != step for a, b in pairwise(numbers)):
                return None
            text += f"${{{linear_text(numbers[0], step, variable)}}}"
        parts.append(text)
    return tuple(parts)


def linear_text(first: int, step: int, variable: str) -> str:
    """``first + step * variable`` as a person writes it."""
    product = variable if step == 1 else f"{step} * {variable}"
    if first == 0:
        return product
    if step < 0:
        return f"{first} - {variable}" if step == -1 else f"{first} - {-step} * {variable}"
    return f"{product} + {first}" if first > 0 else f"{product} - {-first}"
