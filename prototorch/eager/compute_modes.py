"""How tensors on a GPU are computed, by PyTorch's switches: TF32, deterministic algorithms, choosing by timing.

A GPU takes them when the first tensor is on it. What is asked for later and is stricter, float32 after TF32 or equal
bits, is refused there, not ignored; what a switch merely allows need not be used. On the CPU products of float32 are
float32 and results repeat, whatever they say.
"""

from __future__ import annotations

from typing import Any

from prototorch.errors import UsageError, did_you_mean

__all__ = ["MODES", "ComputeModes", "are_deterministic_algorithms_enabled", "get_float32_matmul_precision",
           "set_float32_matmul_precision", "use_deterministic_algorithms"]  # fmt: skip

_PRECISIONS = ("highest", "high", "medium")


class ComputeModes:
    """The switches.

    matmul_precision: of products and convolutions of float32: "highest" is float32; "high" and "medium" may round the
    factors to TF32. deterministic: the same bits in every run. autotune: kernels are chosen by timing. gpu_options:
    by GPU what its tensors are computed with.
    """

    def __init__(self) -> None:
        self.matmul_precision, self.deterministic, self.autotune = "highest", False, False
        self.gpu_options: dict[str, dict[str, Any]] = {}

    def set(self, name: str, value: Any) -> None:
        """Set a switch. Raises UsageError where a GPU computes with less than what is asked for."""
        for device, options in self.gpu_options.items():
            is_tf32 = name == "matmul_precision" and value == "highest" and options["precision"] != "fp32"
            if is_tf32 or (name == "deterministic" and value and not options["deterministic"]):
                how = "in TF32" if is_tf32 else "without equal bits in every run"
                raise UsageError(
                    f"{name} = {value!r}: tensors are on {device} already, which computes {how}; set it at the start "
                    "of the program, before the first tensor is on a GPU"
                )
        setattr(self, name, value)

    def backend_options(self, device: str) -> dict[str, Any]:
        """The arguments of `backend_for` for the tensors on a GPU, which has taken the switches from here on."""
        precision = "fp32" if self.matmul_precision == "highest" else "auto"
        options = {"precision": precision, "deterministic": self.deterministic, "autotune": self.autotune}
        self.gpu_options[device] = options
        return options


#: those of this process
MODES = ComputeModes()


def set_float32_matmul_precision(precision: str) -> None:
    """How products and convolutions of float32 are computed on a GPU: "highest" (the default) in float32, "high" and
    "medium" with factors that may be rounded to TF32's 10 bits (torch.set_float32_matmul_precision).

    Raises UsageError for another word, and where tensors are on a GPU that computes otherwise.
    """
    if precision not in _PRECISIONS:
        raise UsageError(
            f"set_float32_matmul_precision: expected {', '.join(map(repr, _PRECISIONS))}, got {precision!r:.60}."
            f"{did_you_mean(str(precision), _PRECISIONS)}"
        )
    MODES.set("matmul_precision", precision)


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` has set: "highest" at first (torch.get_float32_matmul_precision)."""
    return MODES.matmul_precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Whether operations on a GPU give the same bits in every run; every operation here can
    (torch.use_deterministic_algorithms). warn_only: taken for PyTorch's programs.

    Raises UsageError for what is no bool, and where tensors are on a GPU that computes otherwise.
    """
    if not isinstance(mode, bool):
        raise UsageError(f"use_deterministic_algorithms: expected True or False, got {mode!r:.60}")
    MODES.set("deterministic", mode)
    _ = warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` has set (torch.are_deterministic_algorithms_enabled)."""
    return MODES.deterministic
