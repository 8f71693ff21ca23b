"""The shipped harness: it tests any layer from its own examples.

from prototorch.testing import check_layer
check_layer(MyLayer)
"""

from prototorch.testing.case import Case, cases
from prototorch.testing.checks import CHECKS
from prototorch.testing.harness import check_layer
from prototorch.testing.registry import temporary_definitions

__all__ = ["CHECKS", "Case", "cases", "check_layer", "temporary_definitions"]
