"""Operators and functions of keras.ops in functional models of Keras (``-x``, ``x[:, -1]``, ``keras.ops.mean(x)``) that
are layers here. Keras has no layers of this kind, so that these rows are only read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.keras.config_import.axis_orders import OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.layer_import import unified
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.base import Layer

_END = 2**31 - 1  # a bound beyond the end of every axis


def call_argument(site: KerasLayerImport, index: int, *names: str, default: Any = None) -> Any:
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

    return operation_row(layer, operations, operate)


def _binary(layer: type[Layer], *operations: str) -> KerasRow:
    """A function of two values, or of a value and a number, element by element."""

    def operate(site: KerasLayerImport) -> Values:
        values = _two_values(site)
        return site.add(layer(), values, values[0].order)

    return operation_row(layer, operations, operate)


def _two_values(site: KerasLayerImport) -> list[OrderedValue]:
    """The operands x1 and x2 in one order of axes, with a value in the place of a number."""
    return unified(site.builder, _as_values(site, [call_argument(site, 0, "x1"), call_argument(site, 1, "x2")]))


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
    values = _as_values(site, [x, call_argument(site, 1, "threshold"), call_argument(site, 2, "default_value")])
    is_above = site.add(layers.Greater(), values[:2], x.order)
    return site.add(layers.Where(), [*is_above, values[0], values[2]], x.order)


def _operate_hard_tanh(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Clip(min=-1.0, max=1.0), [value], value.order)


def _operate_tanh_shrink(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Subtract(), [value, *site.add(layers.Tanh(), [value], value.order)], value.order)


def _operate_gated_unit(site: KerasLayerImport) -> Values:
    """The first half of an axis times the sigmoid of the second."""
    value = site.one()
    axis = value.axis(int(call_argument(site, 1, "axis", default=-1)))
    size = value.shape[axis - 1]
    if size is None or size % 2:
        raise NotImportableError(f"it halves an axis of {size} elements")
    bounds = ((0, size // 2), (size // 2, size))
    first, second = (
        site.add(layers.Slice(axes=[axis], starts=[low], stops=[high]), [value], value.order)[0] for low, high in bounds
    )
    return site.add(layers.Multiply(), [first, *site.add(layers.Sigmoid(), [second], value.order)], value.order)


def _operate_round(site: KerasLayerImport) -> Values:
    value = site.one()
    if call_argument(site, 1, "decimals", default=0):
        raise NotImportableError("it keeps decimals")
    return site.add(layers.Round(), [value], value.order)


def operation_row(
    layer: type[Layer], operations: Sequence[str], operate: Callable[[KerasLayerImport], Values]
) -> KerasRow:
    reason = f"Keras has no layer {layer.__name__}, but a function of keras.ops"
    return KerasRow(layers=(layer,), has_class=False, reason=reason, operations=tuple(operations), operate=operate)


def only_read(operations: Sequence[str], operate: Callable[[KerasLayerImport], Values]) -> KerasRow:
    """Functions that become several layers, or a layer whose row stands elsewhere."""
    return KerasRow(name=f"keras.ops: {operations[0]}", operations=tuple(operations), operate=operate)


# ---------------------------------------------------------------------- numbers


def number_of(value: Any) -> float | None:
    """A number as float; None for None."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise NotImportableError("an argument is neither a number nor left out")


def _operate_clip(site: KerasLayerImport) -> Values:
    value = site.one()
    low, high = number_of(call_argument(site, 1, "x_min")), number_of(call_argument(site, 2, "x_max"))
    return site.add(layers.Clip(min=low, max=high), [value], value.order)


def _operate_power(site: KerasLayerImport) -> Values:
    if isinstance(call_argument(site, 1, "x2"), OrderedValue):
        values = _two_values(site)
        return site.add(layers.Power(), values, values[0].order)
    value, exponent = site.one(), number_of(call_argument(site, 1, "x2"))
    if exponent is None:
        raise NotImportableError("it has no exponent")
    return site.add(layers.Power(exponent=exponent), [value], value.order)


def _operate_reciprocal_root(site: KerasLayerImport) -> Values:
    value = site.one()
    return site.add(layers.Power(exponent=-0.5), [value], value.order)


def _operate_cast(site: KerasLayerImport) -> Values:
    value = site.one()
    dtype = str(call_argument(site, 1, "dtype", default=""))
    if isinstance(site.config.get("dtype"), dict):  # the policy of the operation's own arithmetic
        dtype = str(site.config["dtype"].get("config", {}).get("name", ""))
    if not dtype:
        raise NotImportableError("its config does not tell the type of the elements")
    return site.add(layers.Cast(dtype=dtype), [value], value.order)


def _operate_where(site: KerasLayerImport) -> Values:
    condition, *choices = (call_argument(site, i, name) for i, name in enumerate(("condition", "x1", "x2")))
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
        _function(layers.Tan, "Tan"),
        _function(layers.Log1p, "Log1p"),
        _function(layers.Expm1, "Expm1"),
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
        operation_row(layers.Clip, ["Clip"], _operate_clip),
        operation_row(layers.Power, ["Power"], _operate_power),
        operation_row(layers.Cast, ["Cast"], _operate_cast),
        operation_row(layers.Where, ["Where"], _operate_where),
        operation_row(layers.Round, ["Round"], _operate_round),
        only_read(["NotEqual"], _operate_not_equal),
        only_read(["FloorDivide"], _operate_floor_divide),
        only_read(["Threshold"], _operate_threshold),
        only_read(["Glu"], _operate_gated_unit),
        only_read(["HardTanh"], _operate_hard_tanh),
        only_read(["TanhShrink"], _operate_tanh_shrink),
        only_read(["Rsqrt"], _operate_reciprocal_root),
    ),
)
