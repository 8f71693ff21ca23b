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
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

_HEADER, _SECTION, _SYMBOL, _RELA_ENTRY = (
    struct.Struct(f) for f in ("<16xHH20xQ10xHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq")
)
_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, the least byte first
_ET_REL, _EM_X86_64 = 1, 62
_SHT_NULL, _SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_NOBITS = 0, 1, 2, 3, 4, 8
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


class _Relocation(NamedTuple):
    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


def is_supported() -> bool:
    """Whether this system's object files can be loaded."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class _ObjectFile:
    """A parsed object file: every offset, size and index in it is checked before it is used."""

    def __init__(self, file: bytes):
        if not file.startswith(_MAGIC) or len(file) < _HEADER.size:
            raise UnsupportedObjectError("no ELF file of 64 bits")
        self.file = file
        self.sections = self._read_sections()
        self.loaded_sections = [
            i for i, s in enumerate(self.sections) if s.kind == _SHT_PROGBITS and s.flags & _SHF_ALLOC and s.size
        ]
        loaded_size = sum(self.sections[i].size for i in self.loaded_sections)
        if loaded_size > len(file):
            raise UnsupportedObjectError(f"sections of {loaded_size:,} bytes in a file of {len(file):,}")
        self.symbols = self._read_symbols()
        self.relocations = [one for s in self.sections if s.kind == _SHT_RELA for one in self._read_relocations(s)]

    def _read_sections(self) -> list[_Section]:
        kind, machine, table, entry_size, count, _ = _HEADER.unpack_from(self.file)
        if (kind, machine, entry_size) != (_ET_REL, _EM_X86_64, _SECTION.size):
            raise UnsupportedObjectError(f"a file of type {kind} for machine {machine}, no object file for x86-64")
        self._check_range("the table of sections", table, count * _SECTION.size)
        sections = [_Section(*_SECTION.unpack_from(self.file, table + i * _SECTION.size)) for i in range(count)]
        for i, s in enumerate(sections):
            if (s.flags & _SHF_WRITE and s.size) or s.align > _MAX_ALIGN or s.align & (s.align - 1):
                raise UnsupportedObjectError(f"section {i} is writable, or aligned to {s.align} bytes")
            if s.kind not in (_SHT_NULL, _SHT_NOBITS):
                self._check_range(f"section {i}", s.offset, s.size)
        return sections

    def _read_symbols(self) -> list[tuple[str, int, int]]:
        """Name, section and value of each symbol."""
        tables = [s for s in self.sections if s.kind == _SHT_SYMTAB]
        if len(tables) != 1 or tables[0].link >= len(self.sections):
            raise UnsupportedObjectError("no table of symbols, or several, or none of their names")
        names = self.sections[tables[0].link]
        if names.kind != _SHT_STRTAB:
            raise UnsupportedObjectError("the names of the symbols are in no table of strings")
        strings = self.file[names.offset : names.offset + names.size]
        symbols = []
        for begin, _, _, home, value, _ in self._entries(_SYMBOL, tables[0]):
            end = strings.find(b"\0", begin) if begin < len(strings) else -1
            if end < 0:
                raise UnsupportedObjectError(f"a symbol's name at byte {begin} of {len(strings)}")
            if home < len(self.sections) and value > self.sections[home].size:
                raise UnsupportedObjectError(f"a symbol beyond the end of section {home}")
            symbols.append((strings[begin:end].decode("utf-8", "replace"), home, value))
        return symbols

    def _read_relocations(self, table: _Section) -> Iterator[_Relocation]:
        if table.info >= len(self.sections):
            raise UnsupportedObjectError(f"relocations of section {table.info} of {len(self.sections)}")
        if table.info not in self.loaded_sections:
            return
        for offset, info, addend in self._entries(_RELA_ENTRY, table):
            kind, number = info & 0xFFFFFFFF, info >> 32
            if kind not in (_R_X86_64_GOTOFF64, _R_X86_64_GOT64, _R_X86_64_GOTPC64):
                raise UnsupportedObjectError(f"a relocation of type {kind}")
            if offset + 8 > self.sections[table.info].size:
                raise UnsupportedObjectError(f"a relocation beyond the end of section {table.info}")
            if number >= len(self.symbols):
                raise UnsupportedObjectError("a relocation by an unknown symbol")
            yield _Relocation(table.info, offset, kind, number, addend)

    def _check_range(self, what: str, offset: int, size: int) -> None:
        if offset + size > len(self.file):
            raise UnsupportedObjectError(f"{what} ends beyond the file")

    def _entries(self, layout: struct.Struct, table: _Section) -> Iterator[tuple[Any, ...]]:
        if table.size % layout.size:
            raise UnsupportedObjectError(f"a table of {table.size} bytes, of entries of {layout.size}")
        return layout.iter_unpack(self.file[table.offset : table.offset + table.size])

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
                if addend or name not in table:
                    raise UnsupportedObjectError(f"{name} has no entry in the GOT, or {addend} bytes beside one")
                block.write_word(at, table[name])
            elif home not in offsets:
                raise UnsupportedObjectError(f"{name} is in no loaded section")
            elif not 0 <= value + addend <= one.sections[home].size:
                raise UnsupportedObjectError(f"an address outside section {home}, at {value + addend} of it")
            else:
                block.write_word(at, offsets[home] + value + addend)
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
        return ctypes.cast(_libc()[name], ctypes.c_void_p).value or 0
    except AttributeError:
        raise UnsupportedObjectError(f"this process has no function {name}") from None
