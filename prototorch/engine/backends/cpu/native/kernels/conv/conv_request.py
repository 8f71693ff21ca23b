"""What a convolution kernel is asked for, and its registration for the ops and fused groups that are convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST
from prototorch.engine.backends.cpu.native.kernels.common.epilogue import FusedEpilogue, fused_epilogue, no_epilogue
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.spec import Spec

__all__ = ["CONV_OPS", "ConvRequest", "is_channels_last_conv", "register_convolution"]

CONV_OPS = ("conv", "conv_input_grad")


class ConvRequest(NamedTuple):
    """A convolution, or a fused group that begins with one: the op, its attributes, the indices of x and w among the
    inputs, and the epilogue."""

    name: str
    attrs: Attrs
    operands: tuple[int, int]
    epilogue: FusedEpilogue

    @property
    def backward(self) -> bool:
        """Whether it is the input gradient."""
        return self.name == "conv_input_grad"


def is_channels_last_conv(x: Spec, w: Spec, y: Spec) -> bool:
    """Whether the arrays are float32, channels last, and the weights in their plain layout."""
    last = x.layout == CHANNELS_LAST and y.layout == CHANNELS_LAST
    return last and w.layout is None and x.dtype == w.dtype == y.dtype == "float32" and 3 <= x.ndim <= 5


Prepared = TypeVar("Prepared")


def register_convolution(
    enter: Callable[..., Any], **options: Any
) -> Callable[[Callable[[Specs, Specs, ConvRequest], Prepared]], Any]:
    """Register (with `native` or `arranged_once`) a function for convolutions, their input gradients, and fused
    groups that begin with one."""

    def decorate(prepare_conv: Callable[[Specs, Specs, ConvRequest], Prepared]) -> Any:
        def prepare_op(name: str) -> Any:
            def prepare(ins: Specs, outs: Specs, attrs: Attrs) -> Prepared | None:
                return prepare_conv(ins, outs, ConvRequest(name, attrs, (0, 1), no_epilogue(2)))

            return prepare

        def prepare_group(ins: Specs, outs: Specs, attrs: Attrs) -> Prepared | None:
            name, refs, conv_attrs = attrs["program"][0]
            if name not in CONV_OPS or any(ref[0] != "in" for ref in refs):
                return None
            return prepare_conv(
                ins,
                outs,
                ConvRequest(name, dict(conv_attrs), (refs[0][1], refs[1][1]), fused_epilogue(ins, outs, attrs, 1)),
            )

        for name, prepare in (*((n, prepare_op(n)) for n in CONV_OPS), ("fused", prepare_group)):
            prepare.__module__ = prepare_conv.__module__
            enter(name, **options)(prepare)
        return prepare_conv

    return decorate
