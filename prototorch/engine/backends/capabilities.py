"""What the kernels of a level can do beside running an op alone: fuse it, take other layouts, prepack an operand.

Passes read these declarations through `Backend`; a level that declares nothing gets plans that are neither laid out nor
fused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from prototorch.engine.backends.registry import load_level, resolve
from prototorch.spec import Spec

__all__ = [
    "LayoutSupport",
    "PackRequest",
    "declares_fusion_or_layouts",
    "fusion_role_at",
    "layout_support_at",
    "pack_request_at",
    "prepacks",
    "register_channels_last",
    "register_fusion_role",
]

Specs = tuple[Spec, ...]
Predicate = Callable[[Specs, dict[str, Any]], bool]


class LayoutSupport(NamedTuple):
    """How the kernels of a level for an op handle values in the layout channels_last.

    Attributes:
        policy: "prefers" (the op's inputs are converted to the layout) or "follows" (it takes the layout where one of
            its inputs has it already).
        ins, outs: the indices of the inputs and outputs in the layout; None: all of the largest rank. The others
            (weights, vectors) stay in the default layout.
        when: a predicate of the inputs' specs and the attributes: to which uses of the op this applies. None: to all.
    """

    policy: str
    ins: tuple[int, ...] | None = None
    outs: tuple[int, ...] | None = None
    when: Predicate | None = None


class PackRequest(NamedTuple):
    """A kernel's request that one of its operands be packed before the step (weight prepacking).

    Attributes:
        operand: the index of the input.
        size: the number of elements of the packed operand.
        layout_key: requests of equal keys can share one packed copy; None: this request alone.
        level: the only level whose kernel reads this packing, where a level was chosen; else empty.
    """

    operand: int
    size: int
    layout_key: Hashable = None
    level: str = ""


RequestFn = Callable[[Specs, Specs, dict[str, Any]], PackRequest | None]

#: level -> op name -> "elementwise", "anchor" or "tail"
_FUSION_ROLES: dict[str, dict[str, str]] = {}
_LAYOUT_SUPPORT: dict[str, dict[str, LayoutSupport]] = {}
_PACK_REQUESTS: dict[str, dict[str, list[RequestFn]]] = {}


def register_fusion_role(level: str, role: str, *names: str) -> None:
    """Declare that a level's kernel for ``fused`` takes these ops: as "elementwise" members of a group, as the "anchor"
    that a group may begin with, or as the "tail", a reduction, that it may end with."""
    _FUSION_ROLES.setdefault(level, {}).update(dict.fromkeys(names, role))


def fusion_role_at(level: str, name: str) -> str | None:
    """The role of an op in a level's fused groups; None where it cannot be fused."""
    resolve(level, name)
    return _FUSION_ROLES.get(level, {}).get(name)


def register_channels_last(
    level: str,
    policy: str,
    *names: str,
    ins: tuple[int, ...] | None = None,
    outs: tuple[int, ...] | None = None,
    when: Predicate | None = None,
) -> None:
    """Declare that a level's kernels for these ops support the layout channels_last; see `LayoutSupport`."""
    _LAYOUT_SUPPORT.setdefault(level, {}).update(dict.fromkeys(names, LayoutSupport(policy, ins, outs, when)))


def layout_support_at(level: str, name: str) -> LayoutSupport | None:
    """How a level's kernels for an op support channels_last; None where they do not."""
    resolve(level, name)
    return _LAYOUT_SUPPORT.get(level, {}).get(name)


def declares_fusion_or_layouts(level: str) -> bool:
    """Whether a level has kernels for fused groups or for channels_last."""
    load_level(level)
    return level in _FUSION_ROLES or level in _LAYOUT_SUPPORT


def prepacks(level: str, *names: str, special: bool = False) -> Callable[[RequestFn], RequestFn]:
    """Register a function ``(ins, outs, attrs)`` that returns the `PackRequest` of a level's kernel for these ops, or
    None. ``special`` as for `prototorch.engine.backends.registry.kernel`."""

    def register(request: RequestFn) -> RequestFn:
        for name in names:
            requests = _PACK_REQUESTS.setdefault(level, {}).setdefault(name, [])
            requests.insert(0 if special else len(requests), request)
        return request

    return register


def pack_request_at(level: str, name: str, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> PackRequest | None:
    """The request of a level's kernels for a step, of the first that has one; see `Backend.pack_request`."""
    load_level(level)
    requests = (request(ins, outs, dict(attrs)) for request in _PACK_REQUESTS.get(level, {}).get(name, ()))
    return next((request for request in requests if request is not None), None)
