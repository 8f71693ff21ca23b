"""From IR to machine code, kept in the process and on disk.

Code is kept under a key of everything it depends on: what the kernel is asked to be, the sources of this package, the
processor, llvmlite's version. Files are written whole under another name and then renamed, so that processes that share
the cache never see half of one; each begins with its own digest, and one that does not match is made again. The folder
is PROTOTORCH_CACHE, else the user's cache folder; an empty PROTOTORCH_CACHE keeps nothing on disk.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite
from llvmlite import binding as llvm

from prototorch.backends.cpu.native.emit import Kernel
from prototorch.backends.cpu.native.machine import cpu, vector_bits

_DIGEST = 32  # bytes of SHA-256 before the code


class Counts:
    """How much was compiled and how much came from disk, for `warmup` and the tests."""

    compiled = 0
    loaded = 0


@cache
def folder() -> Path | None:
    """Where code is kept; None where nowhere."""
    said = os.environ.get("PROTOTORCH_CACHE")
    if said is not None:
        return Path(said) / "kernels" if said else None
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "prototorch" / "kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prototorch" / "kernels"


@cache
def _fingerprint() -> bytes:
    """Of all that goes into the code besides what a kernel is asked to be."""
    found = hashlib.sha256()
    here = Path(__file__).parent
    sources = [*sorted(here.rglob("*.py")), *sorted((here.parents[2] / "ops").glob("*.py"))]  # plain bodies are traced
    for source in sources:
        found.update(source.read_bytes())
    for word in (*cpu(), str(vector_bits()), llvmlite.__version__):
        found.update(word.encode())
    return found.digest()


@cache
def _machine() -> llvm.TargetMachine:
    name, features = cpu()
    target = llvm.Target.from_default_triple()
    if vector_bits() == 512:
        features += ",-prefer-256-bit"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


_lock = threading.RLock()
_addresses: dict[bytes, int] = {}
_engines: list[llvm.ExecutionEngine] = []  # code lives as long as the process


def compiled(name: str, asked: object, make: Callable[[str], Kernel]) -> int:
    """The address of a kernel's code. ``asked`` says all that `make` depends on; its repr is the key."""
    text = f"{name}{asked!r}"
    key = hashlib.sha256(text.encode() + _fingerprint()).digest()
    with _lock:
        found = _addresses.get(key)
        if found is None:
            code = _read(key)
            if code is None:
                code = _compile(make(name).finish())
                Counts.compiled += 1
                _write(key, code)
            else:
                Counts.loaded += 1
            found = _addresses[key] = _engine(code).get_function_address(name)
        return found


def _compile(ir: str) -> bytes:
    machine = _machine()
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False  # vectors are said by the kernels
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _engine(code: bytes) -> llvm.ExecutionEngine:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine_for_engine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return engine


def _machine_for_engine() -> llvm.TargetMachine:
    """An engine owns its target machine, so each gets its own."""
    return llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="jitdefault", jit=True)


def _path(key: bytes) -> Path | None:
    where = folder()
    return None if where is None else where / key.hex()[:2] / f"{key.hex()}.o"


def _read(key: bytes) -> bytes | None:
    path = _path(key)
    try:
        held = path.read_bytes() if path is not None else b""
    except OSError:
        return None
    code = held[_DIGEST:]
    return code if code and hashlib.sha256(key + code).digest() == held[:_DIGEST] else None


def _write(key: bytes, code: bytes) -> None:
    path = _path(key)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(key + code).digest() + code)
        os.replace(name, path)
    except OSError:
        return  # a cache that cannot be written only costs time


def compiled_text(name: str, text: str, functions: tuple[str, ...]) -> dict[str, int]:
    """The addresses of functions of a module of LLVM assembly, kept on disk as kernels are."""
    key = hashlib.sha256(text.encode() + _fingerprint()).digest()
    with _lock:
        code = _read(key)
        if code is None:
            code = _compile(text)
            _write(key, code)
        engine = _engine(code)
        return {f: engine.get_function_address(f) for f in functions}
