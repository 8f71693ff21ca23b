"""A Keras model saved, imported as a text with weights, and run here beside Keras."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np

from prototorch.interop.conversion.sources import WeightOptions, open_source
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.importers import find_importer


def random_weights(model: keras.Model, seed: int = 0) -> None:
    """Give a model random weights and running statistics, scaled so that deep nets stay in range."""
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        if "seed" in variable.path or "count" in variable.path:
            continue
        shape = tuple(variable.shape)
        values = rng.standard_normal(shape) * 0.2
        if "kernel" in variable.path and len(shape) > 1:
            fan_in = np.prod(shape[:2] if "depthwise" in variable.path else shape[:-1])
            values *= 5 * (2 / fan_in) ** 0.5
        if "variance" in variable.path:
            values = np.abs(values) + 0.5
        variable.assign(values + ("gamma" in variable.path))


def load(path: Path | str) -> ImportedModel:
    """The imported model of a file."""
    importer = find_importer(str(path))
    assert importer is not None
    return importer.load(str(path))


def check_equal(model: keras.Model, path: Path, batch: int = 3, tolerance: float = 1e-4) -> str:
    """Save a model, convert it, and compare the outputs of both on random inputs; the text."""
    random_weights(model)
    model.save(path)
    source = open_source(str(path), None, (), WeightOptions(), {})
    ours = source.model
    assert ours is not None
    rng = np.random.default_rng(1)
    xs, fed = [], {}
    for tensor, node in zip(model.inputs, ours.net.inputs, strict=True):
        shape = (batch, *(n or 9 for n in tensor.shape[1:]))
        is_integer = "int" in str(tensor.dtype)
        x = rng.integers(0, 5, shape).astype("int32") if is_integer else rng.standard_normal(shape).astype("float32")
        xs.append(x)
        is_moved = node.shape != tuple(tensor.shape[1:]) or (len(shape) > 3 and node.shape[-1] != shape[-1])
        fed[node.name] = np.ascontiguousarray(np.moveaxis(x, -1, 1)) if is_moved else x
    expected = model(xs if len(xs) > 1 else xs[0], training=False)
    expected = [e.detach().numpy() for e in (expected if isinstance(expected, list | tuple) else [expected])]
    given = ours.predict(fed if len(fed) > 1 else next(iter(fed.values())), batch_size=batch)
    given = list(given.values()) if isinstance(given, dict) else [given]
    assert len(given) == len(expected)
    for one, two in zip(expected, given, strict=True):
        moved = np.moveaxis(two, 1, -1) if two.shape != one.shape else two
        assert moved.shape == one.shape
        assert np.abs(one).max() > 1e-3, "the outputs say nothing"
        assert np.abs(one - moved).max() <= tolerance * max(1.0, np.abs(one).max()), source.text
    assert source.text is not None
    return source.text
