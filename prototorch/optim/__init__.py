"""Optimizers of tensors, by PyTorch's names and definitions; `lr_scheduler` has the schedules of their learning rates.

    optimizer = prototorch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

(`prototorch.optimizers` are Keras', which `Model.compile` takes.)
"""

from typing import Any

from prototorch.base.public_names import PublicNames
from prototorch.errors import UsageError

#: PyTorch's optimizers that are not here -> why, and what to use
REFUSALS = {
    "SparseAdam": "there are no sparse gradients; Adam updates all rows",
    "Adafactor": "its states are factors of matrices; Adam keeps whole ones",
    "Muon": "it orthogonalizes the updates of matrices; use AdamW",
}

_MODULES = {"optimizer": "Optimizer", "lr_scheduler": "lr_scheduler", "swa_utils": "swa_utils"}
_NAMES = PublicNames(__name__, _MODULES, family="optim")
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    if name in REFUSALS:
        raise UsageError(f"prototorch.optim has no {name}: {REFUSALS[name]}")
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return __all__
