"""Files of tensors by PyTorch's functions: `save` and `load`, for state dictionaries and checkpoints.

    pt.save(net.state_dict(), "net.pt")
    net.load_state_dict(pt.load("net.pt"))

The files are PyTorch's own (``torch.load(path, weights_only=True)`` reads them), or safetensors by the name's suffix.
Reading runs no code: what is no tensor, number, text or container of these is refused.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.eager.device import as_device
from prototorch.eager.dtype import as_dtype
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError, UsageError
from prototorch.interop.readers.torch_container import TorchArchive, make_weight_file
from prototorch.interop.readers.torch_legacy import is_legacy, open_legacy
from prototorch.interop.readers.torch_objects import TensorRef, TorchDType
from prototorch.interop.readers.torch_zip import open_archive
from prototorch.interop.writers import safetensors_file
from prototorch.interop.writers.torch_file import encode_value, write_value
from prototorch.model.loading.read.read_file import read_weights
from prototorch.nn.module import Module

__all__ = ["load", "save"]

_FLAT = {".safetensors": safetensors_file.write_arrays}
_MAX_DEPTH = 100


def save(obj: Any, f: Any, **options: Any) -> None:
    """Write tensors, numbers, texts, None, and dictionaries, lists and tuples of them to a file.

    f: the path, or a file that is open for writing bytes (`io.BytesIO`). The name ``.safetensors`` holds a dictionary
    of tensors alone, all else is PyTorch's format. Raises UsageError for anything else, such as a whole module, and for
    options; SnapshotError where the file cannot be written. A path is written whole or not at all.
    """
    known_options = {"pickle_module", "pickle_protocol", "_use_new_zipfile_serialization"}
    if options.keys() - known_options:
        raise UsageError(f"save: unknown argument {min(options.keys() - known_options)!r}")
    if hasattr(f, "write"):
        _write_to(f, encode_value(_to_arrays(obj, 0)))
        return
    path = _path(f, "save")
    write = _FLAT.get(os.path.splitext(path)[1].lower())
    if write is None:
        write_value(path, _to_arrays(obj, 0))
        return
    if not isinstance(obj, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in obj.items()):
        raise UsageError(
            "save: a .safetensors file holds a dictionary of tensors by name: save a state_dict(), or "
            "use the suffix .pt"
        )
    write(path, {name: np.asarray(value.numpy()) for name, value in obj.items()}, {})


def _write_to(file: Any, pieces: Sequence[Any]) -> None:
    try:
        for piece in pieces:
            file.write(piece)
    except TypeError as error:
        raise UsageError(f"save: the file must be open for writing bytes, in the mode 'wb': {error!s:.100}") from None
    except io.UnsupportedOperation:
        raise UsageError("save: the file is not open for writing; open it in the mode 'wb'") from None


def _mapped(file: Any) -> MappedFile:
    """The bytes of an open file from its position on, mapped: they are copied to a temporary file."""
    try:
        data = file.read()
    except io.UnsupportedOperation:
        raise UsageError("load: the file is not open for reading; open it in the mode 'rb'") from None
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"load: the file gives {type(data).__name__}, not bytes; open it in the mode 'rb'")
    if not data:
        raise ModelFileError("load: the file has no bytes from its position on; seek(0) goes to its beginning")
    with tempfile.TemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        return MappedFile(getattr(file, "name", None) or type(file).__name__, copy.fileno())


def _path(f: Any, name: str) -> str:
    if not isinstance(f, str | os.PathLike):
        raise UsageError(f"{name}: expected a path or an open file, got {type(f).__name__}")
    return os.fspath(f)


def _to_arrays(value: Any, depth: int) -> Any:
    if isinstance(value, Module):
        raise UsageError(
            f"save: a whole module ({type(value).__name__}) is not saved, because its code would be needed to read it: "
            "save its state_dict()"
        )
    if isinstance(value, np.ndarray | np.generic):
        raise UsageError("save: an array of NumPy is no tensor; make it one by pt.tensor(array)")
    if isinstance(value, Tensor):
        return np.asarray(value.numpy())
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        items = {key: _to_arrays(item, depth + 1) for key, item in value.items()}
        return items if type(value) is dict else OrderedDict(items)
    if type(value) in (list, tuple) and depth < _MAX_DEPTH:
        return type(value)(_to_arrays(item, depth + 1) for item in value)
    return value


def load(f: Any, map_location: Any = None, weights_only: bool = True, mmap: bool | None = None, **options: Any) -> Any:
    """What `save` or ``torch.save`` has written: tensors, numbers, texts and containers of them. Other weight files
    (safetensors, HDF5, npz) give a dictionary of tensors.

    f: the path, or a file of ``torch.save`` that is open for reading bytes. map_location: the device of the tensors,
    "cpu" by default. Raises UsageError for ``weights_only=False`` and unknown arguments, ModelFileError for a file that
    is damaged, or holds objects with which code would have to be run.
    """
    file: str | MappedFile = _mapped(f) if hasattr(f, "read") else _path(f, "load")
    if not weights_only:
        raise UsageError("load: weights_only=False would run code of the file; only tensors and plain values are read")
    if options:
        raise UsageError(f"load: unknown argument {min(options)!r}")
    interpreter = interpreter_for("cpu" if map_location is None else as_device(map_location))

    def make(array: Any) -> Tensor:  # bfloat16 is read as float32
        return interpreter.constant(np.array(array.read()).astype(np.dtype(str(as_dtype(array.dtype))), copy=False))

    archive = _open_archive(file)
    if archive is None:
        if isinstance(file, MappedFile):
            raise ModelFileError(f"{file.path}: is no file of torch.save; other formats are read by their path")
        return {name: make(array) for name, array in read_weights(file).arrays.items()}
    refs: dict[int, TensorRef] = {}
    _collect(archive.value, refs)
    numbers = {key: str(i) for i, key in enumerate(refs)}
    arrays: Any = {}
    if refs:
        flat = {numbers[key]: ref for key, ref in refs.items()}
        arrays = make_weight_file(archive.file, "PyTorch", flat, archive.byteorder, archive.locate).arrays
    tensors = {key: make(arrays[number]) for key, number in numbers.items()}
    return _from_archive(archive.value, tensors, {}, archive.file.path)


def _open_archive(file: str | MappedFile) -> TorchArchive | None:
    """A file of ``torch.save`` in one of its two containers; None for other formats."""
    mapped = file if isinstance(file, MappedFile) else MappedFile(file)
    head = mapped.read(0, min(40, mapped.size), "the signature")
    if is_legacy(head):
        return open_legacy(mapped)
    if not head.startswith(b"PK\x03\x04") or os.path.splitext(mapped.path)[1].lower() in (".npz", ".keras"):
        return None
    return open_archive(mapped)


def _collect(value: Any, refs: dict[int, TensorRef]) -> None:
    """All tensors below a value, by their ids; each container is visited once."""
    stack, visited = [value], set[int]()
    while stack:
        item = stack.pop()
        if type(item) is TensorRef:
            refs.setdefault(id(item), item)
        elif type(item) in (dict, list, tuple) and id(item) not in visited:
            visited.add(id(item))
            stack += [*item.keys(), *item.values()] if type(item) is dict else item


def _from_archive(value: Any, tensors: dict[int, Tensor], rebuilt: dict[int, Any], path: str) -> Any:
    """The value with tensors; a container that is there twice is one here, too."""
    if type(value) is TensorRef:
        return tensors[id(value)]
    if type(value) is TorchDType:
        return as_dtype(value.name)
    if type(value) not in (dict, list, tuple):
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return value
        raise ModelFileError(f"{path}: holds a {type(value).__name__}, which is not read")
    if id(value) in rebuilt:
        if rebuilt[id(value)] is None:
            raise ModelFileError(f"{path}: a container holds itself")
        return rebuilt[id(value)]
    rebuilt[id(value)] = None
    try:
        if type(value) is dict:
            result: Any = {
                _from_archive(k, tensors, rebuilt, path): _from_archive(v, tensors, rebuilt, path)
                for k, v in value.items()
            }
        else:
            result = type(value)([_from_archive(item, tensors, rebuilt, path) for item in value])
    except RecursionError:
        raise ModelFileError(f"{path}: containers are nested too deeply") from None
    rebuilt[id(value)] = result
    return result
