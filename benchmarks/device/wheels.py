"""Wheels that are carried along, installed into a folder of the tree: nothing is fetched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

#: of what a GPU machine may lack: the model language's parser, and cuDNN's graphs from Python
DOWNLOAD = (
    "python3 -m pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "
    "--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 "
    "-d .whl 'lark>=1.2' nvidia-cudnn-frontend==1.28.0"
)


def fitting_wheels(folder: Path, version: Sequence[int] = sys.version_info) -> list[Path]:
    """The wheels of a folder that this Python can load: by the tag of the interpreter in their names."""
    tags = {f"cp{version[0]}{version[1]}", f"py{version[0]}", f"py{version[0]}{version[1]}"}
    return [w for w in sorted(folder.glob("*.whl")) if tags & _interpreter_tags(w)]


def _interpreter_tags(wheel: Path) -> set[str]:
    """Those of NAME-VERSION[-BUILD]-INTERPRETER-ABI-PLATFORM.whl; none where the name is another."""
    parts = wheel.stem.split("-")
    return set(parts[-3].split(".")) if len(parts) in (5, 6) else set()


def install_wheels(folder: Path, site: Path) -> Iterator[str]:
    """Install what fits, once; a line for whatever was done or left out."""
    wheels, marker = fitting_wheels(folder), site / "installed.txt"
    others = sorted(set(folder.glob("*.whl")) - set(wheels))
    for wheel in others:
        tags = sorted(_interpreter_tags(wheel))
        why = f"it is for {'.'.join(tags)}" if tags else "its name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
        yield f"wheel left out: {wheel.name}: {why}"
    names = "\n".join(w.name for w in wheels)
    if not wheels or (marker.exists() and marker.read_text(encoding="utf-8") == names):
        return
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile",
               "--no-cache-dir", "--upgrade", "--target", str(site), *map(str, wheels)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"the wheels could not be installed: {done.stderr.strip()[-1000:]}"
        return
    marker.write_text(names, encoding="utf-8")
    yield f"installed: {', '.join(w.name for w in wheels)}"
