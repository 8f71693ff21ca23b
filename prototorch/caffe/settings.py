"""The settings that pycaffe keeps for the whole process: the mode, the device, the random seed."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.device_name import parse_device
from prototorch.engine.backends.devices import backend_for, missing_device_reason
from prototorch.errors import BackendError, ModelWarning, warn_user

__all__ = [
    "SETTINGS", "allow_python", "current_backend", "has_nccl", "init_log", "log", "new_seed", "set_device",
    "set_mode_cpu", "set_mode_gpu", "set_multiprocess", "set_random_seed", "set_solver_count", "set_solver_rank",
    "solver_count", "solver_rank",
]  # fmt: skip

_LOGGER = logging.getLogger("prototorch.caffe")


@dataclass
class Settings:
    """device: "cpu" or "cuda". gpu: the number of the GPU. seed: None until `set_random_seed`. allows_python: whether
    Python layers may run."""

    device: str = "cpu"
    gpu: int = 0
    seed: int | None = None
    seeds_given: int = 0
    allows_python: bool = False
    solver_count: int = 1
    solver_rank: int = 0


SETTINGS = Settings()


def set_mode_cpu() -> None:
    """Nets that are made from here on compute on the CPU."""
    SETTINGS.device = "cpu"


def set_mode_gpu() -> None:
    """Nets that are made from here on compute on the GPU; where there is none, on the CPU, with a warning."""
    SETTINGS.device = "cuda"


def set_device(index: int) -> None:
    """Choose the GPU by its number, from 0, for the nets that are made from here on. Raises BackendError for a number
    that there is no GPU of."""
    name = parse_device(f"cuda:{index}")
    why = missing_device_reason(name) if name is not None else "GPUs have numbers from 0"
    if why:
        raise BackendError(f"set_device({index}): {why}")
    SETTINGS.gpu = index


def set_random_seed(seed: int) -> None:
    """The seed of the initial weights and random layers of the nets that are made from here on."""
    SETTINGS.seed, SETTINGS.seeds_given = int(seed), 0


def new_seed() -> int:
    """The seed of the next net: it follows from `set_random_seed`; without it, it is another one each time."""
    if SETTINGS.seed is None:
        return int.from_bytes(os.urandom(7), "little")
    SETTINGS.seeds_given += 1
    return SETTINGS.seed + SETTINGS.seeds_given - 1


def allow_python(allow: bool = True) -> None:
    """Let Python layers (``type: "Python"``) of nets run the modules that the nets name. Off by default: such a net
    runs code, so its file must be trusted."""
    SETTINGS.allows_python = allow


def current_backend(precision: str = "auto") -> Backend:
    """The backend of the current mode."""
    if SETTINGS.device == "cuda":
        try:
            return backend_for(f"cuda:{SETTINGS.gpu}", precision="fp32" if precision == "auto" else precision)
        except BackendError as error:
            warn_user(f"the GPU mode runs on the CPU: {error}", ModelWarning)
    return backend_for("cpu", precision=precision)


def init_log(level: int = 0, to_stderr: bool = True) -> None:
    """Show messages from a level on: 0 information, 1 warnings, 2 errors (as glog's)."""
    levels = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
    _LOGGER.setLevel(levels[min(max(level, 0), 3)])
    if to_stderr and not _LOGGER.handlers:
        _LOGGER.addHandler(logging.StreamHandler(sys.stderr))


def log(message: str) -> None:
    """Write a line of information to the log."""
    _LOGGER.info(message)


def has_nccl() -> bool:
    """False: training on several GPUs by NCCL is not part of this package."""
    return False


def solver_count() -> int:
    """The number that `set_solver_count` has set; 1 by default."""
    return SETTINGS.solver_count


def set_solver_count(count: int) -> None:
    """Keep a number of solvers for `solver_count`; one solver trains one net here, whatever it is."""
    SETTINGS.solver_count = int(count)


def solver_rank() -> int:
    """The number that `set_solver_rank` has set; 0 by default."""
    return SETTINGS.solver_rank


def set_solver_rank(rank: int) -> None:
    """Keep a number for `solver_rank`."""
    SETTINGS.solver_rank = int(rank)


def set_multiprocess(multiprocess: bool) -> None:
    """Accepted for scripts that call it: solvers of several processes know nothing of each other."""
