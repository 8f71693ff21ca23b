"""CUDA's runtime library (cudart), for cuDNN's graph API: it loads the library by its name, which fails where it was
installed by pip, and CuPy, which contains a copy, does not load it. Attention cannot be planned without it."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prototorch.errors import BackendError

__all__ = ["CUDART_PACKAGES", "CUDART_VARIABLE", "load_cudart", "loaded_cudarts"]

#: the distribution that contains the library, by the major version of CUDA (a part of CuPy's extra ctk)
CUDART_PACKAGES = {13: "nvidia-cuda-runtime", 12: "nvidia-cuda-runtime-cu12"}
#: names to cuDNN's graph API (1.28) the library that it loads: a path or a file name
CUDART_VARIABLE = "CUDNN_FRONTEND_CUDART_LIB_NAME"
_WHEEL_FOLDERS = {13: "cu13", 12: "cuda_runtime"}  # in the package nvidia
_MAPPED_FILES = Path("/proc/self/maps")


def load_cudart(major: int | None = None) -> str:
    """Load the library once for the process, and name it to cuDNN's graph API in ``CUDART_VARIABLE``; returns its path.

    The first that is found: the one that ``CUDART_VARIABLE`` names; one that the process has loaded already (PyTorch
    does so); of CUDA's version ``major`` (default: that of CuPy) a pip package's, then the system's; one that CuPy's
    cuda-pathfinder finds (conda, ``CUDA_PATH``). Raises BackendError where there is none, with the package to install.
    """
    path_in_environment = os.environ.get(CUDART_VARIABLE)
    if path_in_environment:
        try:
            ctypes.CDLL(path_in_environment)
        except OSError as why:
            raise BackendError(f"{CUDART_VARIABLE} names a library that cannot be loaded: {why}") from why
        return path_in_environment
    major = major or _cupy_major()
    for load in _candidates(major):
        try:
            name = load()
        except (OSError, ImportError, RuntimeError):  # not in this place
            continue
        path = next((p for p in loaded_cudarts() if Path(p).name.startswith(Path(name).name)), name)
        os.environ[CUDART_VARIABLE] = path
        return path
    raise BackendError(
        f"CUDA's runtime library {_soname(major)} is not found, and cuDNN cannot plan attention without it: "
        f"install the package {CUDART_PACKAGES.get(major, CUDART_PACKAGES[13])}, or set {CUDART_VARIABLE} to its path"
    )


def loaded_cudarts() -> tuple[str, ...]:
    """The paths of all versions of the library in this process; () where the system does not tell."""
    try:
        lines = _MAPPED_FILES.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = (line.split(maxsplit=5)[-1] for line in lines)
    return tuple(dict.fromkeys(path for path in paths if Path(path).name.startswith("libcudart.so")))


def _soname(major: int) -> str:
    return f"libcudart.so.{major}"


def _candidates(major: int) -> Iterator[Callable[[], str]]:
    """Functions that load one and return its name, the best first."""
    versions = (major, *(v for v in CUDART_PACKAGES if v != major))
    if hasattr(os, "RTLD_NOLOAD"):
        yield from (_loader(_soname(v), os.RTLD_NOLOAD) for v in versions)
    yield from (_loader(str(path)) for path in _wheel_files(major))
    yield _loader(_soname(major))
    yield _load_by_pathfinder


def _loader(name: str, mode: int = ctypes.DEFAULT_MODE) -> Callable[[], str]:
    def load() -> str:
        ctypes.CDLL(name, mode=mode)
        return name

    return load


def _wheel_files(major: int) -> Iterator[Path]:
    package = importlib.util.find_spec("nvidia")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder, _WHEEL_FOLDERS.get(major, f"cu{major}"), "lib", _soname(major))
        if path.is_file():
            yield path


def _load_by_pathfinder() -> str:
    pathfinder: Any = importlib.import_module("cuda.pathfinder")
    return str(pathfinder.load_nvidia_dynamic_lib("cudart").abs_path)


def _cupy_major() -> int:
    """The version of CUDA that CuPy was built for, which cuDNN's package has too."""
    try:
        return int(importlib.import_module("cupy").cuda.runtime.runtimeGetVersion()) // 1000
    except (ImportError, AttributeError):
        return max(CUDART_PACKAGES)
