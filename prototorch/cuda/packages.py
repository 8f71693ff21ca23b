"""The packages of the GPU backend: which ones a version of CUDA needs, which are installed, and what installs them."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from typing import NamedTuple

from prototorch.cuda.cudart import CUDART_PACKAGES

__all__ = ["CUDNN", "CUPY", "FRONTEND", "MIN_CUPY", "NCCL", "NVRTC", "REQUIREMENTS", "Package", "cupy_packages",
           "find_packages", "install_command", "missing_library_command", "version_of"]  # fmt: skip

#: the distributions of each library, by the major version of CUDA
CUPY = {13: "cupy-cuda13x", 12: "cupy-cuda12x"}
CUDNN = {13: "nvidia-cudnn-cu13", 12: "nvidia-cudnn-cu12"}
NCCL = {13: "nvidia-nccl-cu13", 12: "nvidia-nccl-cu12"}
NVRTC = {13: "nvidia-cuda-nvrtc", 12: "nvidia-cuda-nvrtc-cu12"}
FRONTEND = "nvidia-cudnn-frontend"
MIN_CUPY = (14,)
#: what a GPU needs, by the major version of CUDA: the extras cuda13 and cuda12 of pyproject.toml. cuDNN brings cuBLAS
#: along; CuPy's own extra [ctk] would bring cuFFT, cuRAND, cuSOLVER and cuSPARSE as well, which models do not need
REQUIREMENTS = {
    major: (
        f"{CUPY[major]}>=14.2,<15", f"{NVRTC[major]}>={major},<{major + 1}",
        f"{CUDART_PACKAGES[major]}>={major},<{major + 1}", f"{CUDNN[major]}>=9.19,<10", f"{FRONTEND}>=1.18,<1.29",
    )
    for major in (13, 12)
}  # fmt: skip
#: libraries that only a few ops need, as CuPy's error names them, with their distributions for CUDA 13; what none of
#: these is, is a part of cuSOLVER's (linear algebra)
_OPTIONAL = {
    "cublas": "nvidia-cublas",
    "cufft": "nvidia-cufft",
    "curand": "nvidia-curand",
    "nvrtc": "nvidia-cuda-nvrtc",
}
#: all distributions that contain the package cupy: for CUDA, from source or conda, for AMD's GPUs
_CUPY_NAMES = (
    *CUPY.values(), "cupy", "cupy-cuda11x", *(f"cupy-cuda{version}" for version in (102, *range(110, 118))),
    "cupy-rocm-7-0", "cupy-rocm-5-0", "cupy-rocm-4-3", "cupy-rocm-4-0",
)  # fmt: skip


class Package(NamedTuple):
    """An installed distribution."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its version: (14, 2, 0)."""
        return tuple(int(n) for n in re.findall(r"\d+", self.version.partition("+")[0])[:3])

    @property
    def cuda(self) -> int | None:
        """The major version of CUDA that the name tells; None where it tells none (CuPy from conda or source)."""
        match = re.search(r"-cu(?:da)?(\d+)x?$", self.name)
        if match is None:
            return None
        major = int(match[1])
        return major if major < 100 else major // 10  # cupy-cuda118


def find_packages(*names: str) -> tuple[Package, ...]:
    """Those of the distributions that are installed. None of them is imported."""
    packages = []
    for name in names:
        version = version_of(name)
        if version is not None:
            packages.append(Package(name, version))
    return tuple(packages)


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cupy_packages() -> tuple[Package, ...]:
    """The installed distributions that contain the package ``cupy``: one, unless something is wrong. One without a
    distribution, which another packager has installed, has an empty version."""
    if importlib.util.find_spec("cupy") is None:
        return ()
    return find_packages(*_CUPY_NAMES) or (Package("cupy", ""),)


def install_command(major: int | None, remove: tuple[str, ...] = ()) -> str:
    """The command that installs what a GPU needs. major: the version of CUDA that the driver supports, None where there
    is no driver. remove: distributions that are in the way."""
    command = "pip install " + " ".join(f"'{requirement}'" for requirement in REQUIREMENTS[choose_major(major)])
    return f"pip uninstall -y {' '.join(remove)} && {command}" if remove else command


def choose_major(major: int | None) -> int:
    """The version of CUDA that packages are installed for: the newest that a driver supports; None: no driver."""
    if major is None:
        return max(REQUIREMENTS)
    return max((m for m in REQUIREMENTS if m <= major), default=min(REQUIREMENTS))


def missing_library_command(error: BaseException, major: int | None) -> str:
    """The command that installs the library of CUDA that an ImportError of CuPy misses. major: CUDA's version."""
    text = str(error).partition("listdir")[0].lower()
    name = next((package for library, package in _OPTIONAL.items() if library in text), "nvidia-cusolver")
    return f"pip install {name}{'-cu12' if major == 12 else ''}"
