"""Convolution and its two adjoints by cuDNN, in one to three dimensions, with groups, dilation and uneven padding.

Activations lie as the plan says; weights stay as they are kept, and cuDNN brings them into the order its engines want.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.backends.core import Runner, channels_last, fusable, kernel
from prototorch.backends.cuda.cudnn.request import Port, Request, pictures, port
from prototorch.backends.cuda.cudnn.runner import Planned, planned
from prototorch.backends.cuda.kernels.epilogue import Epilogue, after, unpacked
from prototorch.backends.cuda.kernels.fused import sweep
from prototorch.backends.cuda.kernels.launch import In, Launches, Out, current
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_TYPES = ("float32", "float64", "float16", "bfloat16")


def _lead(attrs: dict[str, Any]) -> int:
    return max(0, 2 - len(attrs["strides"]))


def _numbers(attrs: dict[str, Any], **more: Any) -> tuple[tuple[str, Any], ...]:
    lead = _lead(attrs)
    made = {
        "strides": (*(1,) * lead, *attrs["strides"]),
        "pads": (*((0, 0),) * lead, *map(tuple, attrs["pads"])),
        "dilation": (*(1,) * lead, *attrs["dilation"]),
    }
    return tuple({**made, **more}.items())


def _taken(attrs: dict[str, Any], *specs: Spec) -> bool:
    """Whether cuDNN's convolutions are for these specs."""
    alike = len({s.dtype for s in specs}) == 1 and specs[0].dtype in _TYPES
    return alike and 1 <= len(attrs["strides"]) <= 3 and all(s.size for s in specs)


@kernel("cuda", "conv")
def conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """The convolution alone."""
    return _conv(ins[0], ins[1], outs[0], attrs, ins, {"x": In(0), "w": In(1), "y": Out(0)})


def _conv(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], ins: Specs, where: dict[str, Any],
          extra: tuple[tuple[str, Port], ...] = (), relu: bool = False) -> Planned | None:  # fmt: skip
    if not _taken(attrs, x, w, y):
        return None
    lead = _lead(attrs)
    ports = (("x", pictures(x, lead)), ("w", pictures(w, lead)), *extra, ("y", pictures(y, lead)))
    return planned(Request("conv", ports, ("y",), _numbers(attrs, relu=relu)), ins, where)


@kernel("cuda", "conv_input_grad")
def conv_input_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """The adjoint by the input, and the transposed convolution."""
    g, w, dx = *ins, outs[0]
    if not _taken(attrs, g, w, dx):
        return None
    lead = _lead(attrs)
    ports = (("g", pictures(g, lead)), ("w", pictures(w, lead)), ("dx", pictures(dx, lead)))
    request = Request("conv_input_grad", ports, ("dx",), _numbers(attrs))
    return planned(request, ins, {"g": In(0), "w": In(1), "dx": Out(0)})


@kernel("cuda", "conv_weight_grad")
def conv_weight_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """The adjoint by the weights; a gradient of another type is cast afterwards."""
    x, g, dw = *ins, outs[0]
    if not _taken(attrs, x, g):
        return None
    lead, own = _lead(attrs), Spec(dw.shape, x.dtype)
    ports = (("x", pictures(x, lead)), ("g", pictures(g, lead)), ("dw", pictures(own, lead)))
    request = Request("conv_weight_grad", ports, ("dw",), _numbers(attrs))
    if own.dtype == dw.dtype:
        return planned(request, ins, {"x": In(0), "g": In(1), "dw": Out(0)})
    held = current().empty(own.shape, own.dtype)
    cast = sweep((("cast", (("in", 0),), (("dtype", dw.dtype),)),), (("node", 0, 0),), (own,), (dw,))
    if cast is None:
        return None
    # the sweep reads the array of its own in the place of its input
    bound = Launches(*(replace(o, args=tuple(held if a == In(0) else a for a in o.args)) for o in cast.launches))
    return planned(request, ins, {"x": In(0), "g": In(1), "dw": held}, bound)


@kernel("cuda", "fused")
def fused(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Runner | None:
    """A convolution with what follows it: a sum, a bias and ReLU inside cuDNN, anything else in a sweep after it."""
    program, results = attrs["program"], attrs["outputs"]
    name, refs, given = program[0]
    if name not in ANCHORS or any(r[0] != "in" for r in refs):
        return None
    own = dict(given)
    operands = tuple(ins[r[1]] for r in refs)
    y = replace(outs[0], dtype=operands[0].dtype)
    found = unpacked(program, results, ins, y) if name == "conv" else None
    if found is not None and found.bias is not None:
        made = _with_bias(ins, outs[0], operands, [r[1] for r in refs], found, own)
        if made is not None:
            return made
    rest = after(attrs, ins, outs, y)
    anchor = None if rest is None else ANCHORS[name](operands, (y,), own)
    return None if rest is None or anchor is None else rest.runner(anchor, [r[1] for r in refs])


def _with_bias(ins: Specs, y: Spec, operands: Specs, numbers: Sequence[int], found: Epilogue,
               attrs: dict[str, Any]) -> Planned | None:  # fmt: skip
    assert found.bias is not None
    extra: list[tuple[str, Port]] = []
    where: dict[str, Any] = {"x": In(numbers[0]), "w": In(numbers[1]), "y": Out(0), "bias": In(found.bias)}
    if found.add is not None:
        extra.append(("add", pictures(ins[found.add], _lead(attrs))))
        where["add"] = In(found.add)
    channels = y.shape[1]
    ones = (1,) * (y.ndim - 2 + _lead(attrs))
    extra.append(("bias", port(ins[found.bias], (1, channels, *ones), (channels, 1, *(channels,) * len(ones)))))
    x, w = operands
    return _conv(x, w, y, attrs, ins, where, tuple(extra), found.relu)


ANCHORS = {"conv": conv, "conv_input_grad": conv_input_grad}
fusable("cuda", "anchor", *ANCHORS)
channels_last("cuda", "prefers", "conv", "conv_input_grad", ins=(0,), outs=(0,))
channels_last("cuda", "prefers", "conv_weight_grad", ins=(0, 1), outs=())
channels_last("cuda", "follows", "fused")
