"""Upgrade of V0 layers (``layers { layer { type: "conv" } }``) to V1 layers."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.errors import ModelWarning, did_you_mean, warn_user

__all__ = ["upgrade_v0_net"]

_TYPES = {
    "accuracy": "ACCURACY", "bnll": "BNLL", "concat": "CONCAT", "conv": "CONVOLUTION", "data": "DATA",
    "dropout": "DROPOUT", "euclidean_loss": "EUCLIDEAN_LOSS", "flatten": "FLATTEN", "hdf5_data": "HDF5_DATA",
    "hdf5_output": "HDF5_OUTPUT", "im2col": "IM2COL", "images": "IMAGE_DATA", "infogain_loss": "INFOGAIN_LOSS",
    "innerproduct": "INNER_PRODUCT", "lrn": "LRN", "multinomial_logistic_loss": "MULTINOMIAL_LOGISTIC_LOSS",
    "pool": "POOLING", "relu": "RELU", "sigmoid": "SIGMOID", "softmax": "SOFTMAX", "softmax_loss": "SOFTMAX_LOSS",
    "split": "SPLIT", "tanh": "TANH", "window_data": "WINDOW_DATA",
}  # fmt: skip
_KEPT_NET_FIELDS = ("name", "layers", "input", "input_dim", "force_backward")
_LAYER_FIELDS = ("name", "blobs", "blobs_lr", "weight_decay")
_TRANSFORM_FIELDS = {"scale": "scale", "meanfile": "mean_file", "cropsize": "crop_size", "mirror": "mirror"}


def _at(param: str, name: str, *types: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(types, (param, name))


def _in_products(name: str) -> dict[str, tuple[str, str]]:
    return _at("convolution_param", name, "conv") | _at("inner_product_param", name, "innerproduct")


def _in_windows(name: str) -> dict[str, tuple[str, str]]:
    return _at("convolution_param", name, "conv") | _at("pooling_param", name, "pool")


def _in_sources(name: str, *types: str) -> dict[str, tuple[str, str]]:
    params = {"data": "data_param", "hdf5_data": "hdf5_data_param", "images": "image_data_param",
              "window_data": "window_data_param", "infogain_loss": "infogain_loss_param"}  # fmt: skip
    return {type_name: (params[type_name], name) for type_name in types}


#: For each field of a V0 layer: where it goes in a V1 layer, by the layer's type.
_FIELDS = {
    "num_output": _in_products("num_output"),
    "biasterm": _in_products("bias_term"),
    "weight_filler": _in_products("weight_filler"),
    "bias_filler": _in_products("bias_filler"),
    "pad": _in_windows("pad"),
    "kernelsize": _in_windows("kernel_size"),
    "stride": _in_windows("stride"),
    "group": _at("convolution_param", "group", "conv"),
    "pool": _at("pooling_param", "pool", "pool"),
    "dropout_ratio": _at("dropout_param", "dropout_ratio", "dropout"),
    **{name: _at("lrn_param", name, "lrn") for name in ("local_size", "alpha", "beta", "k")},
    "source": _in_sources("source", "data", "hdf5_data", "images", "window_data", "infogain_loss"),
    "batchsize": _in_sources("batch_size", "data", "hdf5_data", "images", "window_data"),
    "rand_skip": _in_sources("rand_skip", "data", "images"),
    "shuffle_images": _in_sources("shuffle", "images"),
    "new_height": _in_sources("new_height", "images"),
    "new_width": _in_sources("new_width", "images"),
    "concat_dim": _at("concat_param", "concat_dim", "concat"),
    **{f"det_{name}": _in_sources(name, "window_data")
       for name in ("fg_threshold", "bg_threshold", "fg_fraction", "context_pad", "crop_mode")},
}  # fmt: skip


def upgrade_v0_net(net: Message) -> Message:
    """A net whose V0 layers are V1 layers; padding layers become the ``pad`` of the layer that reads them.

    Raises TextError for a type of layer that V0 does not have. Warns of fields that a layer's type does not use,
    which are left out, as in Caffe.
    """
    if not any(layer.has("layer") for layer in net["layers"]):
        return net
    for field, _ in list(net.set_fields()):
        if field.name not in _KEPT_NET_FIELDS:
            _warn(f"The field {field.name} has no meaning in a net of V0 layers; it is left out", net, field.name)
            net.clear(field.name)
    layers = _merge_padding(net)
    net["layers"] = [_upgrade_layer(layer) for layer in layers]
    return net


def _merge_padding(net: Message) -> list[Message]:
    """The layers without padding layers; who read one reads its bottom, with its pad."""
    makers: dict[str, Message | None] = dict.fromkeys(net["input"])
    layers = []
    for layer in net["layers"]:
        new = layer.copy()
        if layer["layer"]["type"] != "padding":
            layers.append(new)
        for index, blob in enumerate(layer["bottom"]):
            if blob not in makers:
                fail_at(
                    f"The layer {layer['layer']['name']!r} reads the blob {blob!r}, which no layer before it makes."
                    f"{did_you_mean(blob, makers)}",
                    layer.field_span("bottom", index),
                )
            maker = makers[blob]
            if maker is not None and maker["layer"]["type"] == "padding":
                _check_padding(layer, maker)
                new["layer"].set("pad", maker["layer"]["pad"], maker["layer"].field_span("pad"))
                new["bottom"][index] = maker["bottom"][0]
        makers.update(dict.fromkeys(layer["top"], layer))
    return layers


def _check_padding(layer: Message, padding: Message) -> None:
    name, type_name = layer["layer"]["name"], layer["layer"]["type"]
    if type_name not in ("conv", "pool"):
        fail_at(f"The layer {name!r} ({type_name}) reads a padding layer; only conv and pool can.", layer.span)
    if len(layer["bottom"]) != 1:
        fail_at(
            f"The layer {name!r} reads a padding layer and has {len(layer['bottom'])} bottoms; it must have one.",
            layer.field_span("bottom"),
        )
    if len(padding["bottom"]) != 1 or len(padding["top"]) != 1:
        fail_at(f"The padding layer {padding['layer']['name']!r} must have one bottom and one top.", padding.span)


def _upgrade_layer(connection: Message) -> Message:
    old = connection["layer"]
    type_name = old["type"]
    if type_name not in _TYPES:
        what = f"has the unknown type {type_name!r}" if type_name else "has no type"
        fail_at(
            f"The V0 layer {old['name']!r} {what}.{did_you_mean(type_name, _TYPES)}",
            old.field_span("type") or connection.span,
        )
    new = Message("V1LayerParameter", span=connection.span)
    for name in ("bottom", "top"):
        for index, blob in enumerate(connection[name]):
            new.set(name, blob, connection.field_span(name, index))
    for field, _ in connection.set_fields():
        if field.name not in ("bottom", "top", "layer"):
            _warn(f"The field {field.name} has no meaning beside a V0 layer; it is left out", connection, field.name)
    new.set("type", _TYPES[type_name], old.field_span("type"))
    for field, value in old.set_fields():
        if field.name != "type":
            _move_field(old, new, field.name, value)
    return new


def _move_field(old: Message, new: Message, name: str, value: Any) -> None:
    """Set a field of a V0 layer at its place in the V1 layer."""
    span = old.field_span(name)
    if name in _LAYER_FIELDS:
        for index, item in enumerate(value if old.type.fields[name].is_repeated else [value]):
            new.set(name, item, old.field_span(name, index))
    elif name in _TRANSFORM_FIELDS:
        new.mutable("transform_param").set(_TRANSFORM_FIELDS[name], value, span)
    elif name == "hdf5_output_param" and old["type"] == "hdf5_output":
        new.set(name, value, span)
    elif old["type"] in _FIELDS.get(name, {}):
        param, new_name = _FIELDS[name][old["type"]]
        new.mutable(param).set(new_name, value, span)
    else:
        _warn(f"The V0 layer {old['name']!r} ({old['type']}) does not use the field {name}; it is left out", old, name)


def _warn(text: str, message: Message, field: str) -> None:
    span = message.field_span(field)
    warn_user(f"{span}: {text}." if span is not None else f"{text}.", ModelWarning)
