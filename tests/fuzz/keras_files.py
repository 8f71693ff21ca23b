"""Files of Keras: configs, whole models and their parts, with members of the JSON, layers, names and arrays changed.

The reference is Keras itself: it loads the same file and predicts.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.errors import ModelFileError
from prototorch.interop.conversion.sources import WeightOptions, open_source
from tests.fuzz.array_changes import changed_array
from tests.fuzz.harness import FuzzFormat, NoReferenceError, RefusalError, sample
from tests.fuzz.json_changes import changed

__all__ = ["CONFIG", "KERAS", "LEGACY", "keras_models"]

_BATCH, _OPEN_SIZE = 2, 5
_MAX_ELEMENTS = 1e6  # of an input
_MEMBERS = ("metadata.json", "config.json", "model.weights.h5")


def _keras() -> Any:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras


@cache
def keras_models() -> list[Any]:
    """Small models of odd sizes with random weights."""
    keras = _keras()
    kl = keras.layers
    keras.utils.set_random_seed(0)

    def functional(shape: Sequence[int], body: Callable[[Any], Any]) -> Any:
        x = keras.Input(shape)
        return keras.Model(x, body(x))

    def branches(x: Any) -> Any:
        y = kl.Conv2D(4, 3, padding="same", activation="relu")(x)
        y = kl.Add()([y, kl.DepthwiseConv2D(2, depth_multiplier=2, padding="same")(kl.Conv2D(2, 1)(x))])
        y = kl.Concatenate()([kl.MaxPooling2D(2)(y), kl.AveragePooling2D(2)(y)])
        return kl.Dense(3, activation="softmax")(kl.GlobalAveragePooling2D()(kl.LayerNormalization()(y)))

    def sequence(x: Any) -> Any:
        y = kl.Bidirectional(kl.LSTM(3, return_sequences=True))(x)
        y = kl.TimeDistributed(kl.Dense(4))(kl.GRU(5, return_sequences=True)(y))
        y = kl.Conv1D(4, 2, padding="causal", activation="gelu")(y)
        return kl.Dense(2)(kl.GlobalMaxPooling1D()(y))

    def attention(x: Any) -> Any:
        y = kl.Embedding(11, 6, mask_zero=False)(x)
        y = kl.Add()([y, kl.MultiHeadAttention(2, 3)(y, y)])
        return kl.Dense(3)(kl.Flatten()(kl.LayerNormalization(axis=-1)(y)))

    def operators(x: Any) -> Any:
        y = kl.Dense(4)(x)
        return kl.Concatenate()([kl.Multiply()([y, y * 2 + 1]), y[:, 1:3], kl.Subtract()([y, -y])])

    inner = keras.Sequential([keras.Input((4,)), kl.Dense(4, activation="tanh"), kl.BatchNormalization()])
    models = [
        keras.Sequential([keras.Input((6,)), kl.Dense(5, activation="relu"), kl.BatchNormalization(), kl.Dropout(0.3),
                          kl.Dense(3)]),
        keras.Sequential([keras.Input((9, 7, 3)), kl.Conv2D(4, (3, 2), strides=2), kl.BatchNormalization(),
                          kl.PReLU(shared_axes=[1, 2]), kl.MaxPooling2D((2, 1)), kl.Flatten(), kl.Dense(3)]),
        keras.Sequential([keras.Input((6, 5, 2)), kl.ZeroPadding2D((1, 2)), kl.SeparableConv2D(3, 2), kl.ReLU(6.0),
                          kl.UpSampling2D((2, 1)), kl.Conv2DTranspose(2, 3), kl.Permute((2, 1, 3)),
                          kl.Reshape((-1, 2)), kl.GlobalAveragePooling1D()]),
        functional((9, 7, 3), branches),
        functional((6, 4), sequence),
        functional((5,), attention),
        functional((3,), operators),
        functional((4,), lambda x: kl.Dense(2)(inner(kl.Dense(4)(inner(x))))),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    for model in models:
        for variable in model.weights:
            if "seed" not in variable.path:
                values = rng.standard_normal(tuple(variable.shape)) * 0.4
                variable.assign(np.abs(values) + 0.5 if "variance" in variable.path else values)
    return models


def _saved(model: Any, ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model{ending}"
        model.save(path)
        return Path(path).read_bytes()


# ------------------------------------------------------------------ generators


@cache
def _archives() -> list[dict[str, bytes]]:
    files = []
    for model in keras_models():
        with zipfile.ZipFile(io.BytesIO(_saved(model, ".keras"))) as archive:
            files.append({name: archive.read(name) for name in _MEMBERS})
    return files


def _changed_config(content: bytes | str, rng: random.Random) -> bytes:
    config = json.loads(content)
    if rng.random() < 0.6:  # the arguments of a layer
        layers = [layer for layer in config["config"]["layers"] if layer["config"]]
        layer = rng.choice(layers)
        layer["config"] = changed(layer["config"], rng, rng.choice((1, 1, 2)))
    else:
        config = changed(config, rng, rng.choice((1, 1, 2)))
    return json.dumps(config).encode()


def _generate_config(rng: random.Random) -> bytes:
    return _changed_config(rng.choice(_archives())["config.json"], rng)


def _generate_archive(rng: random.Random) -> bytes:
    members = dict(rng.choice(_archives()))
    kind = rng.random()
    if kind < 0.5:
        members["config.json"] = _changed_config(members["config.json"], rng)
    elif kind < 0.85:
        members["model.weights.h5"] = _changed_hdf5(members["model.weights.h5"], rng)
    elif kind < 0.9:
        members["metadata.json"] = json.dumps(changed(json.loads(members["metadata.json"]), rng)).encode()
    else:
        _change_members(members, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _change_members(members: dict[str, bytes], rng: random.Random) -> None:
    name = rng.choice(list(members))
    kind = rng.randrange(4)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = b""
    elif kind == 2:
        members[f"x/{name}"] = members.pop(name)
    else:
        other = rng.choice(_archives())
        members[name] = other[name]


def _changed_hdf5(content: bytes, rng: random.Random) -> bytes:
    """An HDF5 file with an array, a group or an attribute changed."""
    import h5py

    file = io.BytesIO(content)
    with h5py.File(file, "r+") as root:
        arrays: list[str] = []
        groups = ["/"]
        root.visititems(lambda name, one: (arrays if isinstance(one, h5py.Dataset) else groups).append(name))
        attributes = [(name, key) for name in [*groups, *arrays] for key in root[name].attrs]
        for _ in range(rng.choice((1, 1, 2))):
            kind = rng.random()
            if kind < 0.45 and arrays:
                _change_dataset(root, rng.choice(arrays), rng.choice(arrays), rng)
            elif kind < 0.7 and attributes:
                _change_attribute(root, *rng.choice(attributes), rng)
            else:
                _change_group(root, rng.choice(groups), rng.choice(groups), rng)
            arrays = [name for name in arrays if name in root]
            groups = [name for name in groups if name in root]
            attributes = [(name, key) for name, key in attributes if name in root and key in root[name].attrs]
    return file.getvalue()


def _change_dataset(root: Any, name: str, other: str, rng: random.Random) -> None:
    array, other_array = root[name][()], root[other][()]
    del root[name]
    new = changed_array(array, other_array, rng)
    if new is not None:
        root[name if rng.random() < 0.9 else f"{name}x"] = new


def _change_attribute(root: Any, name: str, key: str, rng: random.Random) -> None:
    attributes = root[name].attrs
    value = attributes[key]
    text = value.decode() if isinstance(value, bytes) else value
    kind = rng.randrange(5)
    if isinstance(text, str) and text.startswith("{") and kind:
        attributes[key] = _changed_config(text, rng) if "layers" in text else json.dumps(changed(json.loads(text), rng))
    elif kind == 0:
        del attributes[key]
    elif kind == 1:
        attributes[key] = rng.choice(("x", "", 3, np.zeros(3), "1.2.2", "2.4.0", "theano"))
    elif isinstance(value, np.ndarray) and value.size:
        order = list(range(value.size))
        at = rng.randrange(value.size)
        orders = (order[:at] + order[at + 1 :], [*order, at], rng.sample(order, len(order)))
        attributes[key] = value.reshape(-1)[rng.choice(orders)]
    else:
        attributes[f"{key}x"] = value
        del attributes[key]


def _change_group(root: Any, name: str, other: str, rng: random.Random) -> None:
    kind = rng.randrange(4)
    if name == "/" or other == "/" or name.startswith(other) or other.startswith(name):
        root.require_group(f"x{rng.randrange(3)}/vars")
    elif kind == 0:
        del root[name]
    elif kind == 1:
        root.move(name, f"{name}_{rng.randrange(3)}x")
    elif kind == 2:
        root.copy(name, f"{name}_copy")
    else:  # exchanged
        root.move(name, "exchanged")
        root.move(other, name)
        root.move("exchanged", other)


@cache
def _legacy_files() -> list[bytes]:
    return [_saved(model, ".h5") for model in keras_models()]


def _generate_legacy(rng: random.Random) -> bytes:
    return _changed_hdf5(rng.choice(_legacy_files()), rng)


# ------------------------------------------------------------------ ours and theirs


def _feeds(model: Any) -> list[np.ndarray]:
    """Elements for the inputs of a model of Keras."""
    feeds = []
    for number, tensor in enumerate(model.inputs):
        shape = [_BATCH, *(n or _OPEN_SIZE for n in tensor.shape[1:])]
        if np.prod(shape, dtype=float) > _MAX_ELEMENTS:
            raise NoReferenceError("an input is too large")
        dtype = str(tensor.dtype)
        feeds.append(sample(f"{number}", shape, dtype if dtype != "bfloat16" else "float32"))
    return feeds


class _Peer:
    """A file in Keras: its model and what it computes, or why it is refused."""

    count = 0

    def __init__(self, path: Path):
        self.error: Exception | None = None
        self.feeds: list[np.ndarray] = []
        self.outputs: list[np.ndarray] = []
        keras = _keras()
        _Peer.count += 1
        if _Peer.count % 100 == 0:
            keras.backend.clear_session()  # takes half a second
        try:
            if path.suffix == ".json":
                self.model = keras.models.model_from_json(path.read_text())
                for number, variable in enumerate(self.model.weights):
                    if "seed" not in variable.path:
                        variable.assign(np.abs(sample(f"weight{number}", tuple(variable.shape))) * 0.4)
            else:
                self.model = keras.saving.load_model(path, compile=False)
            self.feeds = _feeds(self.model)
            outputs = self.model(self.feeds if len(self.feeds) != 1 else self.feeds[0], training=False)
            self.outputs = [np.asarray(a.detach().cpu().numpy()) for a in keras.tree.flatten(outputs)]
        except Exception as error:
            self.error = error
            if self.feeds and any(None in tensor.shape[1:] for tensor in self.model.inputs):
                self.error = NoReferenceError("the sizes that are open may be others than those of the data")


_last_peer: dict[Path, _Peer] = {}


def _peer(path: Path) -> _Peer:
    if path not in _last_peer:
        _last_peer.clear()
        _last_peer[path] = _Peer(path)
    return _last_peer[path]


def _load(path: Path) -> Any:
    _last_peer.clear()
    model = open_source(str(path), None, (), WeightOptions(), {}).model
    if model is None:
        raise ModelFileError(f"{path}: was read as a file of weights alone")
    return path, model


def _run(loaded: tuple[Path, Any]) -> Sequence[np.ndarray]:
    path, model = loaded
    peer = _peer(path)
    if peer.error is not None:
        return []
    if path.suffix == ".json":
        with tempfile.TemporaryDirectory() as folder:
            peer.model.save_weights(f"{folder}/w.weights.h5")
            orders = {str(getattr(layer, "data_format", None)) for layer in peer.model.layers}
            order = "channels_first" if "channels_first" in orders - {"channels_last"} else "channels_last"
            model.load_weights(f"{folder}/w.weights.h5", data_format=order)
    feeds = {}
    for node, feed in zip(model.net.inputs, peer.feeds, strict=True):
        fits = all(a in (b, None) for a, b in zip(node.shape, feed.shape[1:], strict=True))
        is_moved = feed.ndim > 3 and (model_is_channels_first(model, node) or not fits)
        feeds[node.name] = np.ascontiguousarray(np.moveaxis(feed, -1, 1)) if is_moved else feed
    outputs = model.predict(feeds, batch_size=_BATCH, verbose=0)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return [_oriented(a, b) for a, b in zip(outputs, peer.outputs, strict=True)]


def model_is_channels_first(model: Any, node: Any) -> bool:
    """Whether an input of ours has its channels before the sizes of the image, as our importer brings them there."""
    return len(node.shape) > 2


def _oriented(array: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """An output in Keras' order of axes."""
    moved = np.moveaxis(array, 1, -1) if array.ndim > 2 else array
    candidates = [a for a in (array, moved) if a.shape == expected.shape]
    return min(candidates, key=lambda a: float(np.abs(a - expected).max(initial=0)), default=array)


def _reference(path: Path) -> Sequence[np.ndarray]:
    peer = _peer(path)
    if isinstance(peer.error, NoReferenceError):
        raise peer.error
    if peer.error is not None:
        text = str(peer.error).partition("Exception encountered: ")
        bias = re.search(r"expects shape \(2, (\d+)\)\. Received saved weight with shape \((\d+),\)", str(peer.error))
        if bias and 2 * int(bias[1]) == int(bias[2]):
            raise NoReferenceError("the bias of a CuDNNGRU, which Keras 2 reads")
        for pattern, reason in _OTHER_VERSIONS.items():
            if re.search(pattern, str(peer.error)):
                raise NoReferenceError(reason)
        name = re.search(r"Could not locate class '(\w+)'", str(peer.error))
        if name and any(one.get("class_name") == name[1] and "module" not in one for one in _objects(_config(path))):
            raise NoReferenceError("a class without a module, which Keras 2 takes")
        raise RefusalError(f"{type(peer.error).__name__}: {text[2] or text[0]}".replace("\n", " "))
    return peer.outputs


def _config(path: Path) -> Any:
    """The model's config in a file."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("config.json"))
    import h5py

    with h5py.File(path) as root:
        return json.loads(root.attrs["model_config"])


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value of JSON."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(one)


#: what Keras 3 on torch says of files that another version, or Keras on another backend, reads
_OTHER_VERSIONS = {
    r"cannot contain character `/`\. Received: name=\S*/": "a name with a slash, which Keras 2 takes",
    r"only supported with the TensorFlow backend": "an argument for TensorFlow alone",
    r"(?s)LayerNormalization\.call.*normalized_shape=": "Keras on torch normalizes over the last axes alone",
}

CONFIG = FuzzFormat("keras_config", ".json", _generate_config, _load, _run, _reference)
KERAS = FuzzFormat("keras", ".keras", _generate_archive, _load, _run, _reference)
LEGACY = FuzzFormat("keras_h5", ".h5", _generate_legacy, _load, _run, _reference)
