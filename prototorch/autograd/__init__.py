"""Automatic differentiation by PyTorch's names: gradients, functions with their own gradient, modes, and checks.

import prototorch.autograd as autograd
(g,) = autograd.grad((x * x).sum(), x, create_graph=True)
"""

from typing import NoReturn

from prototorch.autograd import anomaly_mode, function, functional, grad_mode, graph
from prototorch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from prototorch.autograd.gradcheck import gradcheck, gradgradcheck
from prototorch.autograd.variable import Variable
from prototorch.eager.function import Function
from prototorch.eager.functions.gradients import backward, grad
from prototorch.eager.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from prototorch.errors import did_you_mean

__all__ = [
    "Function",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

_MISSING = {
    "forward_ad": "there is no forward mode",
}


def __getattr__(name: str) -> NoReturn:
    reason = _MISSING.get(name)
    hint = f": {reason}" if reason else f".{did_you_mean(name, __all__)}"
    raise AttributeError(f"prototorch.autograd.{name} does not exist{hint}")


def __dir__() -> list[str]:
    return __all__
