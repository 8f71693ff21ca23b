"""Parameters as one vector, and back, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable

from prototorch.eager.functions.joining import cat
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters, one parameter after another, as a tensor of one axis.

    Raises UsageError where there are none, or they lie on several devices.
    """
    params = list(parameters)
    _check_devices(params)
    if not params:
        raise UsageError("parameters_to_vector: there are no parameters")
    return cat([p.reshape(-1) for p in params])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters take the elements of a vector, one parameter after another; they share its memory.

    Raises UsageError where the numbers of elements differ.
    """
    params = list(parameters)
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters takes a tensor, got a {type(vec).__name__}")
    _check_devices(params)
    total = sum(p.spec.size for p in params)
    if vec.ndim != 1 or total != vec.spec.size:
        raise UsageError(f"the parameters have {total} elements, and the vector has the shape {list(vec.shape)}")
    begin = 0
    for p in params:
        p.data = vec[begin : begin + p.spec.size].reshape(*p.spec.shape).detach()
        begin += p.spec.size


def _check_devices(params: list[Tensor]) -> None:
    devices = {str(p.device) for p in params}
    if len(devices) > 1:
        raise UsageError(f"the parameters lie on several devices: {', '.join(sorted(devices))}")
