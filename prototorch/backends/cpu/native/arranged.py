"""Kernels in two parts: one brings an operand (weights) into the order in which the other reads it.

    @arranged_once("conv")
    def conv(ins, outs, attrs):
        return Parts(operand=1, size=..., arrange=..., work=...)

Where the operand does not change from run to run, a plan says the two apart (ops `arrange` and `arranged`, see
`prototorch.ops.arranged`), so that the first runs once. Another way of computing may be the best then than where the
arrangement is paid for in each run, which is what kernels entered by `native` do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from prototorch.backends.core import Arrangement, arranges, channels_last
from prototorch.backends.cpu.native.call import Bind, Tasks, native, remembered
from prototorch.backends.cpu.native.emit import Unsupported
from prototorch.ops.arranged import Use
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class Parts(NamedTuple):
    """``arrange`` gives the tasks that fill the ``size`` numbers of its output from the operand, its input; ``work``
    those that do the rest, with the arranged operand in its place among the inputs. Parts of equal ``form`` (beside the
    family) arrange alike: it says all that the order follows from, and not the size of the batch."""

    operand: int
    size: int
    arrange: Bind
    work: Bind
    family: str = ""
    form: Any = None


Ask = Callable[[Specs, Specs, dict[str, Any]], "Parts | None"]
_ASKED: dict[str, dict[str, list[Ask]]] = {}


def arranged_once(*names: str, level: str = "native", special: bool = False) -> Callable[[Ask], Ask]:
    """Enter what gives the parts of the kernels for these ops, or None; ``special`` as for `native`."""

    def enter(ask: Ask) -> Ask:
        @lru_cache(maxsize=4096)
        def known(ins: Specs, outs: Specs, items: tuple[tuple[str, Any], ...]) -> Parts | None:
            try:
                return ask(ins, outs, dict(items))
            except Unsupported:
                return None

        def asked(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Parts | None:
            return known(ins, outs, tuple(sorted(attrs.items())))

        def arrangement(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Arrangement | None:
            if any(s.size == 0 for s in (*ins, *outs)):
                return None
            parts = asked(ins, outs, attrs)
            return None if parts is None else _said(parts, ins)

        remembered(known)
        for name in names:
            found = _ASKED.setdefault(level, {}).setdefault(name, [])
            found.insert(0 if special else len(found), asked)
        arranges(level, *names, special=special)(arrangement)
        return ask

    return enter


def _said(parts: Parts, ins: Specs) -> Arrangement:
    form = None if parts.form is None else (parts.family, parts.form)
    return Arrangement(parts.operand, max(parts.size, ins[parts.operand].size), form)


def _parts(level: str, use: Use) -> Parts | None:
    if use.level not in ("", level):
        return None
    asked = (ask(use.ins, use.outs, dict(use.attrs)) for ask in _ASKED.get(level, {}).get(use.op, ()))
    parts = next((found for found in asked if found is not None), None)
    return parts if parts is not None and parts.operand == use.operand else None


def _enter(level: str) -> None:
    @native("arrange", level=level)
    def arrange(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Tasks | None:
        parts = _parts(level, attrs["use"])
        return Tasks(parts.arrange, parts.family) if parts is not None and outs[0].size >= parts.size else None

    @native("arranged", level=level)
    def arranged(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Tasks | None:
        parts = _parts(level, attrs["use"])
        return Tasks(parts.work, parts.family) if parts is not None and ins[parts.operand].size >= parts.size else None

    channels_last(level, "follows", "arranged")


for _level in ("winograd", "native", "smaller", "measured"):
    _enter(_level)
