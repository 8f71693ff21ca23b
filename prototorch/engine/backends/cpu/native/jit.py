"""From kernels to machine code in memory: looked up in the process, then on disk, then compiled.

Code is cached under a key of everything it depends on; see `cache_key`. Kernels whose IR is the same share one code.
Where many kernels are missing at once, as when a plan is linked, they are compiled in several processes.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prototorch.engine.backends.cpu.native import elf_loader, kernel_cache
from prototorch.engine.backends.cpu.native.cache_key import kernel_key, names_user_op, text_key
from prototorch.engine.backends.cpu.native.cpu_features import host_cpu, vector_bits
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder

_MIN_PARALLEL_KERNELS = 6  # kernels for which no process is started


class CompileStats:
    """Kernels compiled and loaded in this process, for `prototorch warmup` and the tests."""

    num_compiled = 0
    num_loaded = 0
    num_shared = 0  # kernels whose IR is that of another one


@dataclass
class CompileRequest:
    """A kernel to be compiled.

    Attributes:
        name: for the symbol of its function.
        params: determine, by their repr, what it emits.
        emit: builds its IR under a symbol.
        module: the module of its body; that of ``emit`` where left out.
        cache_key: the key of its machine code, in this process and on disk.
    """

    name: str
    params: object
    emit: Callable[[str], KernelBuilder]
    module: str = ""
    cache_key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.cache_key = kernel_key(self.name, self.params, self.module or self.emit.__module__)
        if names_user_op(self.params):
            self.cache_key = text_key(f"{self.cache_key.hex()} {self.emit('kernel').finish()}")


def _target_cpu() -> tuple[str, str]:
    """LLVM's name and features of the processor that code is compiled for."""
    name, features = host_cpu()
    return name, features + (",-prefer-256-bit" if vector_bits() == 512 else "")


_lock = threading.RLock()
_addresses: dict[bytes, int] = {}  # of machine code, by key and by symbol
_symbols: dict[bytes, str] = {}  # the symbol of IR, by its digest
_symbol_keys: dict[str, bytes] = {}  # the key of the code of a symbol
_engines: list[Any] = []  # MCJIT engines, which own the code that they loaded


def _workers_module() -> Any:
    """The module that compiles. It is imported only where something must be compiled, because it loads LLVM."""
    return importlib.import_module(f"{__package__}.compile_workers")


def is_compiled(request: CompileRequest) -> bool:
    """Whether a kernel's code is loaded or on disk."""
    key = request.cache_key
    return key in _addresses or kernel_cache.contains(key)


def load_or_compile(requests: Sequence[CompileRequest], workers: int = 1) -> list[int]:
    """The addresses of kernels. Those that are missing are compiled in up to ``workers`` processes, this one
    included."""
    keys = [one.cache_key for one in requests]
    with _lock:
        codes: dict[bytes, tuple[str, bytes]] = {}
        missing: dict[bytes, CompileRequest] = {}
        for key, one in zip(keys, requests, strict=True):
            if key in _addresses or key in codes or key in missing:
                continue
            entry = kernel_cache.read(key)
            if entry is None:
                missing[key] = one
            else:
                codes[key] = entry
                CompileStats.num_loaded += 1
        if missing:
            _compile_missing(missing, codes, workers)
        _load_codes(codes)
        return [_addresses[key] for key in keys]


def precompile(requests: Sequence[CompileRequest], workers: int, stop: threading.Event) -> None:
    """Have the missing kernels compiled by up to ``workers`` other processes at low priority, until ``stop`` is set.

    Where one of them is needed meanwhile, it is compiled twice.
    """
    with _lock:
        missing = [one for one in requests if not is_compiled(one)]
    if not missing:
        return

    def emit_missing() -> Iterator[tuple[str, str]]:
        for one in missing:
            if stop.is_set():
                return
            symbol = f"{one.name}_{one.cache_key.hex()[:24]}"
            yield symbol, one.emit(symbol).finish()

    name, features = _target_cpu()
    codes = _workers_module().CompileWorkers(workers, name, features, background=True).compile(emit_missing())
    with _lock:
        entries = {
            one.cache_key: (s, codes[s]) for one in missing if (s := f"{one.name}_{one.cache_key.hex()[:24]}") in codes
        }
        entries = {key: entry for key, entry in entries.items() if key not in _addresses}
        CompileStats.num_compiled += len(entries)
        for key, entry in entries.items():
            kernel_cache.write(key, *entry)
        _load_codes(entries)


def _compile_missing(missing: dict[bytes, CompileRequest], codes: dict[bytes, tuple[str, bytes]], workers: int) -> None:
    """Compile kernels, those of the same IR once, and add symbols and code to ``codes``, by key."""
    name, features = _target_cpu()
    users: dict[str, list[bytes]] = {}

    def emit_distinct() -> Iterator[tuple[str, str]]:
        for key, one in missing.items():
            symbol = f"{one.name}_{key.hex()[:24]}"
            ir = one.emit(symbol).finish()
            digest = hashlib.sha256(ir.replace(symbol, one.name).encode()).digest()
            first = _symbols.get(digest)
            if first is None or (first not in users and first.encode() not in _addresses):
                first = _symbols[digest] = symbol
                _symbol_keys[symbol] = key
            users.setdefault(first, []).append(key)
            if first == symbol:
                yield symbol, ir
            else:
                CompileStats.num_shared += 1

    with _gc_disabled():
        helpers = workers - 1 if len(missing) > _MIN_PARALLEL_KERNELS else 0
        compiled = _workers_module().CompileWorkers(helpers, name, features).compile(emit_distinct())
    CompileStats.num_compiled += len(compiled)
    for symbol, keys in users.items():
        for key in keys:
            if symbol in compiled:
                codes[key] = symbol, compiled[symbol]
                kernel_cache.write(key, symbol, compiled[symbol])
            else:  # loaded before
                _addresses[key] = _addresses[symbol.encode()]
                entry = kernel_cache.read(_symbol_keys[symbol])
                if entry is not None:
                    kernel_cache.write(key, *entry)
    kernel_cache.evict_unused()


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """No garbage collection: emitting makes many objects that are all in use, and scanning them takes longer."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load_codes(codes: dict[bytes, tuple[str, bytes]]) -> None:
    """Load machine code, given as symbol and object file by key."""
    objects = {symbol: code for symbol, code in codes.values() if symbol.encode() not in _addresses}
    for symbol, functions in zip(objects, _load_objects([([s], code) for s, code in objects.items()]), strict=True):
        _addresses[symbol.encode()] = functions[symbol]
    for key, (symbol, _) in codes.items():
        _addresses[key] = _addresses[symbol.encode()]


def _load_objects(objects: Sequence[tuple[Sequence[str], bytes]]) -> list[dict[str, int]]:
    """The addresses of the functions of these names in each object file."""
    if elf_loader.is_supported() and objects:
        try:
            return elf_loader.load_objects([code for _, code in objects])
        except elf_loader.UnsupportedObjectError:  # of a newer LLVM: its own loader reads it
            pass
    return [_load_with_mcjit(names, code) for names, code in objects]


def _load_with_mcjit(names: Sequence[str], code: bytes) -> dict[str, int]:
    """The same by LLVM's loader, MCJIT, with an engine for each object: one engine confuses the symbols of several."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)  # it owns the target machine
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}


def compile_assembly(name: str, text: str, functions: tuple[str, ...]) -> dict[str, int]:
    """The addresses of functions of a module of LLVM assembly, cached on disk as kernels are."""
    key = text_key(text)
    with _lock:
        entry = kernel_cache.read(key)
        if entry is None:
            entry = name, _workers_module().compile_ir(text, *_target_cpu())
            kernel_cache.write(key, *entry)
        return _load_objects([(functions, entry[1])])[0]


def _before_fork() -> None:
    _lock.acquire()


def _after_fork() -> None:
    _lock.release()


if hasattr(os, "register_at_fork"):  # a fork waits for LLVM, whose lock nobody would free in the child
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
