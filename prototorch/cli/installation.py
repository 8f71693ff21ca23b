"""Whether the installed package is this project's: the distribution is prototorch-dl, the import prototorch.

The name prototorch on the public index belongs to another project, whose files land in the same folder. Its mark is the
metadata beside the package; folders are only listed, which takes a fraction of a millisecond.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

DISTRIBUTION = "prototorch-dl"
_AUTHOR = b"Author: The prototorch developers"  # of this project, also when its distribution was called prototorch
_METADATA = re.compile(r"prototorch-(\d[\w.!+-]*)\.(?:dist-info|egg-info)", re.IGNORECASE)
_REPAIR = "remove it (pip uninstall prototorch), then install this project again, from its own repository"


def is_overwritten() -> bool:
    """Whether the package that was imported is not this project's, or only a part of it."""
    return getattr(sys.modules["prototorch"], "__distribution__", None) != DISTRIBUTION


def overwritten_message() -> str:
    """What `is_overwritten` means, and what to do."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    place = getattr(sys.modules["prototorch"], "__file__", None) or here
    return (
        f"the package at {place} is not this project's ({DISTRIBUTION}), or a part of it: another distribution called "
        f"prototorch was installed over it or removed; {_REPAIR}"
    )


def other_distributions(folders: Iterable[str] | None = None) -> list[str]:
    """The metadata folders of others' distributions called prototorch, in the folders of packages (``sys.path``)."""
    paths = []
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        try:
            paths += [os.path.join(folder, name) for name in os.listdir(folder or ".") if _METADATA.fullmatch(name)]
        except OSError:  # a zip file, or a folder that is not there
            continue
    return [path for path in paths if not _is_own(path)]


def _is_own(path: str) -> bool:
    for name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(path, name), "rb") as file:
                return _AUTHOR in file.read(4096)
        except OSError:
            continue
    return False


def installation_warning() -> str:
    """A warning of another distribution in the same folders, with what to do; empty where there is none."""
    others = other_distributions()
    if not others:
        return ""
    return (
        f"another distribution called prototorch is installed ({others[0]}): its files may lie among those of this "
        f"project, {DISTRIBUTION}; {_REPAIR}"
    )
