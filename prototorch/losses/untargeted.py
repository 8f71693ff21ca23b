"""The output itself as a loss."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.losses.base import Loss
from prototorch.schema import example
from prototorch.spec import Spec


class MeanOutput(Loss):
    """The mean of the output, which is compared with nothing: the data have no target for it.

    It is for outputs that are losses, or terms of one, as they are: a divergence that a layer computes, the score of a
    critic, which a negative ``weight`` raises.
    """

    needs_target: ClassVar[bool] = False
    aliases = ("mean",)
    examples = (example("MeanOutput { }", inputs=[(3,)]), example("mean { }", inputs=[(4, 3)]))

    def match_target(self, target: Any, spec: Spec, output: Spec) -> Any:
        """The target as it is: None, or what a direct call gives."""
        return target

    def values(self, target: Any, output: Any) -> Any:
        return output
