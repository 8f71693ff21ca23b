"""Tests of layers: the package's own harness, for layers of your own, too.

from prototorch.testing import check_layer

check_layer(MyLayer)
"""

from prototorch.engine.harness import CHECKS, Case, cases, check_layer, temporary_definitions

__all__ = ["CHECKS", "Case", "cases", "check_layer", "temporary_definitions"]
