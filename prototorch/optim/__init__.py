"""Optimizers of tensors, by PyTorch's names and definitions; `lr_scheduler` has the schedules of their learning rates.

    optimizer = prototorch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

(`prototorch.optimizers` are Keras', which `Model.compile` takes.)
"""

from typing import NoReturn

from prototorch.errors import UsageError, did_you_mean
from prototorch.optim import lr_scheduler as lr_scheduler
from prototorch.optim import swa_utils as swa_utils
from prototorch.optim.adam import Adam, AdamW
from prototorch.optim.adam_variants import Adamax, NAdam, RAdam
from prototorch.optim.lbfgs import LBFGS
from prototorch.optim.mean_squares import Adadelta, Adagrad, RMSprop
from prototorch.optim.optimizer import Optimizer
from prototorch.optim.rprop_asgd import ASGD, Rprop
from prototorch.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

#: PyTorch's optimizers that are not here -> why, and what to use
REFUSALS = {
    "SparseAdam": "there are no sparse gradients; Adam updates all rows",
    "Adafactor": "its states are factors of matrices; Adam keeps whole ones",
    "Muon": "it orthogonalizes the updates of matrices; use AdamW",
}


def __getattr__(name: str) -> NoReturn:
    if name in REFUSALS:
        raise UsageError(f"prototorch.optim has no {name}: {REFUSALS[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
