"""Safetensors: 8 bytes with the header's length, a JSON header, then the bytes of all arrays without gaps.

https://huggingface.co/docs/safetensors. The package `safetensors` is not used to read: with NumPy it copies each array
(here they are memory maps, so that loading takes the memory of the weights once), it cannot give bfloat16 and 8-bit
floats, and it accepts duplicate names. The tests compare with it; the writer is ours as well, since it replaces a
file whole or not at all.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from math import prod
from typing import Any, NoReturn

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import decode_elements, is_known_dtype, stored_dtype
from prototorch.model.loading.read.file_format import Format, UnknownFile, check_weight_name
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["DTYPES", "FORMAT"]

MAX_HEADER_BYTES = 16 << 20  # an entry has about 100 bytes: 160,000 arrays
MAX_ARRAYS = 100_000
MAX_DIMENSIONS = 32
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
#: what writers note as ``format`` in the metadata -> the system whose names and layouts the arrays have
_SYSTEMS = {"pt": "torch", "torch": "torch", "keras": "keras", "prototorch": "prototorch"}


def _recognize(file: UnknownFile) -> bool:
    length = int.from_bytes(file.head[:8], "little")
    return file.ending == ".safetensors" or (file.head[8:10] in (b'{"', b"{}", b"{ ") and length < 1 << 40)


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    header, start = _read_header(file)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        _refuse(file, "its __metadata__ must hold texts")
    ranges = []
    arrays = {}
    for name, entry in header.items():
        check_weight_name(name, path)
        dtype, shape, begin, end = _check_entry(file, name, entry)
        ranges.append((begin, end, name))
        arrays[name] = StoredArray(shape, dtype, partial(_read, file, dtype, shape, start + begin, name))
    _check_ranges(file, sorted(ranges), file.size - start)
    system = _SYSTEMS.get(metadata.get("format", ""), "")
    return WeightFile(path, FORMAT.name, system, arrays, metadata=metadata)


def _read(file: MappedFile, dtype: str, shape: tuple[int, ...], offset: int, name: str):
    return decode_elements(file.array(stored_dtype(dtype), shape, offset, name), dtype, f"{file.path}: {name}")


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The header, and the offset of the arrays' bytes."""
    length = int.from_bytes(file.read(0, 8, "the header's length"), "little")
    if length > MAX_HEADER_BYTES:
        _refuse(file, f"a header of {length:,} bytes; the limit is {MAX_HEADER_BYTES:,}")
    content = file.read(8, length, "the header")
    if not content.startswith(b"{"):
        _refuse(file, "its header must begin with '{'")
    try:
        header = json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        _refuse(file, f"damaged header: {error!s:.200}")
    if not isinstance(header, dict):
        _refuse(file, "its header must be a JSON object")
    if len(header) > MAX_ARRAYS:
        _refuse(file, f"{len(header):,} arrays; the limit is {MAX_ARRAYS:,}")
    return header, 8 + length


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r:.80} occurs twice")
    return entries


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _check_entry(file: MappedFile, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """dtype, shape, and the range of bytes of an array."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(file, f"{name}: expected the fields dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None or not is_known_dtype(dtype):
        _refuse(file, f"{name}: elements of type {str(code)[:40]!r} are not read; save them as F32, F16 or BF16")
    if not _is_list_of_counts(shape) or len(shape) > MAX_DIMENSIONS:
        _refuse(file, f"{name}: the impossible shape {str(shape)[:80]}")
    if not _is_list_of_counts(offsets) or len(offsets) != 2:
        _refuse(file, f"{name}: data_offsets must be two integers, got {str(offsets)[:80]}")
    begin, end = offsets
    expected = prod(shape) * stored_dtype(dtype).itemsize
    if prod(max(length, 1) for length in shape) >= 1 << 60 or end - begin != expected:
        _refuse(file, f"{name}: {dtype}{shape} needs {expected:,} bytes, data_offsets {begin}, {end} differ")
    return dtype, tuple(shape), begin, end


def _is_list_of_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 62 for item in value)


def _check_ranges(file: MappedFile, ranges: list[tuple[int, int, str]], size: int) -> None:
    """Refuse arrays that overlap, gaps between them, and bytes after the last one."""
    position = 0
    for begin, end, name in ranges:
        if begin != position:
            problem = "overlaps with another array" if begin < position else f"{begin - position:,} unused bytes before"
            _refuse(file, f"{name}: {problem}")
        position = end
    if position != size:
        word = "truncated" if position > size else "damaged"
        _refuse(file, f"{word}: expected {position:,} bytes of arrays, found {size:,}")


def _refuse(file: MappedFile, reason: str) -> NoReturn:
    raise ModelFileError(f"{file.path}: {reason}")


FORMAT = Format("safetensors", _recognize, _open, (".safetensors",))
