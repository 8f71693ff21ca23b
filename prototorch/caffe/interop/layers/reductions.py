"""Layers that reduce axes: Reduction, ArgMax."""

from __future__ import annotations

from math import prod

from prototorch import layers
from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.numbers import field_number

_BEFORE = {"ASUM": layers.Abs, "SUMSQ": layers.Square}


@translator("Reduction")
def _reduction(site: CaffeLayerImport) -> None:
    """Over an axis and all behind it, times a factor."""
    site.check_counts(1, 1)
    param = site.layer["reduction_param"]
    operation, factor = param["operation"], field_number(site, param["coeff"])
    axis = site.canonical_axis(param["axis"], param)
    axes = list(range(axis, len(site.bottom_shapes[0])))
    (value,) = site.bottoms
    if operation in _BEFORE:
        (value,) = site.add(_BEFORE[operation](), value, suffix=operation.lower())
    reduction = (layers.ReduceMean if operation == "MEAN" else layers.ReduceSum)(axis=axes)
    (value,) = site.add(reduction, value, suffix="" if factor == 1 else "reduced")
    if factor != 1:
        site.add(layers.Rescaling(scale=factor), value)


@translator("ArgMax")
def _argmax(site: CaffeLayerImport) -> None:
    """The k largest elements of a sample or along an axis: positions, values, or both."""
    site.check_counts(1, 1)
    param, shape = site.layer["argmax_param"], site.bottom_shapes[0]
    k, dtype = param["top_k"], site.trace.float_dtype
    axis = site.canonical_axis(param["axis"], param) if param.has("axis") else None
    if not shape:
        site.fail("its bottom must have axes, it is a scalar", site.layer, "bottom")
    size = prod(shape[1:]) if axis is None else shape[axis]
    if not 1 <= k <= size:
        what = "elements of a sample" if axis is None else f"elements along axis {axis}"
        site.fail(f"top_k must be from 1 to {size}, the number of {what} of {list(shape)}, not {k}", param, "top_k")
    if axis is not None:
        values, positions = site.add(layers.TopK(k=k, axis=axis, ties="last"), outputs=2, suffix="top")
        if param["out_max_val"]:
            site.add(layers.Linear(), values)
        else:
            site.add(layers.Cast(dtype=dtype), positions)
        return
    (flat,) = site.add(layers.Flatten(), suffix="flat")
    values, positions = site.add(layers.TopK(k=k, ties="last"), flat, outputs=2, suffix="top")
    (result,) = site.add(layers.Cast(dtype=dtype), positions, suffix="positions")
    if param["out_max_val"]:
        (result,) = site.add(layers.Concatenate(axis=1), result, values, suffix="joined")
    rows = 2 if param["out_max_val"] else 1
    site.add(layers.Reshape(target_shape=[rows, k, *[1] * max(0, len(shape) - 3)]), result)
