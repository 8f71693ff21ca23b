"""Readers of weight files, one module a format; a `Format` at the top of a module is registered by being there."""

from __future__ import annotations

import os
from functools import cache

from prototorch.base.index import load_extensions
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.errors import DataError, ModelFileError, UsageError
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.read.saved_model_file import FORMAT as SAVED_MODEL
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["find_format", "formats", "read_weights"]


def read_weights(path: str | os.PathLike[str]) -> WeightFile:
    """The weights of any readable file by name: ``file["conv1.weight"]`` is an array.

    The format is recognized by the content, not by the ending: PyTorch, safetensors, Keras, Caffe, ONNX, NumPy,
    NNabla, and prototorch's own. Arrays are read when they are asked for, as memory maps of the file where its format
    allows; the file must not change meanwhile. Nothing in a file is executed.

    Raises UsageError for what is no path, ModelFileError for a file that is missing, damaged, hostile, or of a format
    that is not read; the message says what to save instead.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"read_weights: expected the path of a file, got {path!r:.80}")
    try:
        name = os.fspath(expand_path(path))
    except DataError as error:
        raise ModelFileError(str(error)) from None
    return find_format(UnknownFile(name)).open(name)


def find_format(file: UnknownFile) -> Format:
    """The format of a file. Raises ModelFileError for a file that no reader recognizes."""
    if SAVED_MODEL.recognize(file):  # which needs none of the other readers
        return SAVED_MODEL
    for candidate in formats():
        if candidate.recognize(file):
            return candidate
    where = printable_path(file.path)
    if file.is_folder:
        raise ModelFileError(f"{where}: is a folder, not a file of weights")
    if not file.head:
        raise ModelFileError(f"{where}: is empty")
    format_names = ", ".join(sorted(one.name for one in formats() if one.endings))
    raise ModelFileError(
        f"{where}: is of no known format of weights; read are {format_names}; is it damaged, or not downloaded whole?"
    )


@cache
def formats() -> tuple[Format, ...]:
    """All formats, in the order of their modules' names."""
    return tuple(load_extensions(Format))
