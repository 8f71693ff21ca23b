"""What PyTorch's two containers share: from the pickle inside to a `WeightFile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import decode_elements, stored_dtype
from prototorch.interop.readers.torch_objects import StorageRef, StorageType, TensorRef, reduce_object, resolve_name
from prototorch.interop.readers.torch_pickle import ForeignNameError, PickleError, PickleMachine
from prototorch.interop.readers.torch_state_dict import find_state_dict
from prototorch.model.loading.read.file_format import check_weight_name
from prototorch.model.loading.weight_file import StoredArray, WeightFile, check_sharing

__all__ = ["ByteOrder", "StorageBytes", "TorchArchive", "load_pickle", "make_weight_file"]

ByteOrder = Literal["<", ">"]


@dataclass(frozen=True)
class StorageBytes:
    """Where a storage is in the file, in bytes; check: verifies them, called before they are first read."""

    offset: int
    size: int
    check: Callable[[], None] = lambda: None


class TorchArchive(NamedTuple):
    """An open container: the value of its pickle, with `TensorRef` for tensors, and where the storages are."""

    file: MappedFile
    value: Any
    byteorder: ByteOrder
    locate: Callable[[str], StorageBytes]


def load_pickle(
    file: MappedFile,
    data: memoryview,
    position: int,
    storages: dict[str, StorageRef],
    is_stored: Callable[[StorageRef], bool] = lambda _: False,
) -> tuple[Any, int]:
    """The value of a pickle and the position behind it; the storages that it refers to are added to ``storages``.

    is_stored: whether the file has room for a storage that has not occurred before; each one accounts for opcodes.
    Raises ModelFileError; a foreign name is quoted.
    """

    def refer(value: Any) -> StorageRef:
        count = len(storages)
        storage = _find_storage(value, storages)
        if len(storages) > count and is_stored(storages[storage.key]):
            machine.count_storage()
        return storage

    machine = PickleMachine(data, position, resolve_name, reduce_object, refer)
    try:
        return machine.load(), machine.position
    except ForeignNameError as error:
        _refuse_name(file, error)
    except PickleError as error:
        raise ModelFileError(f"{file.path}: {error}") from None


def _refuse_name(file: MappedFile, error: ForeignNameError) -> NoReturn:
    if error.is_root or error.name.startswith("torch.nn.modules."):
        what = f"holds a whole pickled object, a {error.name}, with which code would have to be run"
    else:
        what = f"holds {error.name}, with which code would have to be run"
    raise ModelFileError(
        f"{file.path}: {what}; only tensors, numbers, texts and plain containers are read: load it in PyTorch if you "
        "trust its author, and save torch.save(model.state_dict(), path)"
    )


def _find_storage(value: Any, storages: dict[str, StorageRef]) -> StorageRef:
    """The storage of a persistent id: ("storage", type, key, location, count), in old files with a view of another
    storage (key, offset, count) behind them."""
    if type(value) is tuple and value[:1] == ("module",):
        name = getattr(value[1], "name", "torch.nn.Module") if len(value) > 1 else "torch.nn.Module"
        raise ForeignNameError(str(name)[:200], is_root=True)
    if type(value) is not tuple or not 5 <= len(value) <= 6 or type(value[0]) is not str or value[0] != "storage":
        raise PickleError("the pickle refers to what is no storage")
    _, kind, key, _, count = value[:5]
    if type(kind) is not StorageType or type(key) is not str or not _is_count(count):
        raise PickleError("the pickle refers to a storage without a type, a key or a size")
    whole = storages.setdefault(key, StorageRef(key, kind.dtype, count))
    if whole != StorageRef(key, kind.dtype, count):
        raise PickleError(f"storage {key[:40]!r} has two types or sizes")
    view = value[5] if len(value) == 6 else None
    if view is None:
        return whole
    if type(view) is not tuple or len(view) != 3 or not _is_count(view[1]) or not _is_count(view[2]):
        raise PickleError("the pickle has a view of a storage that is none")
    if view[1] + view[2] > count:
        raise PickleError(f"a view of {view[2]:,} elements from {view[1]:,} on, of a storage with {count:,}")
    return StorageRef(key, kind.dtype, view[2], view[1])


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 60


def make_weight_file(
    file: MappedFile, format_name: str, value: Any, byteorder: ByteOrder, locate: Callable[[str], StorageBytes]
) -> WeightFile:
    """The weights in the value of a pickle; ``locate`` finds a storage by its key.

    Raises ModelFileError where there are none, or where the elements of one are not in the file.
    """
    state = find_state_dict(value)
    if not state.tensors:
        kind = f": it holds {', '.join(list(state.skipped)[:5])}" if state.skipped else ""
        raise ModelFileError(f"{file.path}: has no tensors{kind}")
    arrays = {}
    needed = 0
    for name, tensor in state.tensors.items():
        needed += prod(tensor.shape) * stored_dtype(tensor.dtype).itemsize
        check_sharing(needed, file.size, file.path)
        check_weight_name(name, file.path)
        storage = tensor.storage
        itemsize = stored_dtype(storage.dtype).itemsize
        stored_bytes = locate(storage.key)
        start = storage.start * itemsize
        if start + storage.count * itemsize > stored_bytes.size:
            raise ModelFileError(
                f"{file.path}: {name}: its storage of {storage.count:,} {storage.dtype} needs "
                f"{start + storage.count * itemsize:,} bytes, the file has {stored_bytes.size:,}"
            )
        file.check_range(stored_bytes.offset, stored_bytes.size, name)
        read = partial(_read, file, tensor, stored_bytes, byteorder, name)
        identity = (storage.key, start, tensor.dtype, *tensor.span)
        arrays[name] = StoredArray(tensor.shape, tensor.dtype, read, identity)
    metadata = {"wrapper": state.wrapper} if state.wrapper else {}
    return WeightFile(file.path, format_name, "torch", arrays, metadata=metadata, skipped=state.skipped)


def _read(file: MappedFile, tensor: TensorRef, source: StorageBytes, byteorder: ByteOrder, name: str) -> np.ndarray:
    """The elements of a tensor: a view of the file, or of a decoded copy."""
    source.check()
    dtype = stored_dtype(tensor.dtype, byteorder)
    start = source.offset + tensor.storage.start * stored_dtype(tensor.storage.dtype).itemsize
    begin, end = tensor.span
    elements = file.array(dtype, (end - begin,), start + begin * dtype.itemsize, name)
    if 0 in tensor.shape:
        return decode_elements(np.zeros(tensor.shape, dtype), tensor.dtype, name)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    view = np.lib.stride_tricks.as_strided(elements, tensor.shape, strides, writeable=False)
    return decode_elements(view, tensor.dtype, f"{file.path}: {name}")
