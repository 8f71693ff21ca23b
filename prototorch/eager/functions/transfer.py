"""The move of a tensor to another device, through which gradients flow back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.eager.device import Device
from prototorch.eager.interpreter import interpreter_for
from prototorch.ops.core import Op
from prototorch.spec import Spec

__all__ = ["transfer"]


class Transfer(Op):
    """The same elements on another device; the gradient moves back to ``source``."""

    def __init__(self, source: Device):  # an op of the tape alone, which is not registered
        self.source = source

    def infer_spec(self, *specs: Spec, **attrs: Any) -> Any:
        return specs[0]

    def vjp(
        self,
        grads: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        needs: Sequence[bool],
        attrs: dict[str, Any],
    ) -> Sequence[Any]:
        return [None if grads[0] is None else transfer(grads[0], self.source)]


def transfer(x: Any, device: Device) -> Any:
    """A tensor of the elements of another on a device; a copy."""
    interpreter = interpreter_for(device)
    result = interpreter.constant(x.numpy())
    if result.array is x.array:
        result = interpreter.copy(result)
    interpreter.record(Transfer(x.device), (x,), {}, (result,))
    return result
