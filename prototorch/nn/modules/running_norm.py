"""Normalization with running statistics as modules: batch and instance normalization."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.errors import ShapeError
from prototorch.nn import functional as F
from prototorch.nn.init import ones_, zeros_
from prototorch.nn.module import Module
from prototorch.nn.parameter import new_parameter, new_tensor

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _RunningNorm(Module):
    """A weight, a bias, the running mean and variance, and a count of the batches that they come from."""

    ndims: ClassVar[tuple[int, ...]]
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shape = (num_features,)
        self.register_parameter("weight", new_parameter(shape, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", new_tensor(shape, device, dtype) if tracked else None)
        self.register_buffer("running_var", new_tensor(shape, device, dtype, 1.0) if tracked else None)
        self.register_buffer("num_batches_tracked", new_tensor((), device, "int64") if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the mean to 0, the variance to 1 and the count to 0."""
        if self.track_running_stats:
            zeros_(self.running_mean)
            ones_(self.running_var)
            zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and the statistics to their first values."""
        self.reset_running_stats()
        if self.weight is not None:
            ones_(self.weight)
        if self.bias is not None:
            zeros_(self.bias)

    def _check_dimensions(self, input: Any) -> None:
        if getattr(input, "ndim", None) not in self.ndims:
            raise ShapeError(
                f"{type(self).__name__}: expected an input of {' or '.join(map(str, self.ndims))} dimensions, got "
                f"{list(getattr(input, 'shape', []))}"
            )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        key = f"{prefix}num_batches_tracked"  # states of PyTorch before 0.4.1 do not have it
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            state_dict[key] = new_tensor((), None, "int64")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
            del state_dict[key]
        else:
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Any) -> Any:
        """The outputs, of the shape of the inputs; in training the statistics move by ``momentum``, or are the mean
        over all batches where it is None."""
        self._check_dimensions(input)
        fraction: Any = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            with no_grad():
                assign(self.num_batches_tracked, self.num_batches_tracked + 1, "num_batches_tracked")
                if self.momentum is None:
                    fraction = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        is_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            is_batch,
            fraction,
            self.eps,
        )


class _InstanceNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Any) -> Any:
        """The outputs, of the shape of the inputs, which may lack the batch."""
        self._check_dimensions(input)
        has_batch = input.ndim == max(self.ndims)
        x = input if has_batch else input.unsqueeze(0)
        if x.shape[1] != self.num_features and self.affine:
            raise ShapeError(f"{type(self).__name__}: expected {self.num_features} channels, got {x.shape[1]}")
        y = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum,
            self.eps,
        )
        return y if has_batch else y.squeeze(0)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of
    [batch, channels] or [batch, channels, steps]; see `nn.functional.batch_norm`."""

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of
    [batch, channels, rows, columns]; see `nn.functional.batch_norm`."""

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of
    [batch, channels, depth, rows, columns]; see `nn.functional.batch_norm`."""

    ndims = (5,)


class InstanceNorm1d(_InstanceNorm):
    """Normalization of each channel of each sample of
    [batch, channels, steps]; see `nn.functional.instance_norm`."""

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalization of each channel of each sample of
    [batch, channels, rows, columns]; see `nn.functional.instance_norm`."""

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalization of each channel of each sample of
    [batch, channels, depth, rows, columns]; see `nn.functional.instance_norm`."""

    ndims = (4, 5)
