"""Elementwise ops that are not one op of ONNX, or not in older opsets."""

from __future__ import annotations

import numpy as np

from prototorch.interop.onnx.export.walker import OpExport, exports_op, onnx_dtype


def _number(export: OpExport, value: float, index: int = 0) -> str:
    """A scalar of an input's dtype."""
    return export.constant(np.asarray(value, export.inputs[index].dtype), "number")


@exports_op("square")
def _square(export: OpExport) -> None:
    export.result("Mul", [export.name(0)] * 2)


@exports_op("rsqrt")
def _rsqrt(export: OpExport) -> None:
    export.result("Reciprocal", [export.emit("Sqrt", [export.name(0)])])


@exports_op("expm1")
def _expm1(export: OpExport) -> None:
    export.result("Sub", [export.emit("Exp", [export.name(0)]), _number(export, 1)])


@exports_op("log1p")
def _log1p(export: OpExport) -> None:
    export.result("Log", [export.emit("Add", [export.name(0), _number(export, 1)])])


@exports_op("log2", "log10")
def _logarithm(export: OpExport) -> None:
    base = 2 if export.node.op.name == "log2" else 10
    export.result("Mul", [export.emit("Log", [export.name(0)]), _number(export, 1 / np.log(base))])


@exports_op("exp2")
def _exp2(export: OpExport) -> None:
    export.result("Pow", [_number(export, 2), export.name(0)])


@exports_op("logaddexp")
def _logaddexp(export: OpExport) -> None:
    a, b = export.elementwise_inputs()
    gap = export.emit("Neg", [export.emit("Abs", [export.emit("Sub", [a, b])])])
    export.result("Add", [export.emit("Max", [a, b]), export.emit("Softplus", [gap])])


@exports_op("hypot")
def _hypot(export: OpExport) -> None:
    squares = [export.emit("Mul", [name, name]) for name in export.elementwise_inputs()]
    export.result("Sqrt", [export.emit("Add", squares)])


@exports_op("trunc")
def _trunc(export: OpExport) -> None:
    x = export.name(0)
    export.result("Mul", [export.emit("Sign", [x]), export.emit("Floor", [export.emit("Abs", [x])])])


@exports_op("fmod")
def _fmod(export: OpExport) -> None:
    export.result("Mod", export.elementwise_inputs(), {"fmod": 1})


@exports_op("relu6")
def _relu6(export: OpExport) -> None:
    export.result("Clip", [export.name(0), _number(export, 0), _number(export, 6)])


@exports_op("prelu")
def _prelu(export: OpExport) -> None:
    export.result("PRelu", [export.name(0), export.name(1)])


@exports_op("log_sigmoid")
def _log_sigmoid(export: OpExport) -> None:
    inner = export.emit("Softplus", [export.emit("Neg", [export.name(0)])])
    export.result("Neg", [inner])


@exports_op("silu")
def _silu(export: OpExport) -> None:
    export.result("Mul", [export.name(0), export.emit("Sigmoid", [export.name(0)])])


@exports_op("mish")
def _mish(export: OpExport) -> None:
    inner = export.emit("Tanh", [export.emit("Softplus", [export.name(0)])])
    export.result("Mul", [export.name(0), inner])


@exports_op("hard_swish")
def _hard_swish(export: OpExport) -> None:
    inner = export.emit("HardSigmoid", [export.name(0)], {"alpha": 1 / 6, "beta": 0.5})
    export.result("Mul", [export.name(0), inner])


@exports_op("gelu")
def _gelu(export: OpExport) -> None:
    x = export.name(0)
    if export.attributes_or_defaults()["approximate"]:
        cube = export.emit("Mul", [export.emit("Mul", [x, x]), x])
        inner = export.emit("Add", [x, export.emit("Mul", [cube, _number(export, 0.044715)])])
        bend = export.emit("Tanh", [export.emit("Mul", [inner, _number(export, (2 / np.pi) ** 0.5)])])
    else:
        bend = export.emit("Erf", [export.emit("Mul", [x, _number(export, 0.5**0.5)])])
    half = export.emit("Mul", [x, _number(export, 0.5)])
    export.result("Mul", [half, export.emit("Add", [bend, _number(export, 1)])])


@exports_op("not_equal")
def _not_equal(export: OpExport) -> None:
    export.result("Not", [export.emit("Equal", export.elementwise_inputs())])


@exports_op("logical_not")
def _logical_not(export: OpExport) -> None:
    dtype = export.inputs[0].dtype
    if dtype == "bool":
        export.result("Not", [export.name(0)])
    else:
        export.result("Cast", [export.emit("Equal", [export.name(0), _number(export, 0)])], {"to": onnx_dtype(dtype)})


@exports_op("floor_divide")
def _floor_divide(export: OpExport) -> None:
    a, b = export.elementwise_inputs()
    if export.inputs[0].spec.is_float:
        export.result("Floor", [export.emit("Div", [a, b])])
    else:  # Div rounds integers towards 0
        export.result("Div", [export.emit("Sub", [a, export.emit("Mod", [a, b])]), b])


@exports_op("remainder")
def _remainder(export: OpExport) -> None:
    """With the sign of the divisor, which Mod has for integers alone."""
    a, b = export.elementwise_inputs()
    if export.inputs[0].spec.is_float:
        whole = export.emit("Floor", [export.emit("Div", [a, b])])
        export.result("Sub", [a, export.emit("Mul", [whole, b])])
    else:
        export.result("Mod", [a, b])


@exports_op("is_finite")
def _is_finite(export: OpExport) -> None:
    infinite, nan = export.emit("IsInf", [export.name(0)]), export.emit("IsNaN", [export.name(0)])
    export.result("Not", [export.emit("Or", [infinite, nan])])


@exports_op("cast")
def _cast(export: OpExport) -> None:
    export.result("Cast", [export.name(0)], {"to": onnx_dtype(export.attributes["dtype"])})
