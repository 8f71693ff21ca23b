"""The root of all layers.

A layer declares its fields by annotations and says itself in ops. It knows neither arrays nor gradients nor its own
output shape: those follow from the ops.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch.layers.context import Context
from prototorch.schema import Block, field


class Layer(Block, family="layer"):
    """A layer. Subclasses declare fields and define `call`."""

    #: how many inputs it reads: a number, or a pair (least, most), most None for any number
    inputs: ClassVar[int | tuple[int, int | None]] = 1
    #: how many outputs `call` gives (a tuple where more than one)
    outputs: ClassVar[int] = 1
    #: whether the mask of its first input passes to its output unchanged
    keeps_mask: ClassVar[bool] = False
    #: whether it takes masks into account (else a mask ends here)
    examples: ClassVar[list[Any]] = []
    setattr_hints = {
        "trainable": "model.set_trainable(False, 'layer') says it of a layer in a model, or use .replace(...)"
    }

    name: str | None = field(default=None, doc="The layer's name; its type and a number where it is left out.")
    trainable: bool = field(default=True, doc="Whether its weights are trained.")
    weights: str | None = field(default=None, doc="A name under which the weights are shared with other layers.")
    lr_mult: float = field(default=1.0, min=0, doc="A factor on the learning rate of its weights.")
    decay_mult: float = field(default=1.0, min=0, doc="A factor on the weight decay of its weights.")

    def call(self, ctx: Context, *inputs: Any) -> Any:
        """Say the layer in ops. Inputs have the batch dimension first, channels second."""
        raise TypeError(f"{type(self).__name__} does not define call")

    def output_count(self) -> int:
        """How many outputs this layer has with its fields as they are."""
        return type(self).outputs

    def index_count(self) -> int | None:
        """How many integers its input may hold, from 0 on, where it looks something up by them; None: any numbers.

        Data that feed the layer directly are held against it before the first step.
        """
        return None

    @classmethod
    def input_range(cls) -> tuple[int, int | None]:
        """The least and the largest number of inputs (None: any)."""
        return (cls.inputs, cls.inputs) if isinstance(cls.inputs, int) else cls.inputs

    def __call__(self, *inputs: Any) -> Any:
        """Use the layer: on symbols (`Input`, outputs of other layers) it becomes part of a net, on tensors it runs."""
        taker = next((t for x in _flatten(inputs) if (t := getattr(x, "apply_layer", None)) is not None), None)
        if taker is None:
            raise TypeError(f"{type(self).__name__} is called with symbols or tensors, not {_type_names(inputs)}")
        return taker(self, tuple(_flatten(inputs)))


def _flatten(inputs: Any) -> list[Any]:
    return [v for x in inputs for v in (_flatten(x) if isinstance(x, list | tuple) else [x])]


def _type_names(inputs: Any) -> str:
    return ", ".join(type(x).__name__ for x in inputs) or "nothing"
