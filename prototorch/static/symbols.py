"""Inputs of static graphs and of nets, and the functions that take symbols."""

from __future__ import annotations

import operator

from prototorch.eager import namespace
from prototorch.graph.symbolic import Input
from prototorch.graph.symbolic_functions import SYMBOLIC_FUNCTIONS
from prototorch.losses import direct_call
from prototorch.nn import functional

__all__ = ["Input"]

SYMBOLIC_FUNCTIONS["getitem"] = operator.getitem
assert namespace.NAMES  # the functions are registered when their modules are imported
assert functional.__all__
assert direct_call.__all__
