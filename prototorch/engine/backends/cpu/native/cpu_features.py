"""The features of this machine's processor that the IR builder and the compiler need."""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
from functools import cache

import llvmlite

from prototorch.engine.backends.cpu.native import kernel_cache

_BITS = {"float32": 32, "float64": 64, "int32": 32, "int64": 64}


@cache
def host_cpu() -> tuple[str, str]:
    """LLVM's name of the processor and its features; both belong to the key of the code that is kept on disk.

    They are cached on disk too, by the system's description of the processor, so that LLVM need not be loaded for them.
    """
    description = _read_cpuinfo()
    key = hashlib.sha256(f"{description} {platform.release()} {llvmlite.__version__}".encode()).digest()
    entry = kernel_cache.read(key, kernel_cache.CPU_SUFFIX) if description else None
    if entry is not None:
        return entry[0], entry[1].decode()
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if description:
        kernel_cache.write(key, name, features.encode(), kernel_cache.CPU_SUFFIX)
    return name, features


def _read_cpuinfo() -> str:
    """Linux' description of the first processor, without the lines that vary with time; empty on other systems."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(8192).decode(errors="replace")
    except OSError:
        return ""
    first = text.partition("\n\n")[0].splitlines()
    return "\n".join(line for line in first if not line.startswith(("cpu MHz", "bogomips"))) if "flags" in text else ""


@cache
def vector_bits() -> int:
    """The width of the vector registers that kernels use: 512, 256 or 128; 0 where none is known."""
    value = os.environ.get("PROTOTORCH_VECTOR_BITS", "")
    widest = _max_vector_bits()
    return min(int(value), widest) if value.isdigit() and int(value) in (128, 256, 512) else widest


def _max_vector_bits() -> int:
    _, flat = host_cpu()
    features = {name[1:] for name in flat.split(",") if name.startswith("+")}
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= features:
        return 512
    if {"avx2", "fma"} <= features:
        return 256
    if platform.machine().lower() in ("arm64", "aarch64"):
        return 128
    return 0


def num_vector_registers() -> int:
    """The number of vector registers."""
    return 16 if vector_bits() == 256 and _max_vector_bits() == 256 else 32


def vector_lanes(dtype: str) -> int:
    """The elements of a vector register."""
    return vector_bits() // _BITS[dtype]


def has_nontemporal_stores() -> bool:
    """Whether whole vectors can be written past the caches, in an order that other threads observe."""
    return platform.machine().lower() in ("x86_64", "amd64")


def unavailable_reason() -> str | None:
    """Why native kernels cannot run on this machine; None where they can."""
    if os.name != "posix":
        return "native kernels need POSIX threads"
    if vector_bits() == 0:
        return f"no supported vector instructions on this processor ({host_cpu()[0]})"
    return None


def is_double_pumped() -> bool:
    """Whether an operation on a whole vector costs as much as two on halves: AMD's Zen 4 runs 512 bits so."""
    return vector_bits() == 512 and host_cpu()[0] == "znver4"
