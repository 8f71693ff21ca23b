"""PyTorch's ``torch.nn.init``: functions that overwrite a tensor with its first elements, and give it.

The formulas are PyTorch's; the random numbers are those of `pt.manual_seed`, which are not PyTorch's own.
"""

from __future__ import annotations

import math
from typing import Any

from prototorch import ops
from prototorch.eager.functions.random import normal_elements, randperm, uniform_elements
from prototorch.eager.functions.ranges import eye as _eye
from prototorch.eager.generator import keys_of
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.initializers.random import Orthogonal

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"linear": 1.0, "identity": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
          "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0),
          "selu": 0.75}  # fmt: skip


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which weights before a nonlinearity are scaled: ``linear``, ``relu``, ``leaky_relu`` (``param``:
    the negative slope, default 0.01), ``tanh``, ``sigmoid``, ``selu``, or a convolution's name."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise UsageError(f"calculate_gain: the negative slope must be a number, got {param!r:.60}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        names = ", ".join([*_GAINS, "leaky_relu"])
        raise UsageError(f"calculate_gain: there is no nonlinearity {nonlinearity!r:.60}; there are {names}")
    return _GAINS[nonlinearity]


def _fill(tensor: Any, value: Any, name: str) -> Any:
    with no_grad():
        return assign(tensor, value, name)


def _check(tensor: Any, name: str, least: int = 0) -> None:
    if not isinstance(tensor, Tensor):
        raise UsageError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if tensor.ndim < least:
        raise UsageError(f"{name}: expected at least {least} dimensions, got the shape {list(tensor.shape)}")


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers in [a, b)."""
    _check(tensor, "uniform_")
    if a > b:
        raise UsageError(f"uniform_: expected a <= b, got {a} and {b}")
    value = uniform_elements(tuple(tensor.shape), a, b, tensor.dtype, tensor.interpreter, generator)
    return _fill(tensor, value, "uniform_")


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers of a mean and a standard deviation."""
    _check(tensor, "normal_")
    if std < 0:
        raise UsageError(f"normal_: std must not be negative, got {std}")
    value = normal_elements(tuple(tensor.shape), tensor.dtype, tensor.interpreter, generator)
    return _fill(tensor, value * float(std) + float(mean), "normal_")


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Any:
    """Normal numbers of a mean and a standard deviation, of which only those in [a, b] are drawn."""
    _check(tensor, "trunc_normal_")
    if std <= 0 or a > b:
        raise UsageError(f"trunc_normal_: expected std > 0 and a <= b, got std {std}, a {a} and b {b}")
    low, high = (math.erf((v - mean) / (std * math.sqrt(2.0))) for v in (a, b))
    u = uniform_elements(tuple(tensor.shape), low, high, tensor.dtype, tensor.interpreter, generator)
    value = ops.erfinv(u) * (std * math.sqrt(2.0)) + float(mean)
    return _fill(tensor, ops.clip(value, float(a), float(b)), "trunc_normal_")


def constant_(tensor: Any, val: float) -> Any:
    """One value for all elements."""
    _check(tensor, "constant_")
    value = ops.zeros_like(tensor.detach()) + val if tensor.spec.is_float else ops.zeros_like(tensor) + int(val)
    return _fill(tensor, value, "constant_")


def ones_(tensor: Any) -> Any:
    """1 for all elements."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """0 for all elements."""
    return constant_(tensor, 0.0)


def eye_(tensor: Any) -> Any:
    """The identity matrix in a tensor of two dimensions."""
    if tensor.ndim != 2:
        raise UsageError(f"eye_: expected two dimensions, got the shape {list(tensor.shape)}")
    return _fill(tensor, _eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device), "eye_")


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """A convolution's weight [out, in, *kernel] (1 to 3 kernel dimensions) that keeps as many channels as it can, in
    each group."""
    if not 3 <= tensor.ndim <= 5:
        raise UsageError(f"dirac_: expected 3 to 5 dimensions, got the shape {list(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise UsageError(f"dirac_: {tensor.shape[0]} output channels do not divide into {groups} groups")
    out = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    zeros_(tensor)
    with no_grad():
        for group in range(groups):
            for k in range(min(out, tensor.shape[1])):
                tensor[(group * out + k, k, *centre)] = 1.0
    return tensor


def fan_in_and_fan_out(tensor: Any, name: str) -> tuple[int, int]:
    """The numbers of inputs and outputs that a weight [out, in, *kernel] connects one element to."""
    _check(tensor, name, 2)
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


_calculate_fan_in_and_fan_out = lambda tensor: fan_in_and_fan_out(tensor, "fan_in_and_fan_out")  # noqa: E731


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers of the variance 2 / (fan_in + fan_out) * gain^2 (Glorot and Bengio, 2010)."""
    bound = math.sqrt(3.0) * _xavier_deviation(tensor, gain, "xavier_uniform_")
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers of the variance 2 / (fan_in + fan_out) * gain^2 (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, _xavier_deviation(tensor, gain, "xavier_normal_"), generator)


def _xavier_deviation(tensor: Any, gain: float, name: str) -> float:
    return gain * math.sqrt(2.0 / max(sum(fan_in_and_fan_out(tensor, name)), 1))


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Uniform numbers of the variance gain^2 / fan (He et al., 2015). a: the negative slope of ``leaky_relu``. mode:
    ``fan_in`` or ``fan_out``."""
    bound = math.sqrt(3.0) * _kaiming_deviation(tensor, a, mode, nonlinearity, "kaiming_uniform_")
    return uniform_(tensor, -bound, bound, generator) if tensor.spec.size else tensor


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Normal numbers of the variance gain^2 / fan (He et al., 2015); as `kaiming_uniform_`."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity, "kaiming_normal_")
    return normal_(tensor, 0.0, deviation, generator) if tensor.spec.size else tensor


def _kaiming_deviation(tensor: Any, a: float, mode: str, nonlinearity: str, name: str) -> float:
    _check(tensor, name)
    if 0 in tensor.shape:
        warn_user(f"{name}: the tensor {list(tensor.shape)} has no elements", ModelWarning)
        return 0.0
    fans = dict(zip(("fan_in", "fan_out"), fan_in_and_fan_out(tensor, name), strict=True))
    if str(mode).lower() not in fans:
        raise UsageError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r:.60}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[str(mode).lower()])


def orthogonal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """A matrix [rows, all other dimensions] with orthonormal rows, or columns where these are fewer (Saxe et al.,
    2013), times ``gain``."""
    _check(tensor, "orthogonal_", 2)
    if not tensor.spec.size:
        return tensor
    rows, columns = tensor.shape[0], tensor.spec.size // tensor.shape[0]
    values = Orthogonal(gain=float(gain)).values((rows, columns), keys_of(generator).next_generator(), (columns, rows))
    value = tensor.interpreter.constant(values)
    return _fill(
        tensor, ops.reshape(ops.cast(value, dtype=str(tensor.dtype)), shape=tuple(tensor.shape)), "orthogonal_"
    )


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal numbers in a tensor of two dimensions, with the fraction ``sparsity`` of each column set to 0 (Martens,
    2010)."""
    if tensor.ndim != 2:
        raise UsageError(f"sparse_: expected two dimensions, got the shape {list(tensor.shape)}")
    rows, columns = tensor.shape
    count = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        for column in range(columns):
            tensor[randperm(rows, generator=generator)[:count], column] = 0.0
    return tensor


def _older(name: str) -> Any:
    function = globals()[f"{name}_"]

    def older(*args: Any, **options: Any) -> Any:
        warn_user(f"nn.init.{name} is PyTorch's older name: use nn.init.{name}_", FutureWarning)
        return function(*args, **options)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = f"The older name of `{name}_`."
    return older


for _name in (
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
):
    globals()[_name] = _older(_name)
    __all__.append(_name)
