"""What other frameworks call layers and is none here, or another thing, with what to write: hints of messages."""

from __future__ import annotations

_OWN = "A text holds no code: a layer of your own is a class in Python (docs/extending.md), which a text then names."
_NET = "A net is the list of its layers, without a block around them."
_DATA = "Data are declared in fit { data { source: ... } }."
_LOSS = "A loss is declared in compile {{ loss: ... }}; as a layer with a scalar output there is {}."
_METRIC = "Metrics are declared in compile { metrics: [...] }; as a layer with a scalar output there is ClassAccuracy."
_RESIDUAL = "Write residual { ... }: the sum of what it reads and what the layers in it make of that."
_MERGE = "Merging layers are Add, Subtract, Multiply, Average, Maximum, Minimum, Concatenate and Dot."
_SPLIT = 'Several layers may read one: name it with bottom: "...".'

LAYER_HINTS = {
    **dict.fromkeys(("Lambda", "Subclass", "Custom", "Python"), _OWN),
    **dict.fromkeys(("Sequential", "Model", "Functional", "Module", "Net"), _NET),
    **dict.fromkeys(("InputLayer", "Placeholder"), "Write input { shape: [...] }."),
    **dict.fromkeys(("Data", "ImageData", "HDF5Data", "MemoryData"), _DATA),
    **dict.fromkeys(("Loss", "SoftmaxWithLoss", "CrossEntropyLoss"), _LOSS.format("SoftmaxCrossentropyLoss")),
    "SigmoidCrossEntropyLoss": _LOSS.format("SigmoidCrossentropyLoss"),
    **dict.fromkeys(("Accuracy", "Metric"), _METRIC),
    **dict.fromkeys(("Residual", "Skip", "Shortcut", "ResBlock"), _RESIDUAL),
    **dict.fromkeys(("Merge", "Eltwise"), _MERGE),
    **dict.fromkeys(("Split", "Clone"), _SPLIT),
    "Silence": "A value that nobody reads needs no layer: leave it out.",
    "Reduction": "Write ReduceSum, ReduceMean, ReduceMax or ReduceMin.",
    "Exp": "Did you mean 'Exponential' (e to the power of the input)? Scale before it changes the base.",
    **dict.fromkeys(("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"), "UpSampling2D"),
    **dict.fromkeys(("ZeroPad2d", "ConstantPad2d"), "ZeroPadding2D"),
    **dict.fromkeys(("ReflectionPad2d", "ReplicationPad2d"), "Write Pad { }, with the mode that its page names."),
    "InstanceNorm2d": "Write GroupNormalization with a group for each channel.",
    **dict.fromkeys(("Hardtanh", "HardTanh"), "Clip"),
    **dict.fromkeys(("AbsVal", "Absolute"), "Abs"),
    **dict.fromkeys(
        ("Max", "Sum", "Min"), "Write ReduceMax, ReduceMin or ReduceSum; of several layers Maximum, Minimum or Add."
    ),
    **dict.fromkeys(("Neg", "Negate"), "Negative"),
    **dict.fromkeys(("Sqr",), "Square"),
    **dict.fromkeys(("Pow",), "Power"),
    **dict.fromkeys(("Gather", "Index"), "Take"),
    **dict.fromkeys(("MVN",), "MeanVarianceNormalization"),
    **dict.fromkeys(("SPP",), "SpatialPyramidPooling2D"),
    **dict.fromkeys(("BNLL",), "Softplus"),
    **dict.fromkeys(("Rescale",), "Rescaling"),
}

_KNOWN_SIZE = "The size of the input is known: leave it out."

FIELD_HINTS = {
    **dict.fromkeys(("in_channels", "in_features", "num_features", "input_size", "normalized_shape"), _KNOWN_SIZE),
    **dict.fromkeys(("input_shape", "batch_input_shape"), "The net's input has it: input { shape: [...] }."),
    **dict.fromkeys(("input", "inputs", "from"), "What a layer reads is its bottom."),
    **dict.fromkeys(("loss", "optimizer", "metrics"), "It belongs into compile { }."),
}
