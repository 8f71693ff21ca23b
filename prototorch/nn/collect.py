"""The names of a package whose files register what is in their ``__all__``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

__all__ = ["collect_names"]


def collect_names(package: str, path: Iterable[str]) -> dict[str, Any]:
    """The public names of all files of a package."""
    files = [importlib.import_module(f"{package}.{info.name}") for info in pkgutil.iter_modules(path)]
    return {name: getattr(file, name) for file in files for name in file.__all__}
