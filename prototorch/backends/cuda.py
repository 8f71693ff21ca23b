"""``torch.backends.cuda``: whether matrix products of float32 on a GPU may be rounded to TF32."""

from __future__ import annotations

from prototorch.cuda.availability import has_gpu
from prototorch.eager.compute_modes import MODES
from prototorch.errors import UsageError

__all__ = ["is_built", "matmul"]


class _MatmulSwitches:
    """The switches of matrix products."""

    @property
    def allow_tf32(self) -> bool:
        """Whether the factors may be rounded to TF32: False at first. The same switch as
        `set_float32_matmul_precision`, and that of convolutions."""
        return MODES.matmul_precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise UsageError(f"allow_tf32: expected True or False, got {value!r:.60}")
        if value != self.allow_tf32:
            MODES.set("matmul_precision", "high" if value else "highest")

    def __setattr__(self, name: str, value: object) -> None:
        if name != "allow_tf32":
            raise AttributeError(f"backends.cuda.matmul has no switch {name!r}: there is allow_tf32")
        super().__setattr__(name, value)


matmul = _MatmulSwitches()


def is_built() -> bool:
    """Whether this machine has a GPU that the package can compute on (torch.backends.cuda.is_built)."""
    return has_gpu()
