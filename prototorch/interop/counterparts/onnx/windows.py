"""Layers over windows and places, joins, and reductions."""

from __future__ import annotations

from prototorch import layers
from prototorch.interop.counterparts.onnx.row import ReductionPair, op_pair
from prototorch.interop.counterparts.row import CounterpartRows, FieldPair

ROWS = CounterpartRows(
    system="onnx",
    rows=(
        op_pair("Conv", "", layers.Conv1D, layers.Conv2D, layers.Conv3D),
        op_pair("ConvTranspose", "", layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
        op_pair("MaxPool", "", layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D),
        op_pair("AveragePool", "", layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D),
        op_pair(
            "GlobalAveragePool",
            "",
            layers.GlobalAveragePooling1D,
            layers.GlobalAveragePooling2D,
            layers.GlobalAveragePooling3D,
        ),
        op_pair("GlobalMaxPool", "", layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D),
        op_pair(
            "LRN",
            "",
            layers.LRN,
            fields={
                "size": FieldPair("size"),
                "alpha": FieldPair("alpha", 1e-4),
                "beta": FieldPair("beta", 0.75),
                "bias": FieldPair("k", 1.0),
            },
        ),
        op_pair("Concat", "concat", layers.Concatenate, fields={"axis": FieldPair("axis")}),
        ReductionPair(name="ReduceSum", our_op="sum", layers=(layers.ReduceSum,), axes_input=13),
        ReductionPair(name="ReduceMean", our_op="mean", layers=(layers.ReduceMean,), pooling="GlobalAveragePool"),
        ReductionPair(name="ReduceMax", our_op="max", layers=(layers.ReduceMax,), pooling="GlobalMaxPool"),
        ReductionPair(name="ReduceMin", our_op="min", layers=(layers.ReduceMin,)),
        ReductionPair(name="ReduceProd", our_op="prod", layers=(layers.ReduceProd,)),
        ReductionPair(name="ReduceLogSumExp", layers=(layers.LogSumExp,)),
        ReductionPair(name="ReduceL1", reduction=layers.ReduceSum, before=layers.Abs),
        ReductionPair(name="ReduceL2", reduction=layers.ReduceSum, before=layers.Square, after=layers.Sqrt),
        ReductionPair(name="ReduceSumSquare", reduction=layers.ReduceSum, before=layers.Square),
        ReductionPair(name="ReduceLogSum", reduction=layers.ReduceSum, after=layers.Log),
    ),
)
