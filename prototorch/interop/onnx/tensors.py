"""The arrays of an ONNX file: their elements checked against their dims, memory-mapped where they are raw bytes."""

from __future__ import annotations

import os
import stat
from functools import partial
from math import prod
from typing import Any

import numpy as np

from prototorch.data.safe_io import printable_path
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import decode_elements, stored_dtype
from prototorch.model.loading.weight_file import StoredArray, check_sharing

__all__ = ["ELEMENT_TYPES", "TensorReader"]

#: TensorProto.DataType -> the name of the elements
ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
}  # fmt: skip
_UNREAD_TYPES = {0: "undefined", 8: "string", 21: "uint4", 22: "int4", 23: "float4e2m1"}
#: the typed field that holds the elements where they are no raw data; those of 16 bits and fewer lie in int32_data
_TYPED_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
    "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data",
}  # fmt: skip
MAX_DIMENSIONS = 32


class TensorReader:
    """Reads the tensors of one file. Raises ModelFileError with one sentence for what does not fit together."""

    def __init__(self, file: MappedFile, folder: str):
        self.file, self.folder = file, folder
        self._external: dict[str, MappedFile] = {}
        self._external_bytes = self._external_sizes = 0

    def refuse(self, name: str, text: str) -> ModelFileError:
        """The error for a tensor."""
        return ModelFileError(f"{self.file.path}: the tensor {name[:80]!r} {text}")

    def stored_array(self, tensor: Any, name: str, raw: tuple[int, int] | None = None) -> StoredArray:
        """A TensorProto as an array that is read when it is asked for. raw: where in the file its raw data are, where
        they have been left there."""
        if tensor.data_type not in ELEMENT_TYPES:
            kind = _UNREAD_TYPES.get(tensor.data_type, f"type {tensor.data_type}")
            raise self.refuse(name, f"has elements of type {kind}, which are not read")
        dtype = ELEMENT_TYPES[tensor.data_type]
        shape = self._shape(tensor, name)
        if tensor.HasField("segment"):
            raise self.refuse(name, "is a segment of a larger one, which is not read")
        size = prod(shape) * stored_dtype(dtype).itemsize
        if tensor.data_location == 1:
            if raw is not None or tensor.raw_data:
                raise self.refuse(name, "has its data both in this file and in another one")
            file, offset = self._external_range(tensor, name, size)
            return StoredArray(
                shape, dtype, partial(self._mapped, file, dtype, shape, offset, name), (id(file), offset)
            )
        if raw is not None:
            if tensor.raw_data:
                raise self.refuse(name, "has raw data twice")
            if raw[1] != size:
                raise self.refuse(name, f"has {raw[1]:,} bytes, {dtype}{list(shape)} needs {size:,}")
            return StoredArray(shape, dtype, partial(self._mapped, self.file, dtype, shape, raw[0], name))
        array = self._small(tensor, name, dtype, shape, size)
        return StoredArray(shape, dtype, lambda: array)

    def array(self, tensor: Any, name: str) -> np.ndarray:
        """The array of a TensorProto."""
        return self.stored_array(tensor, name).read()

    def _shape(self, tensor: Any, name: str) -> tuple[int, ...]:
        shape = tuple(tensor.dims)
        if len(shape) > MAX_DIMENSIONS or any(n < 0 for n in shape):
            raise self.refuse(name, f"has the impossible shape {list(shape)[:10]}")
        if prod(max(n, 1) for n in shape) >= 1 << 58:
            raise self.refuse(name, f"has the impossible shape {list(shape)[:10]}: its bytes are not in this file")
        return shape

    def _mapped(self, file: MappedFile, dtype: str, shape: tuple[int, ...], offset: int, name: str) -> np.ndarray:
        return decode_elements(file.array(stored_dtype(dtype), shape, offset, name), dtype, f"{file.path}: {name}")

    def _small(self, tensor: Any, name: str, dtype: str, shape: tuple[int, ...], size: int) -> np.ndarray:
        dtype_in_file = stored_dtype(dtype)
        if tensor.raw_data or not size:
            if len(tensor.raw_data) != size:
                raise self.refuse(name, f"has {len(tensor.raw_data):,} bytes, {dtype}{list(shape)} needs {size:,}")
            elements = np.frombuffer(tensor.raw_data, dtype_in_file).reshape(shape)
            return decode_elements(elements, dtype, f"{self.file.path}: {name}")
        values = getattr(tensor, _TYPED_FIELDS.get(dtype, "int32_data"))
        count = prod(shape) * (2 if dtype.startswith("complex") else 1)
        if len(values) != count:
            raise self.refuse(name, f"has {len(values):,} elements, its shape {list(shape)} needs {count:,}")
        if dtype.startswith("complex"):
            real = np.asarray(values, "float32" if dtype == "complex64" else "float64")
            return decode_elements(real.view(dtype).reshape(shape), dtype, name)
        if dtype in ("float16", "bfloat16"):  # their bits, as integers
            elements = np.asarray(values, np.int64).astype(np.uint16).view(dtype_in_file)
        else:
            elements = np.asarray(values).astype(dtype_in_file)
        return decode_elements(elements.reshape(shape), dtype, f"{self.file.path}: {name}")

    # ---------------------------------------------------------------- data in another file

    def _external_range(self, tensor: Any, name: str, size: int) -> tuple[MappedFile, int]:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        file = self._external_file(location, name)
        numbers = []
        for key, default in (("offset", 0), ("length", size)):
            text = entries.get(key, str(default))
            if not (text.isascii() and text.isdigit() and len(text) < 20):
                raise self.refuse(name, f"has the {key} {text[:40]!r} in the file {location!r}; expected an integer")
            numbers.append(int(text))
        offset, length = numbers
        if length != size:
            raise self.refuse(name, f"has {length:,} bytes in {location!r}, its shape needs {size:,}")
        file.check_range(offset, size, f"the tensor {name!r}")
        self._external_bytes += size
        check_sharing(self._external_bytes, self._external_sizes, self.file.path)
        return file, offset

    def _external_file(self, location: str, name: str) -> MappedFile:
        if location not in self._external:
            parts = location.replace("\\", "/").split("/")
            if not location or "\0" in location or os.path.isabs(location) or ":" in parts[0] or ".." in parts:
                raise self.refuse(
                    name, f"lies in the file {location[:200]!r}; only files in the model's own folder are read"
                )
            path = self.folder
            for part in parts:
                path = os.path.join(path, part)
                try:
                    mode = os.lstat(path).st_mode
                except OSError as error:
                    raise self.refuse(
                        name, f"lies in {printable_path(path)}, which cannot be read: {error.strerror}"
                    ) from None
                except ValueError:
                    raise self.refuse(name, f"lies in the file {location[:200]!r}, which is no path") from None
                if stat.S_ISLNK(mode):
                    raise self.refuse(name, f"lies in {printable_path(path)}, a symbolic link, which is not followed")
            self._external[location] = MappedFile(path)
            self._external_sizes += self._external[location].size
        return self._external[location]
