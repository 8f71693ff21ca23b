"""How the coordinates of one top of a `NetSpec` lie in those of another, and the Crop layer that aligns them."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.caffe.net_spec import Function, Top, layers
from prototorch.errors import UsageError

__all__ = ["AxisMismatchException", "UndefinedMapException", "coord_map", "coord_map_from_to", "crop"]

#: axis (None: none), scale and shift of a map: position y of one top is scale * y + shift in the other
CoordMap = tuple[Any, Any, Any]

_POINTWISE = frozenset(
    ("AbsVal", "BatchNorm", "Bias", "BNLL", "Clip", "Dropout", "Eltwise", "ELU", "Log", "LRN", "Exp", "MVN", "Power",
     "ReLU", "PReLU", "Scale", "Sigmoid", "Split", "Swish", "TanH", "Threshold")
)  # fmt: skip
_LEGACY = frozenset(("pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"))


class UndefinedMapException(Exception):
    """A layer of this type maps no coordinates."""


class AxisMismatchException(Exception):
    """Two layers map coordinates from different axes on."""


def coord_map(fn: Function) -> CoordMap:
    """The map of a layer's coordinates, from input to output. Raises UndefinedMapException."""
    if fn.type_name in _POINTWISE:
        return None, 1, 0
    if fn.type_name == "Crop":
        fields = fn.params.get("crop_param", fn.params)
        return fields.get("axis", 2) - 1, 1, -np.array(fields.get("offset", 0), ndmin=1)
    if fn.type_name not in ("Convolution", "Pooling", "Im2col", "Deconvolution"):
        raise UndefinedMapException(fn.type_name)
    fields = fn.params.get("pooling_param" if fn.type_name == "Pooling" else "convolution_param", fn.params)
    if _LEGACY & set(fields):
        raise UsageError(f"{fn.type_name}: give kernel_size, stride and pad, not {', '.join(_LEGACY & set(fields))}")
    if "kernel_size" not in fields:
        raise UsageError(f"{fn.type_name}: the map of coordinates needs its kernel_size")
    kernel, stride, pad, gap = (
        np.array(fields.get(name, default), ndmin=1)
        for name, default in (("kernel_size", 1), ("stride", 1), ("pad", 0), ("dilation", 1))
    )
    reach = (kernel - 1) * gap / 2
    axis = fields.get("axis", 1)
    return (
        (axis, stride, reach - pad) if fn.type_name == "Deconvolution" else (axis, 1 / stride, (pad - reach) / stride)
    )


def coord_map_from_to(top_from: Top, top_to: Top) -> CoordMap:
    """The map from one top to another, over a top that both depend on.

    Raises UsageError where there is none, AxisMismatchException where layers map other axes.
    """
    start = _maps_of_ancestors(top_from)
    for top, ancestor_map in _maps_of_ancestors(top_to).items():
        if top in start:
            return _compose(ancestor_map, _inverse(start[top]))
    raise UsageError("the tops depend on no common top through layers that map coordinates")


def crop(top_from: Top, top_to: Top) -> Top:
    """A Crop layer that crops a top to the part of it that lies over another one.

    Raises UsageError where the scales differ, or the offset is negative or no integer.
    """
    axis, scale, shift = coord_map_from_to(top_from, top_to)
    scale, shift = np.array(scale, ndmin=1), np.array(shift, ndmin=1)
    if np.any(scale != 1):
        raise UsageError(f"the scales of the tops differ by {scale.tolist()}")
    if np.any(shift > 0):
        raise UsageError(f"the crop would begin at {(-shift).tolist()}, outside of the top")
    if np.any(np.round(shift) != shift):
        raise UsageError(f"the crop would begin at {(-shift).tolist()}, between two positions")
    first = 1 if axis is None else axis
    top: Top = layers.Crop(
        top_from, top_to, crop_param={"axis": first + 1, "offset": [int(n) for n in -np.round(shift)]}
    )
    return top


def _maps_of_ancestors(top: Top) -> dict[Top, CoordMap]:
    """The maps from all tops that this one depends on, itself the first."""
    maps: dict[Top, CoordMap] = {top: (None, 1, 0)}
    pending = [top]
    for current in pending:
        inputs = current.fn.inputs[:1] if current.fn.type_name == "Crop" else current.fn.inputs
        try:
            own = coord_map(current.fn) if inputs else None
        except UndefinedMapException:
            continue
        for source in inputs:
            if source not in maps:
                assert own is not None
                maps[source] = _compose(maps[current], own)
                pending.append(source)
    return maps


def _compose(outer: CoordMap, inner: CoordMap) -> CoordMap:
    axis, other = outer[0], inner[0]
    if axis is not None and other is not None and axis != other:
        raise AxisMismatchException(f"axes {axis} and {other}")
    return other if axis is None else axis, outer[1] * inner[1], outer[1] * inner[2] + outer[2]


def _inverse(one: CoordMap) -> CoordMap:
    return one[0], 1 / one[1], -one[2] / one[1]
