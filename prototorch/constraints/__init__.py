"""Constraints, by Keras' names: a weight is brought back into a set after each update."""

from prototorch.constraints.base import Constraint
from prototorch.constraints.norms import MaxNorm, MinMaxNorm, NonNeg, UnitNorm

__all__ = ["Constraint", "MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"]
