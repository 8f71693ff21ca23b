"""NumPy's .npz: the arrays by name."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT"]


def _write(path: str, model: ModelToWrite) -> Sequence[str]:
    return _write_arrays(path, model.weights, {})


def _write_arrays(path: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Sequence[str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # np.savez takes no array called "file"
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
    write_bytes(path, buffer.getbuffer())
    return (path,)


FORMAT = OutputFormat("npz", "NumPy .npz", (".npz",), holds_model=False, write=_write, write_arrays=_write_arrays)
