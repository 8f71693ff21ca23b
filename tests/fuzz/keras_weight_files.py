"""Keras' ``.weights.h5``, with arrays, groups and attributes changed, in the model that it is of.

The reference is `load_weights` of Keras. Layers with their groups exchanged, names included, are not among the changes:
Keras pairs by the groups' numbers, prototorch by the names that the groups tell.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from prototorch.interop.conversion.sources import WeightOptions, open_source
from tests.fuzz.harness import FuzzFormat, RefusalError
from tests.fuzz.hdf5_changes import changed_hdf5
from tests.fuzz.keras_files import oriented_outputs, peer_feeds
from tests.fuzz.keras_models import keras_models, keras_module

__all__ = ["FORMAT"]

_MODEL = "model_of_the_case"  # an attribute that neither reads: the config of the model


@cache
def _contents() -> list[bytes]:
    contents = []
    for model in keras_models():
        with tempfile.TemporaryDirectory() as folder:
            model.save_weights(f"{folder}/model.weights.h5")
            contents.append(Path(folder, "model.weights.h5").read_bytes())
    return contents


def _generate(rng: random.Random) -> bytes:
    number = rng.randrange(len(_contents()))
    content = changed_hdf5(_contents()[number], rng, exchanges_groups=False)
    file = io.BytesIO(content)
    with h5py.File(file, "r+") as root:
        root.attrs[_MODEL] = keras_models()[number].to_json()
    return file.getvalue()


def _config(path: Path) -> str:
    with h5py.File(path) as root:
        return str(root.attrs[_MODEL])


@cache
def _our_model(config: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_text(config)
        return open_source(str(path), None, (), WeightOptions(), {}).model


def _load(path: Path) -> Any:
    config = _config(path)
    model = _our_model(config)
    model.load_weights(str(path), data_format="channels_last")
    return config, model


def _run(loaded: Any) -> Sequence[np.ndarray]:
    config, model = loaded
    peer = _peer_model(config)
    return oriented_outputs(model, peer_feeds(peer), [None] * len(peer.outputs))


@cache
def _peer_model(config: str) -> Any:
    return keras_module().models.model_from_json(config)


def _reference(path: Path) -> Sequence[np.ndarray]:
    peer, keras = _peer_model(_config(path)), keras_module()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "case.weights.h5")
        copy.write_bytes(path.read_bytes())
        try:
            peer.load_weights(copy)
        except Exception as error:
            raise RefusalError(f"{type(error).__name__}: {error}".replace("\n", " ")) from None
    feeds = peer_feeds(peer)
    outputs = peer(feeds if len(feeds) != 1 else feeds[0], training=False)
    return [np.asarray(a.detach().cpu().numpy()) for a in keras.tree.flatten(outputs)]


FORMAT = FuzzFormat("weights_h5", ".weights.h5", _generate, _load, _run, _reference)
