"""Our own files: saved models with their training state, and texts of models.

Their digests are right; what they contain is changed: members of the JSON inside, fields of the text, names, shapes and
types of arrays.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import prototorch as pt
from prototorch.engine.storage import container
from tests.fuzz import text_interpreter
from tests.fuzz.array_changes import changed_array
from tests.fuzz.harness import FuzzFormat, RefusalError, sample
from tests.fuzz.json_changes import changed, exchanged

__all__ = ["MAX_ELEMENTS", "SNAPSHOT", "TEXT", "changed_text", "generator"]

MAX_ELEMENTS = 1e6  # of an input that is made for a file that asks for it
_WORDS = (
    "0", "-1", "1", "3", "2147483648", "1e9", "-0.5", "nan", "inf", "[1, 2]", "[]", "true", "none", '"x"', '""', "{ }",
    str(2**40),
)  # fmt: skip
_TEXT = """
name: "net"
input { name: "x"  shape: [2, 8, 8] }
Conv2D { filters: 3  kernel_size: 3  activation: relu  name: "conv" }
BatchNormalization { name: "norm" }
Flatten { name: "flat" }
Dropout { rate: 0.5  name: "drop" }
Dense { units: 4  name: "out" }
compile { loss: mse  optimizer: Adam { learning_rate: 0.01 }  metrics: [mae] }
fit { epochs: 2  batch_size: 4 }
"""


def _save_model(path: str) -> None:
    Path(path).with_suffix(".proto").write_text(_TEXT)
    model = pt.load_model(str(Path(path).with_suffix(".proto")))
    x, y = sample("x", (8, 2, 8, 8)), sample("y", (8, 4))
    model.fit(x, y, epochs=1, verbose=0)
    model.save(path)


@cache
def _contents(save: Callable[[str], None]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/saved.h5"
        save(path)
        read = container.read(path)
        return {name: np.array(array) for name, array in read.arrays.items()}, dict(read.meta)


Exchange = Callable[[Any, random.Random], None]


def generator(*saves: Callable[[str], None], exchange: Exchange | None = None) -> Callable[[random.Random], bytes]:
    """Files of which each is a change of one that a function writes to a path.

    exchange: changes members of the JSON inside for others that fit.
    """

    def generate(rng: random.Random) -> bytes:
        arrays, meta = (dict(part) for part in _contents(rng.choice(saves)))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            kind = rng.randrange(6)
            if kind < 4:
                _change_meta(meta, rng, exchange)
            elif arrays:
                _change_arrays(arrays, rng)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/changed.h5"
            container.write(path, arrays, meta)
            return Path(path).read_bytes()

    return generate


def _change_meta(meta: dict[str, Any], rng: random.Random, exchange: Exchange | None) -> None:
    large = [name for name in meta if name in ("training", "graph", "function", "model_text")]
    name = rng.choice(large if rng.random() < 0.9 else list(meta))
    value = meta[name]
    try:
        content = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        content = None
    if isinstance(content, dict | list):
        if exchange is not None and rng.random() < 0.6:
            with suppress(KeyError, TypeError, IndexError, AttributeError, ValueError):  # of what is damaged already
                exchange(content, rng)
            meta[name] = json.dumps(content)
            return
        change = exchanged if rng.random() < 0.75 else changed
        meta[name] = json.dumps(change(content, rng, rng.choice((1, 1, 2))))
    elif name == "model_text":
        meta[name] = changed_text(value, rng)
    elif rng.random() < 0.3:
        del meta[name]
    else:
        meta[name] = rng.choice((0, -1, 1, 2**40, 1.5, "", "model", "{}", "[]", "null", "é"))


def changed_text(text: str, rng: random.Random) -> str:
    """A text of fields with one value, one name, or one line exchanged, doubled or left out."""
    kind = rng.random()
    if kind < 0.25:
        lines = text.splitlines()
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[at : at + 1] = rng.choice(([], [lines[at]] * 2, [lines[other]], [lines[at], lines[other]]))
        return "\n".join(lines) + "\n"
    pattern = r"(?<=: )(?:\"[^\"]*\"|[\w.]+)" if kind < 0.9 else r"\w+(?=: | \{)"
    words = list(re.finditer(pattern, text))
    at, other = rng.choice(words), rng.choice(words)
    new = rng.choice((other[0], other[0], *_WORDS)) if kind < 0.9 else other[0]
    return text[: at.start()] + new + text[at.end() :]


def _change_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> None:
    name, other = rng.choice(list(arrays)), rng.choice(list(arrays))
    new = changed_array(arrays[name], arrays[other], rng)
    if rng.random() < 0.15:
        arrays[f"{name}x"] = arrays.pop(name)
    elif new is None:
        del arrays[name]
    else:
        arrays[name] = new


def _run_model(model: pt.Model) -> Sequence[np.ndarray]:
    """A prediction, and a step of the training that it was saved in."""
    if any(np.prod([n or 3 for n in node.shape], dtype=float) > MAX_ELEMENTS for node in model.net.inputs):
        return []
    inputs = {node.name: sample(node.name, (2, *(n or 3 for n in node.shape)), node.dtype) for node in model.net.inputs}
    outputs = model.predict(inputs, verbose=0)
    return list(outputs.values()) if isinstance(outputs, dict) else outputs if isinstance(outputs, list) else [outputs]


def _feed(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return sample(name, (2, *shape))


def _snapshot_reference(path: Path) -> Sequence[np.ndarray]:
    """The text and the weights as HDF5's own library reads them, computed by PyTorch."""
    with h5py.File(path) as file:
        text = file["@meta/model_text"][()].decode()

        def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
            if f"weights/{name}" not in file:
                raise RefusalError(f"{name} is not in the file")
            array = file[f"weights/{name}"][()]
            if array.shape != shape:
                raise RefusalError(f"{name} is {array.shape}, expected {shape}")
            return array

        return text_interpreter.predict(text, _feed, weight)


_TEXTS = (
    _TEXT,
    """
name: "pools"
input { name: "x"  shape: [2, 9, 7] }
Conv2D { filters: 4  kernel_size: [3, 2]  strides: 2  padding: same  name: "a" }
ReLU { name: "b" }
MaxPooling2D { pool_size: 2  strides: 1  padding: same  name: "c" }
Conv2D { filters: 6  kernel_size: 2  groups: 2  use_bias: false  dilation_rate: 1  name: "d" }
AveragePooling2D { pool_size: [2, 1]  name: "e" }
GlobalAveragePooling2D { name: "f" }
Dense { units: 5  activation: tanh  name: "g" }
Dense { units: 3  activation: softmax  use_bias: true  name: "h" }
""",
)
_NUMBERS = ("0", "1", "2", "3", "4", "5", "9", "-1", "0.5", "2.0")
_FIELDS = (
    "padding: same", "padding: valid", "strides: 2", "strides: [1, 2]", "groups: 2", "use_bias: false", "scale: false",
    "dilation_rate: 2", "activation: sigmoid", "epsilon: 0.1", "center: false", "units: 7", "kernel_size: 1",
)  # fmt: skip


def _generate_text(rng: random.Random) -> bytes:
    text = rng.choice(_TEXTS)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.3:
            text = changed_text(text, rng)
        elif kind < 0.6:  # a number
            places = list(re.finditer(r"(?<=[:\[,] )-?[0-9.]+|(?<=\[)[0-9]+", text))
            if places:
                place = rng.choice(places)
                text = text[: place.start()] + rng.choice(_NUMBERS) + text[place.end() :]
        elif kind < 0.8:  # a further field, or one in the place of another
            places = list(re.finditer(r"\{ (?:\w+: \w+  )?", text))
            place = rng.choice(places or [re.match("", text)])
            text = text[: place.start()] + "{ " + rng.choice(_FIELDS) + "  " + text[place.end() :]
        else:  # lines exchanged
            lines = text.splitlines()
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            text = "\n".join(lines)
    return text.encode()


def _weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = sample(name, shape)
    return np.abs(values) + 0.5 if "variance" in name else values


def _run_text(model: pt.Model) -> Sequence[np.ndarray]:
    if any(np.prod([n or 3 for n in node.shape], dtype=float) > MAX_ELEMENTS for node in model.net.inputs):
        return []
    model.build()
    if sum(array.size for array in model.weights.values()) > 1e7:
        return []
    for array, name in ((model.weights[name], name) for name in model.weights):
        array[...] = _weight(name, array.shape)
    return _run_model(model)


def _text_reference(path: Path) -> Sequence[np.ndarray]:
    return text_interpreter.predict(path.read_text(), _feed, _weight)


SNAPSHOT = FuzzFormat(
    "snapshot", ".h5", generator(_save_model), lambda path: pt.load_model(str(path)), _run_model, _snapshot_reference
)
TEXT = FuzzFormat(
    "model_text", ".proto", _generate_text, lambda path: pt.load_model(str(path)), _run_text, _text_reference
)
