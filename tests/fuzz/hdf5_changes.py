"""Changes of HDF5 files: of arrays, groups, attributes, and of what stands where."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.array_changes import changed_array
from tests.fuzz.json_changes import changed

__all__ = ["changed_hdf5"]

Change = Callable[[bytes | str, random.Random], bytes]


def changed_hdf5(
    content: bytes, rng: random.Random, change_config: Change | None = None, exchanges_groups: bool = True
) -> bytes:
    """An HDF5 file with an array, a group or an attribute changed. change_config: changes the config of a
    model. exchanges_groups: whether two groups change their places."""
    import h5py

    file = io.BytesIO(content)
    with h5py.File(file, "r+") as root:
        arrays: list[str] = []
        groups = ["/"]
        root.visititems(lambda name, one: (arrays if isinstance(one, h5py.Dataset) else groups).append(name))
        attributes = [(name, key) for name in [*groups, *arrays] for key in root[name].attrs]
        for _ in range(rng.choice((1, 1, 2))):
            kind = rng.random()
            if kind < 0.3 and len(arrays) > 1:  # the elements of arrays of one shape
                one = rng.choice(arrays)
                other = rng.choice([name for name in arrays if root[name].shape == root[one].shape])
                elements = root[one][()]
                root[one][...] = root[other][()]
                root[other][...] = elements
            elif kind < 0.55 and arrays:
                _change_dataset(root, rng.choice(arrays), rng.choice(arrays), rng)
            elif kind < 0.7 and attributes:
                _change_attribute(root, *rng.choice(attributes), rng, change_config)
            else:
                _change_group(root, rng.choice(groups), rng.choice(groups), rng, exchanges_groups)
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


def _change_attribute(root: Any, name: str, key: str, rng: random.Random, change_config: Change | None) -> None:
    attributes = root[name].attrs
    value = attributes[key]
    text = value.decode() if isinstance(value, bytes) else value
    kind = rng.randrange(5)
    if name == "model_weights" and key in ("backend", "keras_version") and kind < 3:
        attributes[key] = rng.choice(("tensorflow", "jax", "3.0.0", "3.3.3", "2.15.0"))
    elif isinstance(text, str) and text.startswith("{") and kind:
        if change_config and "layers" in text:
            attributes[key] = change_config(text, rng)
        else:
            attributes[key] = json.dumps(changed(json.loads(text), rng))
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


def _change_group(root: Any, name: str, other: str, rng: random.Random, exchanges: bool) -> None:
    kind = rng.randrange(4 if exchanges else 3)
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
