"""Affine maps as modules."""

from __future__ import annotations

import math
from typing import Any

from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule
from prototorch.nn.init import kaiming_uniform_, uniform_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Gives its input; takes any arguments."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__()

    def forward(self, input: Any) -> Any:
        """[...] to [...]: the input unchanged."""
        return input


class Linear(Module):
    """x W^T + b: input [..., in_features], output [..., out_features].

    Parameters: weight [out_features, in_features], bias [out_features], uniform in +-1 / sqrt(in_features).
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter((out_features, in_features), device, dtype)
        if bias:
            self.bias = new_parameter((out_features,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        """[..., in_features] to [..., out_features]."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


class Bilinear(FieldModule):
    """x1^T A x2 + b: inputs [..., in1_features] and [..., in2_features], output [..., out_features].

    Parameters: weight [out_features, in1_features, in2_features], bias [out_features], uniform in
    +-1 / sqrt(in1_features).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = new_parameter((out_features, in1_features, in2_features), device, dtype)
        if bias:
            self.bias = new_parameter((out_features,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        bound = 1 / math.sqrt(self.in1_features)
        uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """[..., in1_features] and [..., in2_features] to [..., out_features]."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
