"""Whether a GPU can be used: the driver, the GPUs and the installed packages beside each other, and what mends it."""

from __future__ import annotations

from typing import NamedTuple

from prototorch.cuda.driver import DriverInfo, query_driver
from prototorch.cuda.packages import (
    CUDNN,
    FRONTEND,
    MIN_CUPY,
    Package,
    choose_major,
    cupy_packages,
    find_packages,
    install_command,
)

__all__ = ["LOW_PRECISION", "MIN_CAPABILITY", "DriverInfo", "Problem", "cudnn_conflict", "cudnn_problem",
           "find_problem", "gpu_problem", "has_gpu", "is_available", "missing_gpu_reason", "query_driver",
           "unavailable_reason"]  # fmt: skip

MIN_CAPABILITY = (7, 5)  # Turing: older GPUs are left out by CUDA 13, and by cuDNN from 9.11 on
LOW_PRECISION = (8, 0)  # Ampere: bf16 and tf32
MIN_CUDNN = (9, 19)
FRONTEND_VERSIONS = ((1, 18), (1, 29))  # from, below: 1.29 and newer bring 190 MB of other packages along
MIN_DRIVER = 12  # the oldest version of CUDA that there is a CuPy 14 of


class Problem(NamedTuple):
    """Why something cannot be used, and the command that mends it, or "" where none does."""

    reason: str
    command: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.command}" if self.command else self.reason


def is_available() -> bool:
    """Whether "auto" means the GPU: the driver shows one, and what is installed fits it."""
    return not unavailable_reason()


def has_gpu() -> bool:
    """Whether the driver shows a GPU or fails: whether someone may expect the GPU to be used."""
    driver = query_driver()
    return driver is not None and (driver.gpus > 0 or bool(driver.error_text))


def unavailable_reason() -> str:
    """Why no GPU can be used, and what to install; "" where one can."""
    problem = find_problem(query_driver(), cupy_packages())
    return "" if problem is None else str(problem)


def find_problem(driver: DriverInfo | None, cupy: tuple[Package, ...]) -> Problem | None:
    """Why no GPU can be used with this driver and these distributions of CuPy; None where one can."""
    if driver is None:
        why = "this machine has no NVIDIA driver"
        return Problem(why if cupy else f"{why}, and CuPy is not installed ({install_command(None)})")
    if driver.error_text:
        return Problem(f"the NVIDIA driver does not start ({driver.error_text}); `nvidia-smi` tells more")
    if not driver.gpus:
        return Problem("the NVIDIA driver shows no GPU (`nvidia-smi` and CUDA_VISIBLE_DEVICES tell why)")
    if driver.major < MIN_DRIVER:
        return Problem(f"the NVIDIA driver is for CUDA {driver.text}: install a newer one, for CUDA {MIN_DRIVER} or 13")
    problems = [gpu_problem(driver, index) for index in range(driver.gpus)]
    if all(problems):
        return problems[0]
    return _cupy_problem(driver, cupy)


def _cupy_problem(driver: DriverInfo, cupy: tuple[Package, ...]) -> Problem | None:
    """Why these distributions of CuPy cannot be used with a driver that shows GPUs."""
    if not cupy:
        return Problem("CuPy is not installed", install_command(driver.major))
    names = tuple(package.name for package in cupy)
    mend = install_command(driver.major, (*names, *_unfit_cudnn(driver.major)))
    if len(cupy) > 1:
        return Problem(f"{' and '.join(map(str, cupy))} are installed, and overwrite each other's files", mend)
    (package,) = cupy
    if "rocm" in package.name:
        return Problem(f"CuPy is for AMD's GPUs ({package})", mend)
    if package.version and package.numbers < MIN_CUPY:
        return Problem(f"CuPy is too old ({package}), and {MIN_CUPY[0]} is needed", mend)
    if package.cuda is not None and package.cuda > driver.major:
        return Problem(
            f"CuPy is for CUDA {package.cuda} ({package}), and the NVIDIA driver for CUDA {driver.text}", mend
        )
    if package.cuda is not None and package.cuda < MIN_DRIVER:
        return Problem(f"CuPy is for CUDA {package.cuda} ({package}), and {MIN_DRIVER} is needed", mend)
    return None


def _unfit_cudnn(major: int) -> tuple[str, ...]:
    """The distributions of cuDNN that are in the way of the one for this driver: several, or one for another CUDA."""
    packages = find_packages(*CUDNN.values())
    return tuple(p.name for p in packages if len(packages) > 1 or p.cuda not in (choose_major(major), None))


def gpu_problem(driver: DriverInfo, index: int) -> Problem | None:
    """Why one of the GPUs cannot be used; None where it can, or its capability is not known."""
    capability = driver.capability(index)
    if capability is None or capability >= MIN_CAPABILITY:
        return None
    actual, needed = (".".join(map(str, c)) for c in (capability, MIN_CAPABILITY))
    return Problem(f"the compute capability of {driver.name(index)} is {actual}, and {needed} (Turing) is needed")


def missing_gpu_reason(index: int) -> str:
    """Why the GPU of this number cannot be used: there is none (with the numbers that there are), or it is too old; ""
    where it can."""
    driver = query_driver()
    if driver is None:
        return ""
    if index < driver.gpus:
        problem = gpu_problem(driver, index)
        return "" if problem is None else str(problem)
    if driver.gpus == 1:
        return "this machine shows one GPU, 'cuda:0'"
    return f"this machine shows {driver.gpus} GPUs, 'cuda:0' to 'cuda:{driver.gpus - 1}'"


def cudnn_conflict(cupy: tuple[Package, ...]) -> Problem | None:
    """Why the installed cuDNN does not work beside these distributions of CuPy; None where it may."""
    major = next((package.cuda for package in cupy if package.cuda is not None), None)
    packages = find_packages(*CUDNN.values())
    if len(packages) < 2 and all(package.cuda in (major, None) or major is None for package in packages):
        return None
    why = "which overwrite each other's files" if len(packages) > 1 else f"and CuPy is for CUDA {major}"
    mend = install_command(major, tuple(package.name for package in packages))
    return Problem(f"cuDNN is installed by {' and '.join(map(str, packages))}, {why}", mend)


def cudnn_problem(driver: DriverInfo | None, cupy: tuple[Package, ...]) -> Problem | None:
    """Why cuDNN cannot be used: a conflict, a missing or an old package; None where pip's packages are as expected."""
    conflict = cudnn_conflict(cupy)
    if conflict is not None:
        return conflict
    cudnn_packages, frontend = find_packages(*CUDNN.values()), find_packages(FRONTEND)
    major = next((package.cuda for package in cupy if package.cuda is not None), None)
    command = install_command(major or (driver.major if driver is not None else None))
    missing = [name for name, packages in (("cuDNN", cudnn_packages), ("cuDNN's graph API", frontend)) if not packages]
    if missing:
        return Problem(" and ".join(missing) + " not installed", command)
    if cudnn_packages[0].numbers < MIN_CUDNN:
        return Problem(f"cuDNN is too old ({cudnn_packages[0]}), and 9.19 is needed", command)
    if not FRONTEND_VERSIONS[0] <= frontend[0].numbers < FRONTEND_VERSIONS[1]:
        return Problem(f"cuDNN's graph API ({frontend[0]}) is expected from 1.18 to 1.28", command)
    return None
