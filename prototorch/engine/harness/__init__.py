"""The harness: it tests any layer from its own examples. Its public names are those of `prototorch.testing`."""

from prototorch.engine.harness.case import Case, cases
from prototorch.engine.harness.checks import CHECKS
from prototorch.engine.harness.harness import check_layer
from prototorch.engine.harness.registry import temporary_definitions

__all__ = ["CHECKS", "Case", "cases", "check_layer", "temporary_definitions"]
