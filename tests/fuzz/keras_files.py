"""Files of Keras: configs, whole models and their parts, with members of the JSON, layers, names and arrays changed.

The reference is Keras itself: it loads the same file and predicts.
"""

from __future__ import annotations

import io
import json
import random
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.errors import ModelFileError
from prototorch.interop.conversion.sources import WeightOptions, open_source
from tests.fuzz.harness import FuzzFormat, NoReferenceError, RefusalError, sample
from tests.fuzz.hdf5_changes import changed_hdf5
from tests.fuzz.json_changes import changed, exchanged
from tests.fuzz.keras_models import ARGUMENTS, exchanged_arguments, keras_models, keras_module

__all__ = ["CONFIG", "KERAS", "LEGACY", "oriented_outputs", "peer_feeds"]

_BATCH, _OPEN_SIZE = 2, 5
_MAX_ELEMENTS = 1e6  # of an input
_MEMBERS = ("metadata.json", "config.json", "model.weights.h5")


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
            files[-1]["config.json"] = re.sub(rb'("shared_object_id": )[0-9]+', rb"\g<1>7", files[-1]["config.json"])
    return files


def _changed_config(content: bytes | str, rng: random.Random) -> bytes:
    config = json.loads(content)
    kind, count = rng.random(), rng.choice((1, 1, 2))
    layers = [layer for layer in config["config"]["layers"] if layer["config"]]
    layer = rng.choice(layers)
    if kind < 0.6:  # the arguments of a layer, for others that it may have
        layer["config"] = exchanged_arguments(layer["config"], rng, count)
    elif kind < 0.7:
        config = exchanged(config, rng, count, ARGUMENTS)
    elif kind < 0.85:
        layer["config"] = changed(layer["config"], rng, count)
    else:
        config = changed(config, rng, count)
    return json.dumps(config).encode()


def _generate_config(rng: random.Random) -> bytes:
    return _changed_config(rng.choice(_archives())["config.json"], rng)


def _generate_archive(rng: random.Random) -> bytes:
    members = dict(rng.choice(_archives()))
    kind = rng.random()
    if kind < 0.5:
        members["config.json"] = _changed_config(members["config.json"], rng)
    elif kind < 0.85:
        members["model.weights.h5"] = changed_hdf5(members["model.weights.h5"], rng, _changed_config)
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


@cache
def _legacy_files() -> list[bytes]:
    return [_saved(model, ".h5") for model in keras_models()]


def _generate_legacy(rng: random.Random) -> bytes:
    return changed_hdf5(rng.choice(_legacy_files()), rng, _changed_config)


# ------------------------------------------------------------------ ours and theirs


def peer_feeds(model: Any) -> list[np.ndarray]:
    """Elements for the inputs of a model of Keras."""
    feeds = []
    for number, tensor in enumerate(model.inputs):
        shape = [_BATCH, *(n or _OPEN_SIZE for n in tensor.shape[1:])]
        if np.prod(shape, dtype=float) > _MAX_ELEMENTS:
            raise NoReferenceError("an input is too large")
        dtype = str(tensor.dtype)
        feed = sample(f"{number}", shape, dtype if dtype != "bfloat16" else "float32")
        has_numbers = any(isinstance(layer, keras_module().layers.Embedding) for layer in model._flatten_layers())
        feeds.append(np.round(np.abs(feed)) if has_numbers else feed)
    return feeds


class _Peer:
    """A file in Keras: its model and what it computes, or why it is refused."""

    count = 0

    def __init__(self, path: Path):
        self.error: Exception | None = None
        self.feeds: list[np.ndarray] = []
        self.outputs: list[np.ndarray] = []
        keras = keras_module()
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
            self.feeds = peer_feeds(self.model)
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
    return oriented_outputs(model, peer.feeds, peer.outputs)


def oriented_outputs(
    model: Any, peer_feeds: Sequence[np.ndarray], expected: Sequence[np.ndarray | None]
) -> list[np.ndarray]:
    """What a model of ours computes for inputs in Keras' order of axes; outputs are in that of the expected ones."""
    feeds = {}
    for node, feed in zip(model.net.inputs, peer_feeds, strict=True):
        fits = all(a in (b, None) for a, b in zip(node.shape, feed.shape[1:], strict=True))
        is_moved = feed.ndim > 3 and (model_is_channels_first(model, node) or not fits)
        feeds[node.name] = np.ascontiguousarray(np.moveaxis(feed, -1, 1)) if is_moved else feed
    outputs = model.predict(feeds, batch_size=_BATCH, verbose=0)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return [_oriented(a, b) for a, b in zip(outputs, expected, strict=True)]


def model_is_channels_first(model: Any, node: Any) -> bool:
    """Whether an input of ours has its channels before the sizes of the image, as our importer brings them there."""
    return len(node.shape) > 2


def _oriented(array: np.ndarray, expected: np.ndarray | None) -> np.ndarray:
    """An output in Keras' order of axes."""
    if expected is None:
        return array
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
    layers = list(peer.model._flatten_layers())
    if any(getattr(layer, "mask_zero", False) for layer in layers) and any(hasattr(one, "key_dim") for one in layers):
        raise NoReferenceError("attention of masked queries: zeros, but Keras on torch takes the mean of all values")
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
    r"only supported with the TensorFlow backend|is not supported with the torch backend": "an argument for TensorFlow",
    r"(?s)LayerNormalization\.call.*normalized_shape=": "Keras on torch normalizes over the last axes alone",
}

CONFIG = FuzzFormat("keras_config", ".json", _generate_config, _load, _run, _reference)
KERAS = FuzzFormat("keras", ".keras", _generate_archive, _load, _run, _reference)
LEGACY = FuzzFormat("keras_h5", ".h5", _generate_legacy, _load, _run, _reference)
