"""Regularisers, by Keras' names: a penalty on a weight that is added to the loss."""

from prototorch.regularizers.base import Regularizer
from prototorch.regularizers.norms import L1, L1L2, L2, OrthogonalRegularizer

__all__ = ["L1", "L1L2", "L2", "OrthogonalRegularizer", "Regularizer"]
