"""Activation functions as modules."""

from __future__ import annotations

from typing import Any

from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule
from prototorch.nn.init import constant_
from prototorch.nn.parameter import new_parameter

__all__ = ["CELU",     "ELU",     "GELU",     "GLU",     "SELU",     "Hardshrink",     "Hardsigmoid",
           "Hardswish",     "Hardtanh",     "LeakyReLU",     "LogSigmoid",     "Mish",     "PReLU",     "ReLU",
           "ReLU6",     "SiLU",     "Sigmoid",     "Softplus",     "Softshrink",     "Softsign",     "Tanh",
           "Tanhshrink",     "Threshold"]  # fmt: skip


class ReLU(FieldModule):
    """max(x, 0)."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.relu(input, self.inplace)


class ReLU6(FieldModule):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.relu6(input, self.inplace)


class Hardtanh(FieldModule):
    """The elements brought into [min_val, max_val]; min_value and max_value are older names of them."""

    text_fields = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ):
        super().__init__()
        if min_value is not None or max_value is not None:
            warn_user("Hardtanh: min_value and max_value are older names of min_val and max_val", ModelWarning)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise UsageError(f"Hardtanh: expected min_val < max_val, got {self.min_val} and {self.max_val}")

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ELU(FieldModule):
    """x where x > 0, else alpha * (exp(x) - 1)."""

    text_fields = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(FieldModule):
    """x where x > 0, else alpha * (exp(x / alpha) - 1)."""

    text_fields = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(FieldModule):
    """1.0507 * elu(x, 1.6733)."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.selu(input, self.inplace)


class GELU(FieldModule):
    """x * P(X <= x) of a normal X; approximate: "none" or "tanh"."""

    text_fields = ("approximate",)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.gelu(input, self.approximate)


class SiLU(FieldModule):
    """x * sigmoid(x)."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.silu(input, self.inplace)


class Mish(FieldModule):
    """x * tanh(softplus(x))."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.mish(input, self.inplace)


class LeakyReLU(FieldModule):
    """x where x > 0, else negative_slope * x."""

    text_fields = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class Sigmoid(FieldModule):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.sigmoid(input)


class LogSigmoid(FieldModule):
    """log(1 / (1 + exp(-x)))."""

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.logsigmoid(input)


class Hardsigmoid(FieldModule):
    """min(max(x + 3, 0), 6) / 6."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Hardswish(FieldModule):
    """x * hardsigmoid(x)."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Tanh(FieldModule):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.tanh(input)


class Tanhshrink(FieldModule):
    """x - tanh(x)."""

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.tanhshrink(input)


class Softplus(FieldModule):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    text_fields = (
        "beta",
        "threshold",
    )

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.softplus(input, self.beta, self.threshold)


class Softsign(FieldModule):
    """x / (1 + |x|)."""

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.softsign(input)


class Softshrink(FieldModule):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound alone, as in PyTorch."""
        return str(self.lambd)


class Hardshrink(FieldModule):
    """x where |x| > lambd, else 0."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound alone, as in PyTorch."""
        return str(self.lambd)


class Threshold(FieldModule):
    """x where x > threshold, else value."""

    text_fields = (
        "threshold",
        "value",
    )

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        """[...] to [...], element by element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class GLU(FieldModule):
    """The first half of a dimension times the sigmoid of the second."""

    text_fields = ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """[..., 2 n, ...] to [..., n, ...], halved along ``dim``. Raises ShapeError for an odd size."""
        return F.glu(input, self.dim)


class PReLU(FieldModule):
    """x where x > 0, else weight * x, with a weight for each channel or one for all (He et al., 2015).

    num_parameters: 1, or the number of channels. init: the first value of the weight.
    """

    text_fields = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        """[batch, num_parameters, ...] to the same shape; with one parameter [...] to [...]."""
        return F.prelu(input, self.weight)
