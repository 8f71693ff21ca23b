"""Layers that change shapes: BatchReindex, Flatten, Reshape, Tile."""

from __future__ import annotations

from math import prod

from prototorch import layers
from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.text.message import Message


def _refuse_in_place(site: CaffeLayerImport) -> None:
    if list(site.layer["top"]) == list(site.layer["bottom"]):
        site.fail("it cannot be computed in place: its top needs another name than its bottom", site.layer, "top")


def _add_reshape(site: CaffeLayerImport, shape: list[int]) -> None:
    """A layer that gives its bottom a shape, which has as many elements.

    Axes that stay are left out of the native layer, so that it is one for any batch size wherever the file's is.
    """
    old = list(site.bottom_shapes[0])
    num_equal = 0
    while num_equal < min(len(old), len(shape)) and old[num_equal] == shape[num_equal]:
        num_equal += 1
    if num_equal == len(old) == len(shape):
        site.add(layers.Linear())
        return
    first = min(num_equal, 1)
    rest = shape[first:]
    site.add(layers.Reshape(target_shape=rest, axis=first) if first != 1 else layers.Reshape(target_shape=rest))


@translator("Flatten")
def _flatten(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    _refuse_in_place(site)
    param, shape = site.layer["flatten_param"], list(site.bottom_shapes[0])
    start = site.canonical_axis(param["axis"], param)
    end = site.canonical_axis(param["end_axis"], param, "end_axis")
    if start > end + 1:
        site.fail(f"axis {start} lies behind end_axis {end}", param, "axis")
    if (start, end) == (1, len(shape) - 1):
        site.add(layers.Flatten())
    else:
        _add_reshape(site, [*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]])


@translator("Reshape")
def _reshape(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    _refuse_in_place(site)
    param, old = site.layer["reshape_param"], list(site.bottom_shapes[0])
    start, end = _replaced_axes(site, param, len(old))
    dims = [int(dim) for dim in param["shape"]["dim"]]
    if dims.count(-1) > 1:
        site.fail(f"shape {dims} has several -1; one size may be inferred", param["shape"], "dim")
    if any(dim < -1 for dim in dims):
        site.fail(f"shape {dims} has sizes below -1", param["shape"], "dim")
    for i, dim in enumerate(dims):
        if dim == 0:
            if start + i >= len(old):
                site.fail(
                    f"shape {dims} has a 0 at axis {start + i}, which the bottom {old} does not have to copy",
                    param["shape"],
                    "dim",
                )
            dims[i] = old[start + i]
    shape = [*old[:start], *dims, *old[end:]]
    if -1 in dims:
        others, elements = prod(n for n in shape if n != -1), prod(old)
        if others == 0 or elements % others:
            site.fail(
                f"the {elements} elements of {old} do not divide by the {others} of the other sizes of {shape}",
                param["shape"],
                "dim",
            )
        shape[shape.index(-1)] = elements // others
    if prod(shape) != prod(old):
        site.fail(
            f"the shape {shape} has {prod(shape)} elements, the bottom {old} has {prod(old)}", param["shape"], "dim"
        )
    _add_reshape(site, shape)


def _replaced_axes(site: CaffeLayerImport, param: Message, ndim: int) -> tuple[int, int]:
    """The axes of the bottom that the new shape replaces: from the first one to before the second."""
    axis, count = param["axis"], param["num_axes"]
    start = axis if axis >= 0 else ndim + axis + 1
    if not 0 <= start <= ndim:
        site.fail(f"axis {axis} must be from {-ndim - 1} to {ndim} for a bottom of {ndim} axes", param, "axis")
    if count < -1:
        site.fail(f"num_axes must be at least 0, or -1 for all from axis on, not {count}", param, "num_axes")
    end = ndim if count == -1 else start + count
    if end > ndim:
        site.fail(f"axis {start} and num_axes {count} reach beyond the {ndim} axes of the bottom", param, "num_axes")
    return start, end


@translator("Tile")
def _tile(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    param = site.layer["tile_param"]
    axis, tiles = site.canonical_axis(param["axis"], param), param["tiles"]
    if not param.has("tiles") or tiles < 1:
        site.fail(
            "tiles must be given, and at least 1" + (f", not {tiles}" if param.has("tiles") else ""), param, "tiles"
        )
    site.add(layers.Tile(repeats=tiles, axis=axis))


@translator("BatchReindex")
def _batch_reindex(site: CaffeLayerImport) -> None:
    site.check_counts(2, 1)
    if len(site.shape(site.bottoms[1])) != 1:
        site.fail(
            f"its second bottom holds positions along one axis, its shape is {list(site.shape(site.bottoms[1]))}",
            site.layer,
            "bottom",
        )
    (positions,) = site.add(layers.Cast(dtype="int64"), site.bottoms[1], suffix="positions")
    site.add(layers.TakeSamples(), site.bottoms[0], positions)
