"""Limits that a process which reads an untrusted file puts on itself. It imports the standard library alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping

if sys.platform != "win32":
    import resource

__all__ = ["limit_process", "memory_in_use"]


def limit_process(limits: Mapping[str, int]) -> None:
    """Set limits for good, by the names of ``resource.RLIMIT_*`` ("AS"); those that the system lacks are left out."""
    if sys.platform == "win32":
        return
    for name, limit in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):
            continue  # not supported by this system


def memory_in_use() -> int:
    """Bytes of address space that this process has; 1 GiB where the system does not tell."""
    if sys.platform == "win32":
        return 1 << 30
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30
