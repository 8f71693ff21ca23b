"""Keras' layers of several inputs, and the arithmetic of keras.ops (``x + y``, ``2 * x``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow, keras_rows
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.keras.config_import.axis_orders import OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.layer_import import unified
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values

#: (number, whether the value is the left operand) -> scale and offset of the value; None: no layer does the same
Rescale = Callable[[float, bool], tuple[float, float] | None]


def _arithmetic(merge: type[layers.Layer], rescale: Rescale) -> Callable[[KerasLayerImport], Values]:
    """The import of an operator: of two values as a layer, of a value and a number as a rescaling."""

    def operate(site: KerasLayerImport) -> Values:
        x, y = _operands(site)
        if isinstance(x, OrderedValue) and isinstance(y, OrderedValue):
            values = unified(site.builder, [x, y])
            return site.add(merge(), values, values[0].order)
        number = y if isinstance(x, OrderedValue) else x
        value = x if isinstance(x, OrderedValue) else y
        if not isinstance(value, OrderedValue) or isinstance(number, bool) or not isinstance(number, int | float):
            raise NotImportableError("an operand is neither a value of the net nor a number")
        factors = rescale(number, value is x)
        if factors is None:
            raise NotImportableError(f"{site.call.kind} with a number has no layer here")
        scale, offset = map(float, factors)
        return site.add(layers.Rescaling(scale=scale, offset=offset), [value], value.order)

    return operate


def _operands(site: KerasLayerImport) -> tuple[Any, Any]:
    operands = [*site.args, *(v for k, v in site.kwargs.items() if k in ("x1", "x2"))]
    if len(operands) != 2:
        raise NotImportableError(f"is called on {len(operands)} operands; two are expected")
    return operands[0], operands[1]


def _extremum(merge: type[layers.Layer], field: str) -> Callable[[KerasLayerImport], Values]:
    """The import of an extremum: of two values as a layer, of a value and a number as a Clip with one bound."""
    of_two = _arithmetic(merge, lambda number, is_left: None)

    def operate(site: KerasLayerImport) -> Values:
        values, operands = site.values(), _operands(site)
        numbers = [x for x in operands if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(values) != 1 or len(numbers) != 1:
            return of_two(site)
        return site.add(layers.Clip(**{field: float(numbers[0])}), values, values[0].order)

    return operate


def _operate_quotient(site: KerasLayerImport) -> Values:
    x, y = _operands(site)
    if isinstance(y, OrderedValue) and isinstance(x, int | float) and not isinstance(x, bool):
        inverse = site.add(layers.Reciprocal(), [y], y.order)
        return inverse if x == 1 else site.add(layers.Rescaling(scale=float(x)), inverse, y.order)
    return _arithmetic(layers.Divide, _quotient)(site)


def _quotient(number: float, is_left: bool) -> tuple[float, float] | None:
    return (1 / number, 0.0) if is_left and number else None


def _read_concatenate(site: KerasLayerImport) -> Values:
    values = unified(site.builder, site.values())
    if len(values) == 1:
        return tuple(values)
    axis = values[0].axis(site.config.get("axis", -1))
    return site.add(layers.Concatenate(axis=axis), values, values[0].order)


def _operate_concatenate(site: KerasLayerImport) -> Values:
    values = unified(site.builder, site.values())
    axis = site.config.get("axis", site.kwargs.get("axis", -1))
    return site.add(layers.Concatenate(axis=values[0].axis(axis)), values, values[0].order)


def _read_dot(site: KerasLayerImport) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(layers.Dot(**site.fields(layers.Dot)), values)


def _write_dot(layer: layers.Dot, config: dict[str, Any]) -> None:
    if len(layer.axes) == 1:
        config["axes"] = layer.axes[0]


def _read_merge_of_keras_1(site: KerasLayerImport) -> Values:
    mode = site.config.get("mode")
    row = next((row for row in keras_rows() if row.merge_mode and row.merge_mode == mode), None)
    if row is None:
        raise NotImportableError(f"mode={mode!r:.40} has no counterpart")
    values = unified(site.builder, site.values())
    (merge,) = row.layers
    has_axis = "axis" in merge.specs()
    fields = {"axis": values[0].axis(site.config.get("concat_axis", -1))} if has_axis else {}
    return site.add(merge(**fields), values, values[0].order)


ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            layers=(layers.Add,),
            merge_mode="sum",
            operations=("Add",),
            operate=_arithmetic(layers.Add, lambda number, is_left: (1.0, number)),
        ),
        KerasRow(
            layers=(layers.Subtract,),
            operations=("Subtract",),
            operate=_arithmetic(layers.Subtract, lambda number, is_left: (1, -number) if is_left else (-1, number)),
        ),
        KerasRow(
            layers=(layers.Multiply,),
            merge_mode="mul",
            operations=("Multiply",),
            operate=_arithmetic(layers.Multiply, lambda number, is_left: (number, 0.0)),
        ),
        KerasRow(
            layers=(layers.Divide,),
            reason="Keras has no layer Divide, but the function keras.ops.divide",
            operations=("Divide", "TrueDivide"),
            operate=_operate_quotient,
        ),
        KerasRow(layers=(layers.Average,), merge_mode="ave"),
        KerasRow(
            layers=(layers.Maximum,),
            merge_mode="max",
            operations=("Maximum",),
            operate=_extremum(layers.Maximum, "min"),
        ),
        KerasRow(layers=(layers.Minimum,), operations=("Minimum",), operate=_extremum(layers.Minimum, "max")),
        KerasRow(
            layers=(layers.Concatenate,),
            merge_mode="concat",
            operations=("Concatenate",),
            operate=_operate_concatenate,
            read=_read_concatenate,
        ),
        KerasRow(layers=(layers.Dot,), write=_write_dot, read=_read_dot),
        KerasRow(name="Merge", read=_read_merge_of_keras_1),
    ),
)
