"""Paths of the files that are installed with the package: grammars, models, data.

In an installed wheel they lie under ``prototorch/_files``; in a source tree, beside the package.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def package_folder(name: str) -> Path:
    """The folder ``grammars``, ``models`` or ``data`` that belongs to this installation."""
    inside = _PACKAGE / "_files" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def shipped_models() -> dict[str, Path]:
    """The models that are installed with prototorch, by name."""
    return {path.stem: path for path in sorted(package_folder("models").glob("*.proto"))}
