"""Caffe's nets and files of weights: fields of the text, layers and blobs changed. The reference is `caffe_interpreter`
on the file as protobuf's own classes read it."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prototorch import caffe
from tests.caffe.interop.protobuf_oracle import protobuf_message
from tests.fuzz.caffe_interpreter import forward
from tests.fuzz.harness import FuzzFormat, NoReferenceError, RefusalError, sample
from tests.fuzz.own_files import changed_text

__all__ = ["MODEL", "NET"]

_TEXTS = [
    """
name: "images"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 7 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 pad: 0 } }
layer { name: "mean" type: "Pooling" bottom: "conv" top: "mean" pooling_param { pool: AVE kernel_h: 2 kernel_w: 2
  stride_h: 2 stride_w: 2 } }
layer { name: "join" type: "Concat" bottom: "pool" bottom: "mean" top: "join" concat_param { axis: 1 } }
layer { name: "drop" type: "Dropout" bottom: "join" top: "join" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc" type: "InnerProduct" bottom: "join" top: "fc" param { lr_mult: 1 } param { lr_mult: 2 }
  inner_product_param { num_output: 5 bias_term: true axis: 1 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" softmax_param { axis: 1 } }
""",
    """
name: "vectors"
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 3 dim: 8 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 3 dim: 8 } } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum"
  eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "power" type: "Power" bottom: "sum" top: "power" power_param { power: 2 scale: 0.5 shift: 3 } }
layer { name: "tanh" type: "TanH" bottom: "a" top: "tanh" }
layer { name: "abs" type: "AbsVal" bottom: "tanh" top: "tanh" }
layer { name: "elu" type: "ELU" bottom: "b" top: "elu" elu_param { alpha: 0.7 } }
layer { name: "ip" type: "InnerProduct" bottom: "power" top: "ip"
  inner_product_param { num_output: 8 bias_term: false transpose: true } }
layer { name: "bnll" type: "BNLL" bottom: "ip" top: "bnll" }
layer { name: "max" type: "Eltwise" bottom: "bnll" bottom: "tanh" bottom: "elu" top: "max"
  eltwise_param { operation: MAX } }
layer { name: "step" type: "Threshold" bottom: "sum" top: "step" threshold_param { threshold: 0.2 } }
layer { name: "flat" type: "Flatten" bottom: "max" top: "flat" flatten_param { axis: 0 end_axis: 1 } }
""",
]
_TYPES = ("ReLU", "ELU", "Sigmoid", "TanH", "AbsVal", "BNLL", "Power", "Softmax", "Flatten", "Dropout", "Eltwise",
          "Concat", "InnerProduct", "Pooling", "Convolution", "Split", "Threshold")  # fmt: skip
_MORE_FIELDS = (
    "dilation: 2", "group: 2", "group: 3", "kernel_size: 2", "kernel_h: 2", "kernel_w: 3", "stride: 3", "stride_h: 1",
    "pad: 1", "pad_h: 1 pad_w: 0", "global_pooling: true", "round_mode: FLOOR", "pool: AVE", "bias_term: false",
    "axis: -1", "axis: 0", "axis: 2", "concat_dim: 1", "transpose: true", "coeff: 2", "operation: PROD", "end_axis: -2",
    "scale: 2",
)  # fmt: skip


# ------------------------------------------------------------------ nets


def _generate_net(rng: random.Random) -> bytes:
    text = rng.choice(_TEXTS)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        text = (changed_text if kind < 0.2 else _changed_layers if kind < 0.35 else _changed_values)(text, rng)
    return text.encode()


def _changed_values(text: str, rng: random.Random) -> str:
    """A number, a name or a word becomes another one of its kind, or a field comes in beside others."""
    kind = rng.randrange(4)
    pattern = (r"(?<=: )-?[0-9.]+", r'(?<=: )"[^"]*"', r"(?<=: )[a-zA-Z]+", r"_param \{ ")[kind]
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    place = rng.choice(places)
    if kind == 0:
        new = rng.choice(("0", "1", "2", "3", "4", "5", "-1", "-2", "0.5", "7", "2147483647"))
    elif kind == 1:
        field = re.search(r"(\w+): $", text[: place.start()])
        same = re.findall(rf'\b{field[1] if field else "name"}: ("[^"]*")', text)
        new = rng.choice([*same, '"new"', '"' + rng.choice(_TYPES) + '"'])
    elif kind == 2:
        new = rng.choice(("true", "false", "MAX", "AVE", "SUM", "PROD", "FLOOR", "CEIL", "STOCHASTIC"))
    else:
        new = place[0] + rng.choice(_MORE_FIELDS) + " "
    return text[: place.start()] + new + text[place.end() :]


def _changed_layers(text: str, rng: random.Random) -> str:
    """A layer is left out, doubled or moved."""
    head, *layers = re.split(r"^(?=layer)", text, flags=re.MULTILINE)
    at = rng.randrange(len(layers)) if layers else 0
    kind = rng.randrange(3)
    if layers and kind == 0:
        del layers[at]
    elif layers and kind == 1:
        layers.insert(rng.randrange(len(layers)), layers[at])
    elif layers:
        layers.insert(rng.randrange(len(layers)), layers.pop(at))
    return head + "".join(layers)


def _fill(net: Any) -> None:
    for name, blobs in net.params.items():
        for index, blob in enumerate(blobs):
            blob.data[...] = sample(f"{name}/{index}", blob.data.shape)


def _weight(layer: str, index: int, shape: tuple[int, ...]) -> np.ndarray:
    return sample(f"{layer}/{index}", shape).astype(np.float64)


def _load_net(path: Path) -> Any:
    return caffe.Net(str(path), caffe.TEST)


def _run_net(net: Any) -> Sequence[np.ndarray]:
    if any(blob.data.size > 1e6 for blob in net.blobs.values()):
        return []
    _fill(net)
    return _outputs(net)


def _outputs(net: Any) -> list[np.ndarray]:
    for name in net.inputs:
        net.blobs[name].data[...] = sample(name, net.blobs[name].data.shape)
    outputs = net.forward()
    return [np.array(outputs[name]) for name in sorted(outputs)]


def _feed(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return sample(name, shape).astype(np.float64)


def _parse(text: str) -> Any:
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, protobuf_message("NetParameter"))
    except text_format.ParseError as error:
        raise RefusalError(str(error)) from None


def _net_reference(path: Path) -> Sequence[np.ndarray]:
    outputs = forward(_parse(path.read_text()), _feed, _weight)
    return [outputs[name] for name in sorted(outputs)]


# ------------------------------------------------------------------ weights


@cache
def _net_path() -> str:
    folder = tempfile.mkdtemp(prefix="prototorch_fuzz_")
    path = f"{folder}/net.prototxt"
    Path(path).write_text(_TEXTS[0])
    return path


@cache
def _model() -> bytes:
    """A file of weights for the first net, as protobuf writes it."""
    message = protobuf_message("NetParameter")
    message.name = "images"
    for name, shapes in (("conv", [(4, 3, 3, 3), (4,)]), ("relu", []), ("fc", [(5, 8 * 2 * 2), (5,)])):
        layer = message.layer.add(name=name, type={"conv": "Convolution", "fc": "InnerProduct"}.get(name, "ReLU"))
        for index, shape in enumerate(shapes):
            blob = layer.blobs.add()
            blob.shape.dim.extend(shape)
            blob.data.extend(sample(f"stored {name}/{index}", shape).reshape(-1))
    return message.SerializeToString()


def _generate_model(rng: random.Random) -> bytes:
    message = protobuf_message("NetParameter")
    message.ParseFromString(_model())
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _change_model(message, rng)
    content = message.SerializeToString()
    if rng.random() < 0.15:  # structure of the wire: a message's end, its beginning, a field twice
        at = rng.randrange(len(content))
        content = rng.choice((content[:at], content[at:], content + content, content + content[:at]))
    return content


def _change_model(message: Any, rng: random.Random) -> None:
    layers = [layer for layer in message.layer if layer.blobs]
    kind = rng.randrange(12)
    if not layers or kind == 0:
        layer = message.layer.add(name=rng.choice(("conv", "fc", "x", "", "relu")))
        layer.blobs.add().data.extend([1.0, 2.0])
        return
    layer = rng.choice(layers)
    blob = rng.choice(layer.blobs)
    if kind == 1:
        layer.name = rng.choice(("conv", "fc", "x", "", "relu", "data"))
    elif kind == 2:
        del layer.blobs[rng.randrange(len(layer.blobs))]
    elif kind == 3:
        layer.blobs.add().CopyFrom(blob)
    elif kind == 4 and blob.shape.dim:
        blob.shape.dim[rng.randrange(len(blob.shape.dim))] = rng.choice((0, 1, 2, 3, 4, 5, -1, 2**31, 2**62))
    elif kind == 5:
        shape = [1] * (4 - len(blob.shape.dim)) + list(blob.shape.dim)
        blob.ClearField("shape")
        blob.num, blob.channels, blob.height, blob.width = (min(max(n, 0), 2**31 - 1) for n in shape[-4:])
    elif kind == 6:
        values = list(blob.data)
        blob.ClearField("data")
        blob.double_data.extend(values)
    elif kind == 7:
        del blob.data[rng.randrange(len(blob.data) + 1) :]
    elif kind == 8:
        blob.data.extend([rng.choice((0.0, 1e38, float("nan"), 1.0))] * rng.choice((1, 2, len(blob.data))))
    elif kind == 9:
        message.layer.add().CopyFrom(layer)
    elif kind == 10:
        shape = list(blob.shape.dim)
        rng.shuffle(shape)
        blob.shape.dim[:] = rng.choice((shape, [*shape, 1], [1, *shape], shape[1:]))
    else:
        blob.diff.extend(blob.data)


def _load_model(path: Path) -> Any:
    net = caffe.Net(_net_path(), caffe.TEST)
    _fill(net)
    net.copy_from(str(path))
    return net


def _model_reference(path: Path) -> Sequence[np.ndarray]:
    message = protobuf_message("NetParameter")
    try:
        message.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's DecodeError, which is of another class in each of its versions
        raise RefusalError(str(error)) from None
    if message.layers:
        raise NoReferenceError("layers of V1")
    stored: dict[str, list[Any]] = {}
    for layer in message.layer:
        if layer.name in stored:
            raise NoReferenceError("two layers of one name")
        stored[layer.name] = list(layer.blobs)
    counts = {"conv": 2, "fc": 2}

    def weight(layer: str, index: int, shape: tuple[int, ...]) -> np.ndarray:
        if layer not in stored:
            return _weight(layer, index, shape)
        blobs = stored[layer]
        if len(blobs) != counts[layer]:
            raise RefusalError(f"incompatible number of blobs for layer {layer}")
        return _stored_blob(blobs[index], shape)

    for name, blobs in stored.items():
        if blobs and name in ("data", "relu", "pool", "mean", "join", "drop", "prob"):
            raise RefusalError(f"incompatible number of blobs for layer {name}")
    outputs = forward(_parse(_TEXTS[0]), _feed, weight)
    return [outputs[name] for name in sorted(outputs)]


def _stored_blob(blob: Any, shape: tuple[int, ...]) -> np.ndarray:
    """As ``Blob::FromProto`` without a reshape."""
    if any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        stored = (blob.num, blob.channels, blob.height, blob.width)
        fits = len(shape) <= 4 and stored == (1,) * (4 - len(shape)) + shape
    else:
        stored = tuple(blob.shape.dim)
        fits = stored == shape
    if not fits:
        raise RefusalError(f"shape mismatch: {stored}, {shape}")
    values = list(blob.double_data) or list(blob.data)
    if len(values) != np.prod(shape):
        raise RefusalError(f"{len(values)} elements for the shape {shape}")
    return np.array(values, np.float64).reshape(shape)


NET = FuzzFormat("prototxt", ".prototxt", _generate_net, _load_net, _run_net, _net_reference)
MODEL = FuzzFormat("caffemodel", ".caffemodel", _generate_model, _load_model, _outputs, _model_reference)
