"""Operators and functions of keras.ops in functional models of Keras (``-x``, ``x[:, -1]``, ``keras.ops.mean(x)``) that
are layers here. Keras has no layers of this kind, so that these rows are only read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.keras.config_import.axis_orders import OPEN_SIZE, OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.layer_import import unified
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.base import Layer

_END = 2**31 - 1  # a bound beyond the end of every axis


def _argument(site: KerasLayerImport, index: int, *names: str, default: Any = None) -> Any:
    """An argument of the function: of its class (config) or of its call, by position or name."""
    for name in names:
        for source in (site.kwargs, site.config):
            if name in source:
                return source[name]
    return site.args[index] if index < len(site.args) else default


def _function(layer: type[Layer], *operations: str) -> KerasRow:
    """A function of one value, element by element."""

    def operate(site: KerasLayerImport) -> Values:
        value = site.one()
        return site.add(layer(), [value], value.order)

    return _row(layer, operations, operate)


def _binary(layer: type[Layer], *operations: str) -> KerasRow:
    """A function of two values, or of a value and a number, element by element."""

    def operate(site: KerasLayerImport) -> Values:
        values = _two_values(site)
        return site.add(layer(), values, values[0].order)

    return _row(layer, operations, operate)


def _two_values(site: KerasLayerImport) -> list[OrderedValue]:
    """The operands x1 and x2 in one order of axes, with a value in the place of a number."""
    return unified(site.builder, _as_values(site, [_argument(site, 0, "x1"), _argument(site, 1, "x2")]))


def _as_values(site: KerasLayerImport, operands: Sequence[Any]) -> list[OrderedValue]:
    """Operands with a value of the net in the place of each number; a fraction beside integers makes them float32, as
    in Keras. Raises NotImportableError where all are numbers, or one is neither."""
    values = [x for x in operands if isinstance(x, OrderedValue)]
    numbers = [x for x in operands if not isinstance(x, OrderedValue)]
    if not values or any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
        raise NotImportableError("an operand is neither a value of the net nor a number")
    is_fraction = any(isinstance(x, float) for x in numbers)
    by_name = {value.name: _wide_enough(site, value, is_fraction) if numbers else value for value in values}
    like = by_name[values[0].name]
    return [
        by_name[x.name]
        if isinstance(x, OrderedValue)
        else site.add(layers.FullLike(value=float(x)), [like], like.order)[0]
        for x in operands
    ]


def _wide_enough(site: KerasLayerImport, value: OrderedValue, is_fraction: bool) -> OrderedValue:
    """The value in a type that holds numbers beside it."""
    dtype = _dtype(site, value)
    if dtype.startswith("float") or (dtype != "bool" and not is_fraction):
        return value
    return site.add(layers.Cast(dtype="float32" if is_fraction else "int32"), [value], value.order)[0]


def _dtype(site: KerasLayerImport, value: OrderedValue) -> str:
    return str(site.builder.trace.values[value.name].dtype)


def _operate_not_equal(site: KerasLayerImport) -> Values:
    values = _two_values(site)
    return site.add(layers.LogicalNot(), site.add(layers.Equal(), values, values[0].order), values[0].order)


def _operate_floor_divide(site: KerasLayerImport) -> Values:
    """(x - x mod y) / y, which is whole but for rounding."""
    x, y = _two_values(site)
    order = x.order
    if not all(_dtype(site, value).startswith("float") for value in (x, y)):
        raise NotImportableError("a quotient of integers has no layer here")
    whole = site.add(layers.Subtract(), [x, *site.add(layers.Mod(), [x, y], order)], order)
    return site.add(layers.Round(), site.add(layers.Divide(), [*whole, y], order), order)


def _operate_threshold(site: KerasLayerImport) -> Values:
    x = site.one()
    values = _as_values(site, [x, _argument(site, 1, "threshold"), _argument(site, 2, "default_value")])
    is_above = site.add(layers.Greater(), values[:2], x.order)
    return site.add(layers.Where(), [*is_above, values[0], values[2]], x.order)


def _operate_hard_tanh(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Clip(min=-1.0, max=1.0), [value], value.order)


def _operate_tanh_shrink(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Subtract(), [value, *site.add(layers.Tanh(), [value], value.order)], value.order)


def _shrink(layer: type[Layer]) -> Callable[[KerasLayerImport], Values]:
    def operate(site: KerasLayerImport) -> Values:
        value = site.one()
        return site.add(layer(threshold=_argument(site, 1, "threshold", default=0.5)), [value], value.order)

    return operate


def _operate_round(site: KerasLayerImport) -> Values:
    value = site.one()
    if _argument(site, 1, "decimals", default=0):
        raise NotImportableError("it keeps decimals")
    return site.add(layers.Round(), [value], value.order)


def _row(layer: type[Layer], operations: Sequence[str], operate: Callable[[KerasLayerImport], Values]) -> KerasRow:
    reason = f"Keras has no layer {layer.__name__}, but a function of keras.ops"
    return KerasRow(layers=(layer,), has_class=False, reason=reason, operations=tuple(operations), operate=operate)


def _only_read(operations: Sequence[str], operate: Callable[[KerasLayerImport], Values]) -> KerasRow:
    """Functions that become several layers, or a layer whose row stands elsewhere."""
    return KerasRow(name=f"keras.ops: {operations[0]}", operations=tuple(operations), operate=operate)


# ---------------------------------------------------------------------- numbers


def _number(value: Any) -> float | None:
    """A number as float; None for None."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise NotImportableError("an argument is neither a number nor left out")


def _operate_clip(site: KerasLayerImport) -> Values:
    value = site.one()
    low, high = _number(_argument(site, 1, "x_min")), _number(_argument(site, 2, "x_max"))
    return site.add(layers.Clip(min=low, max=high), [value], value.order)


def _operate_power(site: KerasLayerImport) -> Values:
    if isinstance(_argument(site, 1, "x2"), OrderedValue):
        values = _two_values(site)
        return site.add(layers.Power(), values, values[0].order)
    value, exponent = site.one(), _number(_argument(site, 1, "x2"))
    if exponent is None:
        raise NotImportableError("it has no exponent")
    return site.add(layers.Power(exponent=exponent), [value], value.order)


def _operate_reciprocal_root(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Power(exponent=-0.5), [value], value.order)


def _operate_cast(site: KerasLayerImport) -> Values:
    value = site.one()
    dtype = str(_argument(site, 1, "dtype", default=""))
    if isinstance(site.config.get("dtype"), dict):  # the policy of the operation's own arithmetic
        dtype = str(site.config["dtype"].get("config", {}).get("name", ""))
    if not dtype:
        raise NotImportableError("its config does not tell the type of the elements")
    return site.add(layers.Cast(dtype=dtype), [value], value.order)


def _operate_where(site: KerasLayerImport) -> Values:
    condition, *choices = (_argument(site, i, name) for i, name in enumerate(("condition", "x1", "x2")))
    if not isinstance(condition, OrderedValue):
        raise NotImportableError("its condition is no value of the net")
    if not any(isinstance(x, OrderedValue) for x in choices):  # numbers alone
        is_fraction = any(isinstance(x, float) for x in choices)
        dtype = "float32" if is_fraction else "int32"
        like = site.add(layers.Cast(dtype=dtype), [condition], condition.order)[0]
        choices = _as_values(site, [like, *choices])[1:]
    if _dtype(site, condition) != "bool":
        condition = site.add(layers.Cast(dtype="bool"), [condition], condition.order)[0]
    values = unified(site.builder, [condition, *_as_values(site, choices)])
    return site.add(layers.Where(), values, values[0].order)


# ---------------------------------------------------------------------- reductions


def _reduction(layer: type[Layer], *operations: str) -> KerasRow:
    def operate(site: KerasLayerImport) -> Values:
        value = site.one()
        axes = _argument(site, 1, "axis")
        if axes is None:
            raise NotImportableError("it takes all axes, the batch among them")
        axes = [int(axis) for axis in (axes if isinstance(axes, list | tuple) else [axes])]
        keepdims = bool(_argument(site, 2, "keepdims", default=False))
        return _add_reduction(site, layer, value, axes, keepdims)

    return _row(layer, operations, operate)


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
        value, axis = site.one(), _argument(site, 1, "axis")
        if axis is None or _argument(site, 2, "keepdims", default=False):
            raise NotImportableError("it takes all axes, the batch among them, or keeps the axis")
        value = site.builder.as_keras(value)
        return site.add(layer(axis=_positive([int(axis)], value)[0]), [value])

    return _row(layer, operations, operate)


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
    axis = int(_argument(site, 1, "axis"))
    axis += value.rank + 2 if axis < 0 else 0
    if not 1 <= axis <= value.rank + 1:
        raise NotImportableError(f"a new axis {axis} of a value of {value.rank + 1} axes: the batch stays first")
    return _add_reshape(site, value, [*value.shape[: axis - 1], 1, *value.shape[axis - 1 :]])


def _operate_squeeze(site: KerasLayerImport) -> Values:
    value = site.builder.as_keras(site.one())
    axes = _argument(site, 1, "axis")
    if axes is None:
        raise NotImportableError("it drops all axes of one element: name them by axis")
    places = _positive(axes if isinstance(axes, list | tuple) else [axes], value)
    if any(value.shape[place - 1] != 1 for place in places):
        raise NotImportableError(f"axes {places} of {list(value.shape)} are not of one element")
    return _add_reshape(site, value, [n for i, n in enumerate(value.shape, 1) if i not in places])


def _operate_reshape(site: KerasLayerImport) -> Values:
    value = site.builder.as_keras(site.one())
    first, *shape = [-1 if n is None else int(n) for n in _argument(site, 1, "newshape") or [0]]
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
    axis = int(_argument(site, 1, "axis", default=0))
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
        _function(layers.Abs, "Absolute", "Abs", "Fabs"),
        _function(layers.Negative, "Negative"),
        _function(layers.Square, "Square"),
        _function(layers.Sqrt, "Sqrt"),
        _function(layers.Log, "Log"),
        _function(layers.Reciprocal, "Reciprocal"),
        _function(layers.Floor, "Floor"),
        _function(layers.Ceil, "Ceil"),
        _function(layers.Sign, "Sign"),
        _function(layers.Sin, "Sin"),
        _function(layers.Cos, "Cos"),
        _function(layers.Erf, "Erf"),
        _function(layers.LogicalNot, "LogicalNot"),
        _binary(layers.Mod, "Mod"),
        _binary(layers.Equal, "Equal"),
        _binary(layers.Less, "Less"),
        _binary(layers.LessEqual, "LessEqual"),
        _binary(layers.Greater, "Greater"),
        _binary(layers.GreaterEqual, "GreaterEqual"),
        _binary(layers.LogicalAnd, "LogicalAnd"),
        _binary(layers.LogicalOr, "LogicalOr"),
        _binary(layers.LogicalXor, "LogicalXor"),
        _row(layers.Clip, ["Clip"], _operate_clip),
        _row(layers.Power, ["Power"], _operate_power),
        _row(layers.Cast, ["Cast"], _operate_cast),
        _row(layers.Where, ["Where"], _operate_where),
        _reduction(layers.ReduceSum, "Sum"),
        _reduction(layers.ReduceMean, "Mean"),
        _reduction(layers.ReduceMax, "Max", "Amax"),
        _reduction(layers.ReduceMin, "Min", "Amin"),
        _reduction(layers.ReduceProd, "Prod"),
        _reduction(layers.LogSumExp, "Logsumexp"),
        _extremum(layers.ArgMax, "Argmax"),
        _extremum(layers.ArgMin, "Argmin"),
        _row(layers.MatMul, ["Matmul"], _operate_matmul),
        _row(layers.Slice, ["GetItem"], _operate_get_item),
        _row(layers.Round, ["Round"], _operate_round),
        _only_read(["NotEqual"], _operate_not_equal),
        _only_read(["FloorDivide"], _operate_floor_divide),
        _only_read(["Threshold"], _operate_threshold),
        _only_read(["HardShrink"], _shrink(layers.HardShrink)),
        _only_read(["SoftShrink"], _shrink(layers.SoftShrink)),
        _only_read(["HardTanh"], _operate_hard_tanh),
        _only_read(["TanhShrink"], _operate_tanh_shrink),
        _only_read(["Rsqrt"], _operate_reciprocal_root),
        _only_read(["ExpandDims"], _operate_expand_dims),
        _only_read(["Squeeze"], _operate_squeeze),
        _only_read(["Reshape"], _operate_reshape),
        _only_read(["Stack"], _operate_stack),
    ),
)
