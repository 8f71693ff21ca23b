"""The operators of PyTorch's op_db that do not exist here, by the reason: the table missing.txt."""

from __future__ import annotations

from pathlib import Path


def missing_names() -> dict[str, str]:
    """The reason by name. A line that begins with # is the reason of the names below it."""
    found: dict[str, str] = {}
    reason = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        for name in line.split() if not line.startswith("#") else ():
            assert name not in found, f"{name} is in the table twice"
            found[name] = reason
    return found
