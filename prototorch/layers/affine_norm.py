"""The base of normalization layers: an affine transform (scale gamma, shift beta) after the normalization."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer, MaskPolicy
from prototorch.layers.context import ArrayValue, Context
from prototorch.regularizers import Regularizer
from prototorch.schema import field


class AffineNormLayer(Layer, abstract=True):
    """A layer that ends in ``* gamma + beta``."""

    normalizes: ClassVar[bool] = True
    epsilon: float = field(default=1e-3, min=0, doc="Added to the variance.")
    center: bool = field(default=True, doc="Whether beta is added.")
    scale: bool = field(default=True, doc="Whether gamma multiplies.")
    beta_initializer: Initializer = field(default="zeros", doc="Initializer of beta.")
    gamma_initializer: Initializer = field(default="ones", doc="Initializer of gamma.")
    beta_regularizer: Regularizer | None = field(default=None, doc="Regularizer of beta.")
    gamma_regularizer: Regularizer | None = field(default=None, doc="Regularizer of gamma.")
    beta_constraint: Constraint | None = field(default=None, doc="Constraint on beta.")
    gamma_constraint: Constraint | None = field(default=None, doc="Constraint on gamma.")

    mask_policy: ClassVar[MaskPolicy] = "keep"

    def scale_param(self, ctx: Context, name: Literal["gamma", "beta"], shape: tuple[int, ...], dtype: str) -> Any:
        """The weight of that name, or its neutral value (ones, zeros) if the layer has none."""
        if not (self.scale if name == "gamma" else self.center):
            return ops.full(shape=shape, value=float(name == "gamma"), dtype=dtype)
        options = {k: getattr(self, f"{name}_{k}") for k in ("initializer", "regularizer", "constraint")}
        return ctx.weight(name, shape, options.pop("initializer"), **options)

    def canonical_axis(self, ctx: Context, x: ArrayValue, axis: int) -> int:
        """An axis of x as a non-negative index; ShapeError if it does not exist or is the batch axis."""
        index = axis + x.ndim if axis < 0 else axis
        if not 1 <= index < x.ndim:
            ctx.fail(f"axis {axis} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        return index
