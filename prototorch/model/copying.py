"""Copies of models: as the bytes of our own file, which pickles hold, and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prototorch.errors import PrototorchError, UsageError
from prototorch.graph.subnet import subnet
from prototorch.model.load import load_saved
from prototorch.model.model import Model
from prototorch.model.sequential import SequentialModel
from prototorch.schema import Block
from prototorch.schema.python_function import PythonFunction, custom_objects

__all__ = ["copy_model", "copy_sharing_weights", "model_from_bytes", "model_to_bytes"]


def model_to_bytes(model: Model) -> bytes:
    """The bytes of the file that `Model.save` writes: text, weights, optimizer state and training state.

    Raises UsageError for a model that holds Python functions (losses, metrics), of which a file has the names alone.
    """
    functions = dict(_python_functions(model.compile_block))
    if functions:
        name = min(functions)
        raise UsageError(
            f"the model {model.name!r} cannot be pickled: {name!r} is a Python function, of which a file holds the "
            f"name alone: use model.save(path) and load_model(path, custom_objects={{{name!r}: {name}}}), or "
            "copy.deepcopy"
        )
    return _saved_bytes(model)


def model_from_bytes(data: bytes) -> Model:
    """The model of the bytes that `Model.save` writes into a file; what unpickling a model calls.

    As `load_model`, it runs no code. Layers of your own must have been defined, or imported, before. Raises
    ModelFileError for other or damaged bytes, TextError for a layer that is not defined.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"model_from_bytes: expected the bytes of a saved model, not {type(data).__name__}")
    with _temporary_path() as path:
        path.write_bytes(data)
        try:
            return load_saved(path)
        except PrototorchError as error:
            error.add_note("The model comes from bytes, those of a pickle or of model_from_bytes.")
            raise


def copy_model(model: Model) -> Model:
    """A copy with weights, optimizer state and compiled settings of its own, of the same class; Python functions, and
    the attributes that a subclass has set, are those of the model."""
    with custom_objects(dict(_python_functions(model.compile_block))):
        source = model_from_bytes(_saved_bytes(model))
    copy = type(model).__new__(type(model))
    vars(copy).update(vars(source))
    return _with_attributes(copy, model)


def copy_sharing_weights(model: Model) -> Model:
    """A model of the same class with the same weights (training one changes the other), compiled alike, with an
    optimizer state of its own."""
    _ = model.weights  # the seed of the model decides its first weights
    copy = type(model).__new__(type(model))
    Model.__init__(copy, subnet(model.net, model.net.outputs))
    copy.compile_block, copy.fit_block, copy.weights_block = model.compile_block, model.fit_block, model.weights_block
    copy.nested_weights = model.nested_weights
    copy.table_columns = model.table_columns
    return _with_attributes(copy, model)


def _with_attributes(copy: Model, model: Model) -> Model:
    """The copy with what no file holds: limits of reading, the history, and attributes of a subclass."""
    vars(copy).update({name: value for name, value in vars(model).items() if name not in vars(copy)})
    copy.read_limits, copy.weight_origin, copy.history = model.read_limits, model.weight_origin, model.history
    if isinstance(copy, SequentialModel):
        copy.adopt_net()
    return copy


def _saved_bytes(model: Model) -> bytes:
    with _temporary_path() as path:
        model.save(path)
        return path.read_bytes()


@contextmanager
def _temporary_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="prototorch-") as folder:
        yield Path(folder) / "model.h5"


def _python_functions(value: Any) -> Iterator[tuple[str, Any]]:
    """The Python functions in a block, by the names that a text has for them."""
    if isinstance(value, PythonFunction):
        if value.function is not None:
            yield value.name, value.function
    elif isinstance(value, Block):
        for item in value.field_values().values():
            yield from _python_functions(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _python_functions(item)
