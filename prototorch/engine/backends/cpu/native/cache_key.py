"""The key under which a kernel's machine code is cached: a digest of everything the code depends on.

That is the kernel's name and parameters, the target (processor, vector width, versions of LLVM and of the calling
convention), and the sources that emit it: the module of the kernel's body, the modules that it imports, and those of
the ops that its parameters name, whose reference implementations are traced. So a change of one kernel, or of a module
that emits no code, leaves the cached code of the others valid. The source of an op that is not the package's (a cell
of a notebook, a module that reads a file) does not say what it computes: there the IR itself is a part of the key.

Keys are needed each time a kernel is looked up, before anything is emitted: sources are read once in a process, and
imports are found in their text.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import llvmlite

from prototorch.engine.backends.cpu.native.cpu_features import host_cpu, vector_bits
from prototorch.ops.operators import OPS

__all__ = ["clear_caches", "kernel_key", "names_user_op", "package_digest", "text_key"]

#: to be raised when the arguments of kernels or the records of the thread pool change their meaning
ABI_VERSION = 1

_NATIVE = "prototorch.engine.backends.cpu.native."
_EMITTING = (_NATIVE, "prototorch.ops.", "prototorch.spec")
_PACKAGES = (_NATIVE.removesuffix("."), "prototorch.ops", "prototorch.spec")
#: modules that prepare, compile, load and run kernels: they say nothing about the code of one
_RUNTIME = {
    _NATIVE + name
    for name in (
        "autotune", "backend", "cache_key", "compile_workers", "elf_loader", "jit", "kernel_api", "kernel_cache",
        "nontemporal", "prepack", "thread_pool", "thread_pool_ir",
    )
}  # fmt: skip
_COMPILER = _NATIVE + "llvm_compiler"
_IMPORT = re.compile(rb"^from (prototorch[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORTED = re.compile(rb"(\w+)(?: as \w+)?")
_DEFINITION = re.compile(rb"^(?:@|def |class )", re.MULTILINE)
_NAMES = re.compile(r"'(\w+)'")


def kernel_key(name: str, params: object, module: str) -> bytes:
    """The key of a kernel whose body is in a module; ``params`` determine by their repr what it emits."""
    text = repr(params)
    digest = hashlib.sha256(f"{name}{text}".encode() + target_digest())
    modules = {module, *_modules_of(params), *(type(OPS[n]).__module__ for n in _NAMES.findall(text) if n in OPS)}
    for source in sorted(modules):
        digest.update(module_digest(source))
    return digest.digest()


def names_user_op(params: object) -> bool:
    """Whether parameters name an op that is defined outside the package."""
    names = (name for name in _NAMES.findall(repr(params)) if name in OPS)
    return any(not type(OPS[name]).__module__.startswith("prototorch.") for name in names)


def text_key(text: str) -> bytes:
    """The key of code compiled from LLVM assembly."""
    return hashlib.sha256(text.encode() + target_digest()).digest()


@cache
def target_digest() -> bytes:
    """A digest of the target: the processor, the width of vectors, and how code is compiled and called."""
    words = (*host_cpu(), str(vector_bits()), llvmlite.__version__, str(ABI_VERSION))
    return hashlib.sha256("\n".join(words).encode() + _scan(_COMPILER).digest).digest()


@cache
def module_digest(module: str) -> bytes:
    """A digest of the sources of a module and of the modules it imports that emit code, directly or not."""
    reachable, waiting = {module}, [module]
    while waiting:
        for target in _scan(waiting.pop()).imports:
            if target not in reachable:
                reachable.add(target)
                waiting.append(target)
    return hashlib.sha256(b"".join(_scan(name).digest for name in sorted(reachable))).digest()


@cache
def package_digest() -> bytes:
    """A digest of the target and of the sources of all native kernels and ops, for what depends on their speed."""
    here = Path(__file__).parent
    digest = hashlib.sha256(target_digest())
    for path in (*sorted(here.rglob("*.py")), *sorted((here.parents[3] / "ops").glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.digest()


def _modules_of(params: object) -> set[str]:
    """The modules of the classes of parameters, of those whose sources count."""
    if type(params) is tuple:
        return {module for param in params for module in _modules_of(param)}
    module = type(params).__module__
    return {module} if module.startswith(_EMITTING) else set()


class _Source(NamedTuple):
    digest: bytes
    imports: tuple[str, ...]  # of those modules whose sources count


@cache
def _scan(module: str) -> _Source:
    text = read_source(module)
    return _Source(hashlib.sha256(module.encode() + text).digest(), tuple(_imports(text)))


def read_source(module: str) -> bytes:
    """The text of a module; its name and the package's version where the source is not at hand."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        with open(file or "", "rb") as source:
            return source.read()
    except OSError:
        return f"{module} {sys.modules['prototorch'].__version__}".encode()


def _imports(text: bytes) -> Iterator[str]:
    """The modules named by the import statements at the top of a module."""
    top = _DEFINITION.search(text)
    for package, names in _IMPORT.findall(text[: top.start()] if top is not None else text):
        base = package.decode()
        if base.startswith(_PACKAGES):
            submodules = [f"{base}.{name.decode()}" for name in _IMPORTED.findall(names)]
            modules = [name for name in submodules if name in sys.modules]
            for name in modules if len(modules) == len(submodules) else (*modules, base):
                if name.startswith(_EMITTING) and name not in _RUNTIME:
                    yield name


def clear_caches() -> None:
    """Forget what was read, for another target or changed sources."""
    for cached in (target_digest, module_digest, package_digest, _scan):
        cached.cache_clear()
