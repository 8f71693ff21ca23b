"""Normalization without running statistics as modules."""

from __future__ import annotations

from typing import Any

from prototorch.errors import UsageError
from prototorch.nn import functional as F
from prototorch.nn.field_module import FieldModule
from prototorch.nn.init import ones_, zeros_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """A module with a weight of 1 and a bias of 0 at first, or without them."""

    weight: Any
    bias: Any

    def _make_affine(self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, is_there in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, new_parameter(shape, device, dtype) if is_there else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            ones_(self.weight)
        if self._parameters.get("bias") is not None:
            zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalization over the last dimensions, of the sizes ``normalized_shape``; weight and bias have that shape."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Any) -> Any:
        """[..., *normalized_shape] to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """x / sqrt(mean(x^2) + eps) over the last dimensions, of the sizes ``normalized_shape``. eps: default the element
    type's machine epsilon."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter(
            "weight", new_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        )
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        """[..., *normalized_shape] to the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


def _as_shape(value: Any) -> tuple[int, ...]:
    sizes = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(n, int) for n in sizes) or not sizes:
        raise UsageError(f"normalized_shape must be an integer or several, got {value!r:.60}")
    return tuple(sizes)


class GroupNorm(_Affine):
    """Normalization of ``num_groups`` groups of the channels of each sample; weight and bias [num_channels]."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise UsageError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make_affine((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Any) -> Any:
        """[batch, num_channels, ...] to the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(FieldModule):
    """Normalization by neighbouring channels; see `nn.functional.local_response_norm`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """[batch, channels, ...] to the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
