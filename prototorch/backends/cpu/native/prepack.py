"""Kernels in two parts: one brings an operand (weights) into the order in which the other reads it.

    @arranged_once("conv")
    def conv(ins, outs, attrs):
        return Parts(operand=1, size=..., arrange=..., work=...)

Where the operand does not change from run to run, a plan says the two apart (ops `arrange` and `arranged`, see
`prototorch.ops.prepack`), so that the first runs once. Another way of computing may be the best then than where the
arrangement is paid for in each run, which is what kernels entered by `native_kernel` do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from prototorch.backends.capabilities import PackRequest, prepacks, register_channels_last
from prototorch.backends.cpu.native.ir_builder import UnsupportedError
from prototorch.backends.cpu.native.kernel_api import BindFn, TaskList, native_kernel, register_cache
from prototorch.ops.prepack import OperandUse
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class PrepackedKernel(NamedTuple):
    """``arrange`` gives the tasks that fill the ``size`` numbers of its output from the operand, its input; ``work``
    those that do the rest, with the arranged operand in its place among the inputs. Parts of equal ``form`` (beside the
    family) arrange alike: it says all that the order follows from, and not the size of the batch."""

    operand: int
    size: int
    pack: BindFn
    compute: BindFn
    family: str = ""
    layout_key: Any = None


PrepackFn = Callable[[Specs, Specs, dict[str, Any]], "PrepackedKernel | None"]
_PREPACKED: dict[str, dict[str, list[PrepackFn]]] = {}


def prepacked_kernel(*names: str, level: str = "native", special: bool = False) -> Callable[[PrepackFn], PrepackFn]:
    """Enter what gives the parts of the kernels for these ops, or None; ``special`` as for `native_kernel`."""

    def enter(ask: PrepackFn) -> PrepackFn:
        @lru_cache(maxsize=4096)
        def known(ins: Specs, outs: Specs, items: tuple[tuple[str, Any], ...]) -> PrepackedKernel | None:
            try:
                return ask(ins, outs, dict(items))
            except UnsupportedError:
                return None

        def asked(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> PrepackedKernel | None:
            return known(ins, outs, tuple(sorted(attrs.items())))

        def arrangement(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> PackRequest | None:
            if any(s.size == 0 for s in (*ins, *outs)):
                return None
            parts = asked(ins, outs, attrs)
            return None if parts is None else _pack_request(parts, ins)

        register_cache(known)
        for name in names:
            found = _PREPACKED.setdefault(level, {}).setdefault(name, [])
            found.insert(0 if special else len(found), asked)
        prepacks(level, *names, special=special)(arrangement)
        return ask

    return enter


def _pack_request(parts: PrepackedKernel, ins: Specs) -> PackRequest:
    form = None if parts.layout_key is None else (parts.family, parts.layout_key)
    return PackRequest(parts.operand, max(parts.size, ins[parts.operand].size), form)


def _find_prepacked(level: str, use: OperandUse) -> PrepackedKernel | None:
    if use.level not in ("", level):
        return None
    asked = (ask(use.ins, use.outs, dict(use.attrs)) for ask in _PREPACKED.get(level, {}).get(use.op, ()))
    parts = next((found for found in asked if found is not None), None)
    return parts if parts is not None and parts.operand == use.operand else None


def _register_level(level: str) -> None:
    @native_kernel("prepack", level=level)
    def arrange(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> TaskList | None:
        parts = _find_prepacked(level, attrs["use"])
        return TaskList(parts.pack, parts.family) if parts is not None and outs[0].size >= parts.size else None

    @native_kernel("apply_prepacked", level=level)
    def arranged(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> TaskList | None:
        parts = _find_prepacked(level, attrs["use"])
        return (
            TaskList(parts.compute, parts.family)
            if parts is not None and ins[parts.operand].size >= parts.size
            else None
        )

    register_channels_last(level, "follows", "apply_prepacked")


for _level in ("winograd", "native", "smaller", "measured"):
    _register_level(_level)
