"""Names that PyTorch's package has beside the methods: in-place functions, detach, the state of random numbers."""

from __future__ import annotations

from typing import Any

from prototorch.eager.generator import default_generator
from prototorch.eager.registry import tensor_function
from prototorch.eager.tensor import Tensor

__all__ = ["detach", "get_rng_state", "initial_seed", "seed", "set_rng_state", "typename"]

#: functions ``pt.NAME_`` that overwrite their tensor, which PyTorch has beside the methods of these names
_IN_PLACE = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max
    clamp_min clip cos cosh deg2rad erf erfc exp exp2 expm1 fill fix floor frac i0 ldexp log log10 log1p log2 logit
    nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy
    zero
"""


def _define(name: str) -> None:
    def function(input: Any, *args: Any, **options: Any) -> Any:
        return getattr(input, name)(*args, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As the method `{name}`: the tensor is overwritten (torch.{name})."
    tensor_function(function, name=name, method=False, symbolic=False)


for _name in _IN_PLACE.split():
    _define(f"{_name}_")


@tensor_function(method=False)
def detach(input: Tensor) -> Tensor:
    """The same memory without the tape (torch.detach)."""
    return input.detach()


@tensor_function(method=False, symbolic=False)
def get_rng_state() -> Tensor:
    """The state of the default generator (torch.get_rng_state)."""
    return default_generator.get_state()


@tensor_function(method=False, symbolic=False)
def set_rng_state(new_state: Tensor) -> None:
    """Continue from a state that `get_rng_state` gave (torch.set_rng_state)."""
    default_generator.set_state(new_state)


@tensor_function(method=False, symbolic=False)
def seed() -> int:
    """Begin again from a seed of the operating system, which is returned (torch.seed)."""
    return default_generator.seed()


@tensor_function(method=False, symbolic=False)
def initial_seed() -> int:
    """The seed that the default generator began with (torch.initial_seed)."""
    return default_generator.initial_seed()


@tensor_function(method=False, symbolic=False)
def typename(obj: Any) -> str:
    """The name of a tensor's type, or of a value's class (torch.typename)."""
    return str(obj.type()) if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__name__}"
