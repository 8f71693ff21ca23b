"""Functions of keras.ops in functional models (``x + y``, ``keras.ops.relu(x)``) as layers of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import layers
from prototorch.interop.keras.config_import.axis_orders import OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError, activation_layer
from prototorch.interop.keras.config_import.layer_import import transposed, unified
from prototorch.interop.keras.config_import.site import Site, Values

__all__ = ["import_operation", "is_operation"]

_MERGES = {"Add": layers.Add, "Subtract": layers.Subtract, "Multiply": layers.Multiply, "Maximum": layers.Maximum,
           "Minimum": layers.Minimum}  # fmt: skip
_ACTIVATIONS = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Silu": "silu",
    "Softsign": "softsign",
    "Selu": "selu", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu", "Exp": "exponential",
    "LogSigmoid": "log_sigmoid", "Mish": "mish",
}  # fmt: skip


def is_operation(module: str) -> bool:
    """Whether a config's class is a function of keras.ops."""
    return module.startswith(("keras.src.ops", "keras.ops"))


def import_operation(site: Site) -> Values:
    """The outputs of an operation. Raises NotImportableError where no layer does the same."""
    kind = site.call.kind
    if kind in _ACTIVATIONS:
        value = site.one()
        return site.add(activation_layer(_ACTIVATIONS[kind]), [value], value.order)
    if kind in _OPERATIONS:
        return _OPERATIONS[kind](site)
    if kind in _MERGES or kind in ("TrueDivide", "Divide"):
        return _arithmetic(site)
    raise NotImportableError(f"keras.ops has this function, and no layer here does the same (of {site.call.module})")


def _operands(site: Site) -> tuple[Any, Any]:
    given = [*site.args, *(v for k, v in site.kwargs.items() if k in ("x1", "x2"))]
    if len(given) != 2:
        raise NotImportableError(f"is called on {len(given)} operands; two are expected")
    return given[0], given[1]


def _arithmetic(site: Site) -> Values:
    kind = site.call.kind
    x, y = _operands(site)
    if isinstance(x, OrderedValue) and isinstance(y, OrderedValue):
        if kind not in _MERGES:
            raise NotImportableError("the quotient of two values has no layer here")
        values = unified(site.builder, [x, y])
        return site.add(_MERGES[kind](), values, values[0].order)
    number = y if isinstance(x, OrderedValue) else x
    value = x if isinstance(x, OrderedValue) else y
    if not isinstance(value, OrderedValue) or isinstance(number, bool) or not isinstance(number, int | float):
        raise NotImportableError("an operand is neither a value of the net nor a number")
    is_left = value is x
    scale, offset = {
        "Add": (1.0, number),
        "Subtract": (1.0, -number) if is_left else (-1.0, number),
        "Multiply": (number, 0.0),
        "TrueDivide": (1 / number, 0.0) if is_left and number else (None, None),
        "Divide": (1 / number, 0.0) if is_left and number else (None, None),
    }.get(kind, (None, None))
    if scale is None:
        raise NotImportableError(f"{kind} with a number has no layer here")
    return site.add(layers.Rescaling(scale=float(scale), offset=float(offset or 0.0)), [value], value.order)


def _softmax(site: Site) -> Values:
    value = site.one()
    axis = site.config.get("axis", site.kwargs.get("axis", -1))
    cls = layers.Softmax if site.call.kind == "Softmax" else layers.LogSoftmax
    return site.add(cls(axis=value.axis(-1 if axis is None else axis)), [value], value.order)


def _concatenate(site: Site) -> Values:
    values = unified(site.builder, site.values())
    axis = site.config.get("axis", site.kwargs.get("axis", -1))
    return site.add(layers.Concatenate(axis=values[0].axis(axis)), values, values[0].order)


def _transpose(site: Site) -> Values:
    value = site.one()
    axes = site.config.get("axes", site.kwargs.get("axes")) or list(range(value.rank, -1, -1))
    axes = [int(axis) % (value.rank + 1) for axis in axes]
    if axes[0] != 0 or sorted(axes) != list(range(value.rank + 1)):
        raise NotImportableError(f"axes={axes} move the batch, which stays first here")
    return (transposed(site, value, [axis - 1 for axis in axes[1:]]),)


_OPERATIONS: dict[str, Callable[[Site], Values]] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Concatenate": _concatenate,
    "Transpose": _transpose,
}
