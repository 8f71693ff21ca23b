"""The memory that this process can still allocate on the host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from prototorch.errors import ResourceError, UsageError

ENV_VAR = "PROTOTORCH_MEMORY"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def free_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can still be allocated without swapping: the least of what the system reports as available, what the
    limits of control groups (containers) leave, and what the limit of the address space leaves. None where unknown.

    The environment variable PROTOTORCH_MEMORY ("12GiB", "800M", bytes) replaces all of them; "unlimited"
    stands for unknown. ``root`` is where /proc and /sys are. Raises UsageError for a variable that is neither.
    """
    limit = os.environ.get(ENV_VAR)
    if limit:
        return _parse_limit(limit)
    limits = [n for n in (_available_bytes(root), *_cgroup_limits(root), _address_space_limit(root)) if n is not None]
    return max(0, min(limits)) if limits else None


def check_free(nbytes: int, what: str) -> None:
    """Raise ResourceError where fewer bytes can be allocated. what: what needs them, as the error names it."""
    free = free_bytes()
    if free is not None and nbytes > free:
        raise ResourceError(f"{what} needs {nbytes:,} bytes of memory, and {free:,} are free")


def _parse_limit(text: str) -> int | None:
    if text.strip().lower() == "unlimited":
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise UsageError(f"{ENV_VAR} is {text!r}; it must be a size such as 12GiB, or 'unlimited'")
    return int(float(match[1]) * _UNITS[match[2]])


def _available_bytes(root: Path) -> int | None:
    text = _read_text(root / "proc/meminfo") or ""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    if match is not None:
        return int(match[1]) << 10
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _cgroup_limits(root: Path) -> Iterator[int]:
    """What each control group above this process leaves; file pages that are not in use count as free."""
    for line in (_read_text(root / "proc/self/cgroup") or "").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        parts = [p for p in path.split("/") if p not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            folder = base.joinpath(*parts[:depth])
            limit, used = (_parse_int(_read_text(folder / name)) for name in names[:2])
            if limit is not None and used is not None:
                match = re.search(rf"^{names[2]} (\d+)$", _read_text(folder / "memory.stat") or "", re.MULTILINE)
                yield limit - used + (int(match[1]) if match is not None else 0)


def _address_space_limit(root: Path) -> int | None:
    match = re.search(r"^Max address space\s+(\d+)\s", _read_text(root / "proc/self/limits") or "", re.MULTILINE)
    used = _parse_int((_read_text(root / "proc/self/statm") or "").split(" ")[0])
    if match is None or used is None:
        return None
    return int(match[1]) - used * os.sysconf("SC_PAGE_SIZE")


def _parse_int(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
