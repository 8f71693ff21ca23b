"""Kernels in two parts: the first packs an operand (weights) into the order in which the second reads it.

    @prepacked_kernel("conv")
    def conv(ins, outs, attrs):
        return PrepackedKernel(operand=1, size=..., pack=..., compute=...)

Where the operand does not change from run to run, a plan has the two parts as steps of their own (the ops of
`prototorch.ops.prepack`), so that the first runs once (weight prepacking). Another algorithm may be the fastest then
than where the operand is packed in each run, as kernels registered by `native_kernel` do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple

from prototorch.engine.backends.capabilities import PackRequest, prepacks, register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import BindFn, TaskList, native_kernel, register_cache
from prototorch.ops.prepack import OperandUse, apply_prepacked, prepack
from prototorch.spec import Spec

__all__ = ["PrepackedKernel", "prepacked_kernel"]

Specs = tuple[Spec, ...]


class PrepackedKernel(NamedTuple):
    """The two parts of a kernel.

    Attributes:
        operand: the index of the input that is packed.
        size: the number of elements of the packed operand.
        pack: binds the tasks that fill the packed operand, their output, from the operand, their input.
        compute: binds the tasks that do the rest, with the packed operand in place of the operand.
        family: the algorithm, see `KernelChoice`.
        layout_key: kernels of equal family and key pack alike: it holds all that the order follows from, which the size
            of the batch does not. None: this one alone.
    """

    operand: int
    size: int
    pack: BindFn
    compute: BindFn
    family: str = ""
    layout_key: Hashable = None


PrepackFn = Callable[[Specs, Specs, dict[str, Any]], "PrepackedKernel | None"]
_PREPACKED: dict[str, dict[str, list[PrepackFn]]] = {}


def prepacked_kernel(*names: str, level: str = "native", special: bool = False) -> Callable[[PrepackFn], PrepackFn]:
    """Register a function that returns the `PrepackedKernel` for a step of these ops, or None; ``special`` as for
    `native_kernel`."""

    def register(prepare: PrepackFn) -> PrepackFn:
        @lru_cache(maxsize=4096)
        def prepare_once(ins: Specs, outs: Specs, items: tuple[tuple[str, Any], ...]) -> PrepackedKernel | None:
            try:
                return prepare(ins, outs, dict(items))
            except UnsupportedError:
                return None

        def find(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> PrepackedKernel | None:
            return prepare_once(ins, outs, tuple(sorted(attrs.items())))

        def request(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> PackRequest | None:
            if any(s.size == 0 for s in (*ins, *outs)):
                return None
            parts = find(ins, outs, attrs)
            return None if parts is None else _pack_request(parts, ins)

        register_cache(prepare_once)
        for name in names:
            candidates = _PREPACKED.setdefault(level, {}).setdefault(name, [])
            candidates.insert(0 if special else len(candidates), find)
        prepacks(level, *names, special=special)(request)
        return prepare

    return register


def _pack_request(parts: PrepackedKernel, ins: Specs) -> PackRequest:
    layout_key = None if parts.layout_key is None else (parts.family, parts.layout_key)
    return PackRequest(parts.operand, max(parts.size, ins[parts.operand].size), layout_key)


def _find_prepacked(level: str, use: OperandUse) -> PrepackedKernel | None:
    if use.level not in ("", level):
        return None
    candidates = (find(use.ins, use.outs, dict(use.attrs)) for find in _PREPACKED.get(level, {}).get(use.op, ()))
    parts = next((parts for parts in candidates if parts is not None), None)
    return parts if parts is not None and parts.operand == use.operand else None


def _register_level(level: str) -> None:
    @native_kernel(prepack.name, level=level)
    def pack(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> TaskList | None:
        parts = _find_prepacked(level, attrs["use"])
        return TaskList(parts.pack, parts.family) if parts is not None and outs[0].size >= parts.size else None

    @native_kernel(apply_prepacked.name, level=level)
    def compute(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> TaskList | None:
        parts = _find_prepacked(level, attrs["use"])
        enough = parts is not None and ins[parts.operand].size >= parts.size
        return TaskList(parts.compute, parts.family) if parts is not None and enough else None

    register_channels_last(level, "follows", apply_prepacked.name)


for _level in ("winograd", "native", "smaller", "measured"):
    _register_level(_level)
