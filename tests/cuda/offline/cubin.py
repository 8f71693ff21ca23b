"""What a kernel takes of a multiprocessor, read from its cubin (ELF): registers, stack and shared memory.

NVIDIA documents the sections in the CUDA Binary Utilities only by example; the attribute numbers are those that
cuobjdump prints (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE), compared with `ptxas -v` in the tests.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

SVAL, FRAME_SIZE, REGCOUNT = 0x04, 0x11, 0x2F
FORMATS_WITHOUT_PAYLOAD = (0x01, 0x02, 0x03)  # their value is in the two bytes of the size


@dataclass(frozen=True)
class KernelResources:
    """Registers of a thread, bytes of its stack frame (spilled registers are in it), bytes of static shared memory."""

    registers: int
    stack: int
    shared: int


def kernel_resources(cubin: bytes) -> dict[str, KernelResources]:
    """The kernels of a cubin by name. Raises ValueError for what is no 64-bit ELF file."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a cubin: expected a 64-bit ELF file")
    (offset,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + size * i) for i in range(count)]
    names = headers[names_index][4]

    def text(base: int, at: int) -> str:
        return cubin[base + at : cubin.index(b"\0", base + at)].decode()

    sections = {text(names, h[0]): h for h in headers}
    symbols, strings = sections[".symtab"], sections[".strtab"]
    kernels = {name.removeprefix(".text.") for name in sections if name.startswith(".text.")}
    found: dict[int, dict[str, int]] = {REGCOUNT: {}, FRAME_SIZE: {}}
    info = sections[".nv.info"]
    at, end = info[4], info[4] + info[5]
    while at < end:
        kind, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if kind == SVAL and attribute in found:
            symbol, value = struct.unpack_from("<II", cubin, at)
            (name,) = struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)
            found[attribute][text(strings[4], name)] = value
        at += 0 if kind in FORMATS_WITHOUT_PAYLOAD else length
    return {
        name: KernelResources(
            found[REGCOUNT][name],
            found[FRAME_SIZE][name],
            sections[f".nv.shared.{name}"][5] if f".nv.shared.{name}" in sections else 0,
        )
        for name in sorted(kernels)
    }
