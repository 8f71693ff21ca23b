"""The kernels that backends have, by level and op name.

A kernel is registered by its prepare function, ``prepare(ins, outs, attrs)``. It is given the specs of a step's inputs
and outputs and the op's attributes, and returns either a function ``run(inputs, outputs)`` that fills the given output
arrays, or None where the kernel does not apply. The modules of a level's kernels are imported when one of its kernels
is first looked up.

A prepared kernel belongs to one step of a plan and is called many times; between calls it keeps nothing but scratch
memory. It writes every element of its outputs. Where the op's `inplace` map allows it, an output may share its memory
with that input.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

from prototorch.ops.operators import OPS
from prototorch.spec import Spec

__all__ = [
    "KernelFn",
    "PrepareFn",
    "kernel",
    "kernels_of",
    "load_level",
    "register_level",
    "register_resolver",
    "resolve",
]

#: a prepared kernel: called with the input arrays and the output arrays
KernelFn = Callable[[Sequence[Any], Sequence[Any]], None]
PrepareFn = Callable[[tuple[Spec, ...], tuple[Spec, ...], dict[str, Any]], KernelFn | None]

#: level -> op name -> prepare functions in the order in which they are tried
_KERNELS: dict[str, dict[str, list[PrepareFn]]] = {}
_SPECIALIZED: set[PrepareFn] = set()
_RESOLVERS: dict[str, list[Callable[[str], None]]] = {}
_RESOLVED: dict[tuple[str, str], Any] = {}  # level and op name -> the op for which the resolvers have run
_LEVEL_PACKAGES: dict[str, str] = {}  # of the levels that have not been looked up yet


def register_level(level: str, package: str) -> None:
    """Have the modules of a package, whose kernels register themselves, imported when the level is first looked up."""
    _LEVEL_PACKAGES[level] = package


def load_level(level: str) -> None:
    """Import the kernels of a level."""
    package = _LEVEL_PACKAGES.get(level)
    if package is not None:
        module = importlib.import_module(package)
        for info in pkgutil.walk_packages(module.__path__, f"{package}."):
            importlib.import_module(info.name)
        _LEVEL_PACKAGES.pop(level, None)


def kernel(level: str, *names: str, special: bool = False) -> Callable[[PrepareFn], PrepareFn]:
    """Register a kernel for the ops of these names at a level (``"numpy"``, ``"native"``, ``"cuda"``, ...).

    Kernels of a level are tried in the order of registration, those that are ``special`` first: they apply to few
    specs and are the fastest for those.
    """

    def register(prepare: PrepareFn) -> PrepareFn:
        if special:
            _SPECIALIZED.add(prepare)
        for name in names:
            candidates = _KERNELS.setdefault(level, {}).setdefault(name, [])
            candidates.append(prepare)
            candidates.sort(key=lambda candidate: candidate not in _SPECIALIZED)  # a stable sort
        return prepare

    return register


def register_resolver(level: str, resolver: Callable[[str], None]) -> None:
    """Register a function that is called with an op's name when a level's kernels for the op are first looked up, and
    again where another op has taken the name since. It registers a generated kernel where the op's facts allow one, so
    that a new elementwise op needs no kernel file."""
    _RESOLVERS.setdefault(level, []).append(resolver)


def resolve(level: str, name: str) -> None:
    """Have the resolvers of a level register their kernels for an op, once for each op that bears the name."""
    load_level(level)
    op = OPS.get(name)
    if (level, name) not in _RESOLVED or _RESOLVED[level, name] is not op:
        _RESOLVED[level, name] = op
        for resolver in _RESOLVERS.get(level, ()):
            resolver(name)


def kernels_of(level: str, name: str) -> Sequence[PrepareFn]:
    """The prepare functions of a level for an op, in the order in which they are tried."""
    resolve(level, name)
    return _KERNELS.get(level, {}).get(name, ())
