"""Upgrade of V1 layers (``layers { type: CONVOLUTION }``) to the newest form (``layer { type: "Convolution" }``)."""

from __future__ import annotations

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message

__all__ = ["layer_type", "upgrade_data_transforms", "upgrade_v1_net"]

_TYPES = {
    "ABSVAL": "AbsVal", "ACCURACY": "Accuracy", "ARGMAX": "ArgMax", "BNLL": "BNLL", "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss", "CONVOLUTION": "Convolution", "DECONVOLUTION": "Deconvolution",
    "DATA": "Data", "DROPOUT": "Dropout", "DUMMY_DATA": "DummyData", "EUCLIDEAN_LOSS": "EuclideanLoss",
    "ELTWISE": "Eltwise", "EXP": "Exp", "FLATTEN": "Flatten", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss", "IM2COL": "Im2col", "IMAGE_DATA": "ImageData", "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss", "MVN": "MVN", "POOLING": "Pooling", "POWER": "Power",
    "RELU": "ReLU", "SIGMOID": "Sigmoid", "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SILENCE": "Silence", "SOFTMAX": "Softmax", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPLIT": "Split", "SLICE": "Slice",
    "TANH": "TanH", "WINDOW_DATA": "WindowData", "THRESHOLD": "Threshold",
}  # fmt: skip
_CHANGED_FIELDS = ("layer", "type", "param", "blob_share_mode", "blobs_lr", "weight_decay")
#: The fields of V1 layers that are fields of ParamSpec in the newest form, one for each parameter blob.
_SPEC_FIELDS = {"param": "name", "blob_share_mode": "share_mode", "blobs_lr": "lr_mult", "weight_decay": "decay_mult"}
_DATA_PARAMS = {"DATA": "data_param", "IMAGE_DATA": "image_data_param", "WINDOW_DATA": "window_data_param"}
_TRANSFORM_FIELDS = ("scale", "mean_file", "crop_size", "mirror")


def layer_type(v1_type: str) -> str:
    """The type of a layer in the newest form ("Convolution") for that of a V1 layer ("CONVOLUTION"); "" for none."""
    return _TYPES.get(v1_type, "")


def upgrade_data_transforms(net: Message) -> Message:
    """A net whose V1 data layers have scale, mean_file, crop_size and mirror in ``transform_param``."""
    for layer in net["layers"]:
        param = layer[_DATA_PARAMS.get(layer["type"], "data_param")]
        moved = [name for name in _TRANSFORM_FIELDS if layer["type"] in _DATA_PARAMS and param.has(name)]
        for name in moved:
            layer.mutable("transform_param").set(name, param[name], param.field_span(name))
            param.clear(name)
    return net


def upgrade_v1_net(net: Message) -> Message:
    """A net whose ``layers`` are ``layer`` fields. Raises TextError where it has both."""
    if not net.has("layers"):
        return net
    if net.has("layer"):
        fail_at(
            'A net has layer { } fields (type: "Convolution") or layers { } fields (type: CONVOLUTION), not both.',
            net.field_span("layer"),
        )
    for layer in net["layers"]:
        net.set("layer", _upgrade_layer(layer), layer.span)
    net.clear("layers")
    return net


def _upgrade_layer(old: Message) -> Message:
    layer = Message("LayerParameter", span=old.span)
    if old["type"] == "NONE":
        fail_at(f"The layer {old['name']!r} has no type.", old.field_span("type"))
    layer.set("type", _TYPES[old["type"]], old.field_span("type"))
    for field, value in old.set_fields():
        if field.name not in _CHANGED_FIELDS:
            for index, item in enumerate(value if field.is_repeated else [value]):
                layer.set(field.name, item, old.field_span(field.name, index))
    for old_name, name in _SPEC_FIELDS.items():
        for index, value in enumerate(old[old_name]):
            span = old.field_span(old_name, index)
            while len(layer["param"]) <= index:
                layer.set("param", Message("ParamSpec", span=span), span)
            layer["param"][index].set(name, value, span)
    return layer
