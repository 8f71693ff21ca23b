"""Elements as weight files store them: their NumPy dtypes, and the formats that NumPy does not have, widened exactly.

bfloat16 and the 8-bit floats (OCP 8-bit Floating Point Specification, 2023; the ``fnuz`` forms of AMD, Graphcore and
Qualcomm, arXiv:2206.02915) are read as float32, which holds each of their values.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from prototorch.errors import ModelFileError

__all__ = ["decode_elements", "is_known_dtype", "stored_dtype"]

_NATIVE = {
    "bool", "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64",
    "complex64", "complex128",
}  # fmt: skip
#: 8-bit floats: bits of the mantissa, exponent's bias, and which codes are not finite ("ieee": as in IEEE 754; "fn":
#: all ones are NaN; "fnuz": the code of -0 is NaN)
_FLOAT8 = {
    "float8_e4m3fn": (3, 7, "fn"),
    "float8_e5m2": (2, 15, "ieee"),
    "float8_e4m3fnuz": (3, 8, "fnuz"),
    "float8_e5m2fnuz": (2, 16, "fnuz"),
}


def is_known_dtype(name: str) -> bool:
    """Whether elements of this name can be read."""
    return name in _NATIVE or name == "bfloat16" or name in _FLOAT8


def stored_dtype(name: str, byteorder: Literal["<", ">"] = "<") -> np.dtype:
    """The dtype of the bytes in a file: NumPy's own, or the unsigned integers that hold what NumPy does not have."""
    if name in _FLOAT8 or name == "bool":
        return np.dtype(np.uint8)
    return np.dtype("uint16" if name == "bfloat16" else name).newbyteorder(byteorder)


def decode_elements(elements: np.ndarray, name: str, where: str) -> np.ndarray:
    """The array in the machine's byte order, read-only; a view of ``elements`` where its bytes are the elements.

    Raises ModelFileError for a boolean that is neither 0 nor 1.
    """
    if name == "bool":
        if elements.size and elements.max() > 1:
            raise ModelFileError(f"{where}: a boolean that is neither 0 nor 1")
        decoded = elements.view(np.bool_)
    elif name == "bfloat16":
        codes = elements.astype(np.uint32)
        codes <<= 16
        decoded = codes.view(np.float32)
    elif name in _FLOAT8:
        decoded = np.asarray(_float8_values(name)[elements])
    else:
        decoded = elements.astype(elements.dtype.newbyteorder("="), copy=False)
    decoded.flags.writeable = False
    return decoded


@cache
def _float8_values(name: str) -> np.ndarray:
    """The value of each of the 256 codes, float32."""
    mantissa_bits, bias, special = _FLOAT8[name]
    codes = np.arange(256)
    exponent, mantissa = (codes & 0x7F) >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    values = np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))
    values = np.where(codes < 128, values, -values)
    if special == "ieee":
        is_top = exponent == (1 << (7 - mantissa_bits)) - 1
        values = np.where(is_top, np.where(mantissa == 0, np.copysign(np.inf, values), np.nan), values)
    elif special == "fn":
        values[[0x7F, 0xFF]] = np.nan
    else:
        values[0x80] = np.nan
    return values.astype(np.float32)
