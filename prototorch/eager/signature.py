"""What all calls of one op with the same attributes on tensors of the same shapes and element types have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.operators import SpecProperties
from prototorch.ops.saved_values import SavedPositions, saved_positions
from prototorch.spec import Spec

__all__ = ["Placeholder", "Signature"]


def _no_kernel(arrays: Any, results: Any) -> None:
    raise AssertionError("an op that only stands on the tape has no kernel")


class Placeholder(SpecProperties):
    """Stands for a tensor of which a derivative reads the shape and the element type alone."""

    __slots__ = ("interpreter", "spec")

    def __init__(self, spec: Spec, interpreter: Any):
        self.spec, self.interpreter = spec, interpreter


class Signature:
    """An op, its attributes, the specs of its inputs and outputs, and what follows from them.

    run: the kernel, where the interpreter has one. input_placeholders, output_placeholders: what stands for tensors
    whose elements the derivative does not read.
    """

    __slots__ = ("_positions", "attrs", "attrs_key", "has_several_outputs", "input_placeholders", "ins",
                 "interpreter", "is_view_op", "node_class", "op", "output_placeholders", "outs", "run")  # fmt: skip

    def __init__(
        self,
        interpreter: Any,
        op: Op,
        attrs: dict[str, Any],
        attrs_key: tuple[tuple[str, Any], ...],
        ins: tuple[Spec, ...],
        outs: tuple[Spec, ...],
        has_several_outputs: bool = False,
        run: Callable[..., None] = _no_kernel,
        node_class: Any = None,
    ):
        self.interpreter, self.op, self.attrs, self.attrs_key = interpreter, op, attrs, attrs_key
        self.ins, self.outs, self.has_several_outputs, self.run = ins, outs, has_several_outputs, run
        self.node_class = node_class
        self.is_view_op = type(op).array_view is not Op.array_view and len(ins) == 1
        self.input_placeholders = tuple([Placeholder(s, interpreter) for s in ins])
        self.output_placeholders = tuple([Placeholder(s, interpreter) for s in outs])
        self._positions: dict[tuple[bool, ...], SavedPositions] = {}

    def positions(self, needs: tuple[bool, ...]) -> SavedPositions:
        """Which inputs and outputs the derivative reads, where these inputs need a gradient."""
        saved = self._positions.get(needs)
        if saved is None:
            saved = saved_positions(self.op, self.ins, self.outs, needs, self.attrs_key)
            self._positions[needs] = saved
        return saved
