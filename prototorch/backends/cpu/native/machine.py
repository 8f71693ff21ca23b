"""This machine's processor, as the emitter and the compiler need to know it."""

from __future__ import annotations

import os
import platform
from functools import cache

from llvmlite import binding as llvm

_BITS = {"float32": 32, "float64": 64, "int32": 32, "int64": 64}


@cache
def cpu() -> tuple[str, str]:
    """LLVM's name of the processor and its features; both belong to the key of the code that is kept on disk."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    return llvm.get_host_cpu_name(), features.flatten()


@cache
def vector_bits() -> int:
    """The width of the vector registers that kernels use: 512, 256 or 128; 0 where there are none that we know."""
    said = os.environ.get("PROTOTORCH_VECTOR_BITS", "")
    widest = _widest()
    return min(int(said), widest) if said.isdigit() and int(said) in (128, 256, 512) else widest


def _widest() -> int:
    _, flat = cpu()
    features = {name[1:] for name in flat.split(",") if name.startswith("+")}
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= features:
        return 512
    if {"avx2", "fma"} <= features:
        return 256
    if platform.machine().lower() in ("arm64", "aarch64"):
        return 128
    return 0


def registers() -> int:
    """How many vector registers there are."""
    return 16 if vector_bits() == 256 and _widest() == 256 else 32


def lanes_of(dtype: str) -> int:
    """Elements of a vector register."""
    return vector_bits() // _BITS[dtype]


def streams() -> bool:
    """Whether whole vectors can be written past the caches, in an order that other threads can rely on."""
    return platform.machine().lower() in ("x86_64", "amd64")


def unusable() -> str | None:
    """Why native kernels cannot run on this machine; None where they can."""
    if os.name != "posix":
        return "native kernels need POSIX threads"
    if vector_bits() == 0:
        return f"no vector unit that the native kernels know on this processor ({cpu()[0]})"
    return None


def halves_are_free() -> bool:
    """Whether two operations on half vectors cost what one on whole ones does: AMD's fourth generation does 512 bits
    so."""
    return vector_bits() == 512 and cpu()[0] == "znver4"
