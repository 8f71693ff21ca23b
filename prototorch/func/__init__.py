"""Functions that give the gradients of functions, by the names of PyTorch's ``torch.func``.

    from prototorch.func import functional_call, grad

    def loss(parameters, x, y):
        return F.mse_loss(functional_call(net, parameters, (x,)), y)

    gradients = grad(loss)(dict(net.named_parameters()), x, y)     # {name: gradient}

They may be nested: ``grad(grad(f))`` is the second derivative. Arguments may be tuples, lists and dicts of tensors. All
are computed on the tape, in reverse mode.
"""

from typing import NoReturn

from prototorch.errors import did_you_mean
from prototorch.func.gradients import grad, grad_and_value
from prototorch.func.jacobians import hessian, jacrev, vjp
from prototorch.nn.functional_call import functional_call

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacrev", "vjp"]

_NO_FORWARD_MODE = "there is no forward mode; jacrev, vjp and autograd.functional.jvp are in reverse mode"
_MISSING = {
    "vmap": "functions are not mapped over an axis; give them an axis of the batch",
    "jacfwd": _NO_FORWARD_MODE,
    "jvp": _NO_FORWARD_MODE,
    "linearize": _NO_FORWARD_MODE,
    "functionalize": "a function is traced by pt.compile",
    "stack_module_state": "it is for vmap, which does not exist",
    "replace_all_batch_norm_modules_": "it is for vmap, which does not exist",
}


def __getattr__(name: str) -> NoReturn:
    reason = _MISSING.get(name)
    hint = f": {reason}" if reason else f".{did_you_mean(name, __all__)}"
    raise AttributeError(f"prototorch.func.{name} does not exist{hint}")


def __dir__() -> list[str]:
    return __all__
