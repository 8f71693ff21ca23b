"""Keras' functions of whole axes: reductions, other shapes, products of matrices, indexing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.operations import call_argument, only_read, operation_row
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.keras.config_import.axis_orders import OPEN_SIZE, OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.base import Layer

_END = 2**31 - 1  # a bound beyond the end of every axis


# ---------------------------------------------------------------------- reductions


def _reduction(layer: type[Layer], *operations: str) -> KerasRow:
    def operate(site: KerasLayerImport) -> Values:
        value = site.one()
        axes = call_argument(site, 1, "axis")
        if axes is None:
            raise NotImportableError("it takes all axes, the batch among them")
        axes = [int(axis) for axis in (axes if isinstance(axes, list | tuple) else [axes])]
        keepdims = bool(call_argument(site, 2, "keepdims", default=False))
        return _add_reduction(site, layer, value, axes, keepdims)

    return operation_row(layer, operations, operate)


def _add_reduction(
    site: KerasLayerImport, layer: type[Layer], value: OrderedValue, axes: Sequence[int], keepdims: bool
) -> Values:
    axes = _positive(axes, value)
    if keepdims:
        return site.add(layer(axis=[value.axis(a) for a in axes], keepdims=True), [value], value.order)
    rest = [axis for axis in value.order if axis + 1 not in axes]
    if rest != sorted(rest):  # what is left would have another order than there
        value = site.builder.as_keras(value)
    return site.add(layer(axis=[value.axis(a) for a in axes]), [value])


def _positive(axes: Sequence[int], value: OrderedValue) -> list[int]:
    """Axes counted from the front, the batch being 0, which they must not be."""
    places = [axis + value.rank + 1 if axis < 0 else axis for axis in axes]
    if any(not 1 <= place <= value.rank for place in places):
        raise NotImportableError(f"axes {list(axes)} of a value of {value.rank + 1} axes: the batch stays as it is")
    return places


def _extremum(layer: type[Layer], *operations: str) -> KerasRow:
    def operate(site: KerasLayerImport) -> Values:
        value, axis = site.one(), call_argument(site, 1, "axis")
        if axis is None or call_argument(site, 2, "keepdims", default=False):
            raise NotImportableError("it takes all axes, the batch among them, or keeps the axis")
        value = site.builder.as_keras(value)
        return site.add(layer(axis=_positive([int(axis)], value)[0]), [value])

    return operation_row(layer, operations, operate)


# ---------------------------------------------------------------------- shapes


def _add_reshape(site: KerasLayerImport, value: OrderedValue, shape: Sequence[int]) -> Values:
    """The value, in Keras' order, in another shape. A size that only the data tell is left to be found."""
    if tuple(shape) == value.shape:
        return (value,)
    if list(shape).count(OPEN_SIZE) == 1:
        shape = [-1 if n == OPEN_SIZE else n for n in shape]
    return site.add(layers.Reshape(target_shape=list(shape)), [value])


def _operate_expand_dims(site: KerasLayerImport) -> Values:
    value = site.builder.as_keras(site.one())
    axis = int(call_argument(site, 1, "axis"))
    axis += value.rank + 2 if axis < 0 else 0
    if not 1 <= axis <= value.rank + 1:
        raise NotImportableError(f"a new axis {axis} of a value of {value.rank + 1} axes: the batch stays first")
    return _add_reshape(site, value, [*value.shape[: axis - 1], 1, *value.shape[axis - 1 :]])


def _operate_squeeze(site: KerasLayerImport) -> Values:
    value = site.builder.as_keras(site.one())
    axes = call_argument(site, 1, "axis")
    if axes is None:
        raise NotImportableError("it drops all axes of one element: name them by axis")
    places = _positive(axes if isinstance(axes, list | tuple) else [axes], value)
    if any(value.shape[place - 1] != 1 for place in places):
        raise NotImportableError(f"axes {places} of {list(value.shape)} are not of one element")
    return _add_reshape(site, value, [n for i, n in enumerate(value.shape, 1) if i not in places])


def _operate_reshape(site: KerasLayerImport) -> Values:
    value = site.builder.as_keras(site.one())
    first, *shape = [-1 if n is None else int(n) for n in call_argument(site, 1, "newshape") or [0]]
    if first != -1 or shape.count(-1) > 0 or prod(shape) != prod(value.shape):
        raise NotImportableError(
            f"newshape={[first, *shape]} of {[None, *value.shape]} does not keep the samples apart"
        )
    return _add_reshape(site, value, shape)


def _operate_matmul(site: KerasLayerImport) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    if len(values) != 2:
        raise NotImportableError("a product with an array that is no value of the net has no layer here")
    return site.add(layers.MatMul(), values)


def _operate_stack(site: KerasLayerImport) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    axis = int(call_argument(site, 1, "axis", default=0))
    axis += values[0].rank + 2 if axis < 0 else 0
    if not 1 <= axis <= values[0].rank + 1:
        raise NotImportableError("it stacks samples of the batch")
    lifted = [_add_reshape(site, v, [*v.shape[: axis - 1], 1, *v.shape[axis - 1 :]])[0] for v in values]
    return site.add(layers.Concatenate(axis=axis), lifted)


def _operate_get_item(site: KerasLayerImport) -> Values:
    """``x[:, 1:3, ..., -1, None]``: a slice, and a reshape where axes are dropped or new."""
    key = site.args[1] if len(site.args) == 2 else site.kwargs.get("key")
    value = site.one()
    items = _full_key(key if isinstance(key, list | tuple) else [key], value.rank + 1)
    if not isinstance(items[0], slice) or items[0] not in (slice(None), slice(None, None, 1), slice(0, None)):
        raise NotImportableError(f"it picks samples of the batch ({str(key)[:60]})")
    if any(not isinstance(item, slice) for item in items):
        value = site.builder.as_keras(value)
    bounds: dict[int, tuple[int, int, int]] = {}
    shape: list[int] = []
    axis = 0
    sizes = value.their_shape
    for item in items[1:]:
        if item is None:
            shape.append(1)
            continue
        axis += 1
        size = sizes[axis - 1]
        if isinstance(item, slice):
            step = 1 if item.step is None else item.step
            start = (0 if step > 0 else _END) if item.start is None else item.start
            stop = (_END if step > 0 else -_END) if item.stop is None else item.stop
            length = len(range(*slice(item.start, item.stop, step).indices(size)))
            if (start, stop, step) != (0, _END, 1):
                bounds[value.axis(axis)] = start, stop, step
            shape.append(length)
        else:
            if not -size <= item < size:
                raise NotImportableError(f"index {item} of an axis of {size} elements")
            bounds[value.axis(axis)] = item, _END if item == -1 else item + 1, 1
    part: Values = (value,)
    if bounds:
        axes = sorted(bounds)
        starts, stops, steps = ([bounds[a][i] for a in axes] for i in range(3))
        layer = layers.Slice(axes=axes, starts=starts, stops=stops, steps=steps if set(steps) != {1} else None)
        part = site.add(layer, [value], value.order)
    return part if all(isinstance(item, slice) for item in items) else _add_reshape(site, part[0], shape)


def _full_key(items: Sequence[Any], rank: int) -> list[Any]:
    """Slices, integers and None for all axes, an ellipsis written out."""
    parsed = [_key_item(item) for item in items]
    missing = rank - sum(item is not None and item is not ... for item in parsed)
    if missing < 0 or parsed.count(...) > 1:
        raise NotImportableError(f"{len(items)} indices of a value of {rank} axes")
    place = parsed.index(...) if ... in parsed else len(parsed)
    return [*parsed[:place], *[slice(None)] * missing, *parsed[place + 1 :]]


def _key_item(item: Any) -> Any:
    if isinstance(item, dict):
        bounds: Any = item.get("config")
        if item.get("class_name") == "__ellipsis__":
            return ...
        is_slice = isinstance(bounds, dict) and bounds.keys() == {"start", "stop", "step"}
        if (
            item.get("class_name") == "__slice__"
            and is_slice
            and all(n is None or type(n) is int for n in bounds.values())
        ):
            if bounds.get("step") == 0:
                raise NotImportableError("a slice with steps of 0")
            return slice(bounds.get("start"), bounds.get("stop"), bounds.get("step"))
    if item is None or type(item) is int:
        return item
    raise NotImportableError("an index that is computed, or an array, has no layer here")


ROWS = CounterpartRows(
    system="keras",
    rows=(
        _reduction(layers.ReduceSum, "Sum"),
        _reduction(layers.ReduceMean, "Mean"),
        _reduction(layers.ReduceMax, "Max", "Amax"),
        _reduction(layers.ReduceMin, "Min", "Amin"),
        _reduction(layers.ReduceProd, "Prod"),
        _reduction(layers.LogSumExp, "Logsumexp"),
        _extremum(layers.ArgMax, "Argmax"),
        _extremum(layers.ArgMin, "Argmin"),
        operation_row(layers.MatMul, ["Matmul"], _operate_matmul),
        operation_row(layers.Slice, ["GetItem"], _operate_get_item),
        only_read(["ExpandDims"], _operate_expand_dims),
        only_read(["Squeeze"], _operate_squeeze),
        only_read(["Reshape"], _operate_reshape),
        only_read(["Stack"], _operate_stack),
    ),
)
