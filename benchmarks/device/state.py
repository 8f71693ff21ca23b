"""What has been run, with its results, on disk: a rerun with the same sources, device and versions continues there."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks.isolated_process import ROOT

#: ignored by git
BUILD = ROOT / "build" / "device"
#: what is carried as wheels, by the version of the interpreter; and the caches of all libraries
SITE, CACHE = BUILD / f"site-cp{sys.version_info[0]}{sys.version_info[1]}", BUILD / "cache"
#: the sources whose results these are
SOURCES = ("prototorch", "benchmarks", "tests", "models", "grammars")
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".c", ".proto", ".lark", ".sh", ".toml", ".txt")
PACKAGES = (
    "numpy", "torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "lark",
    "h5py", "nvidia-cudnn-frontend", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-nccl-cu13", "ml-dtypes",
    "llvmlite", "rich", "click", "pillow", "threadpoolctl", "pytest", "pytest-xdist",
)  # fmt: skip
STAND_IN = "PROTOTORCH_STAND_IN"  # where it is set, a fake device takes the place of the GPU

RUNNING, PASSED, FAILED, TIMED_OUT, INTERRUPTED = "running", "passed", "failed", "timed out", "interrupted"
CUT = "cut, open again"  # the time of its part ended, not its own


@dataclass
class StepState:
    """How a step ended. ``status``: one of the constants above. ``attempts``: how often it was begun."""

    status: str
    seconds: float = 0.0
    code: int | None = None
    attempts: int = 1
    sources: str = ""


def hash_sources(root: Path = ROOT) -> str:
    """Ten digits that name the sources: a checkout without git's folder has no commit."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:10]


def read_commit() -> str:
    """The commit, where git tells; else ""."""
    try:
        done = subprocess.run(
            ["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def query_gpu() -> str:
    """The GPU's name; "stand-in" for a fake device, "no GPU" where the driver shows none."""
    if os.environ.get(STAND_IN):
        return "stand-in"
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "no GPU"
    return (done.stdout.strip().splitlines() or ["no GPU"])[0] if not done.returncode else "no GPU"


def installed_versions() -> dict[str, str]:
    """Versions by package, Python among them, with those in `SITE`; nothing is imported."""
    found = {"python": platform.python_version()}
    for one in distributions(path=[str(SITE), *sys.path]):
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower()
        if name in PACKAGES:
            found.setdefault(name, one.version)
    return dict(sorted(found.items()))


class RunState:
    """The folder of one device and one set of versions, with a folder for each step.

    Attributes:
        folder: ``steps/NAME`` in it holds the step's state, its output and the files that it wrote.
        sources: see `hash_sources`.
    """

    def __init__(self, base: Path, device: str, versions: dict[str, str], sources: str, keep_passed: bool = False):
        key = hashlib.sha256(json.dumps([device, versions]).encode()).hexdigest()[:8]
        slug = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-")
        self.folder = base / "results" / f"{slug}-{key}"
        self.sources, self.keep_passed = sources, keep_passed
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = {"device": device, "versions": versions, "sources": sources, "commit": read_commit()}
        write_json(self.folder / "machine.json", facts)

    def step_folder(self, name: str) -> Path:
        """The folder of a step."""
        path = self.folder / "steps" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, name: str) -> StepState | None:
        """How a step ended; None where it has not been run with these sources."""
        try:
            state = StepState(**json.loads((self.step_folder(name) / "state.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        same = state.sources == self.sources or (self.keep_passed and state.status == PASSED)
        return state if same else None

    def write(self, name: str, state: StepState) -> None:
        """Keep how a step stands."""
        state.sources = self.sources
        write_json(self.step_folder(name) / "state.json", asdict(state))

    def clear(self, name: str) -> None:
        """Forget a step."""
        for path in self.step_folder(name).iterdir():
            if path.is_file():
                path.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write a file that is whole or absent."""
    aside = path.with_suffix(path.suffix + ".tmp")
    aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(aside, path)
