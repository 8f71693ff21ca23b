"""Weights of Keras 1, and of Keras 2's layers for cuDNN, in the layout that Keras 2 and 3 have for the same layers.

Theano's kernels are [out, in, *size] and its convolutions flip them; an LSTM had twelve arrays, a GRU nine, one of each
kind for each gate. Source: what Keras 2 does when it loads such files.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from prototorch.interop.counterparts.keras.row import KerasRow, keras_rows, name_in_weight_files
from prototorch.interop.keras.stored_arrays import computed_array
from prototorch.model.loading.weight_file import StoredArray

__all__ = ["converted_layer", "kernel_order"]

_RECURRENT = ("kernel", "recurrent_kernel", "bias")


def converted_layer(kind: str, arrays: Mapping[str, StoredArray], dims: str) -> tuple[str, dict[str, StoredArray]]:
    """The class that Keras 2 has for a layer's, and its arrays in Keras 2's layout and names.

    dims: "th" or "tf" for a file of Keras 1, "th flipped" for one that Theano trained, "" for a later one.
    """
    kind = name_in_weight_files(kind)
    parts = list(arrays.values())
    are_gates = all(len(array.shape) <= 2 for array in parts)
    half = len(parts) // 2
    if are_gates and kind == "Bidirectional" and (row := _row_of_gates("", half / 3)) is not None:
        ways = {"forward_layer": parts[:half], "backward_layer": parts[half:]}
        gates_of_ways = {way: _joined_gates(one, row.gates) for way, one in ways.items()}
        return kind, {f"{way}/{name}": array for way, one in gates_of_ways.items() for name, array in one.items()}
    if are_gates and (row := _row_of_gates(kind, len(parts) / 3)) is not None:
        return row.name_of(row.layers[0]), _joined_gates(parts, row.gates)
    if len(parts) == 3 and (gates := _gates_of_cudnn(parts)):
        row = _row_of_gates("", gates)
        assert row is not None
        return kind or row.name_of(row.layers[0]), _from_cudnn(parts, gates)
    if dims and parts and len(parts[0].shape) in (4, 5) and kind not in ("PReLU", "Embedding"):
        first, *rest = arrays.items()
        return kind, {first[0]: _converted_kernel(kind, first[1], dims), **dict(rest)}
    return kind, dict(arrays)


def _row_of_gates(kind: str, count: float) -> KerasRow | None:
    """The recurrent layer of a class ("": of any) whose weights Keras 1 stored gate by gate, with so many gates."""
    rows = (row for row in keras_rows() if row.gates and len(row.gates) == count)
    return next((row for row in rows if kind in ("", *row.classes())), None)


def _joined_gates(parts: list[StoredArray], firsts: tuple[int, ...]) -> dict[str, StoredArray]:
    joined_arrays = {}
    for offset, name in enumerate(_RECURRENT):
        of_gates = [parts[first + offset] for first in firsts]
        shape = (*of_gates[0].shape[:-1], sum(part.shape[-1] for part in of_gates))
        joined_arrays[name] = computed_array(of_gates, shape, lambda *gates: np.concatenate(gates, axis=-1))
    return joined_arrays


def _gates_of_cudnn(parts: list[StoredArray]) -> int:
    """How many gates a recurrent layer for cuDNN has whose weights these are: one bias vector of both; 0 for others."""
    kernel, recurrent, bias = (array.shape for array in parts)
    if len(kernel) != 2 or len(recurrent) != 2 or len(bias) != 1 or recurrent[1] != kernel[1]:
        return 0
    units = recurrent[0]
    return next((n for n in (3, 4) if recurrent[1] == n * units and bias[0] == 2 * n * units), 0)


def _from_cudnn(parts: list[StoredArray], gates: int) -> dict[str, StoredArray]:
    kernel, recurrent, bias = parts

    def input_kernel(array: np.ndarray) -> np.ndarray:
        return np.hstack([gate.T.reshape(gate.shape, order="F") for gate in np.hsplit(array, gates)])

    def state_kernel(array: np.ndarray) -> np.ndarray:
        return np.hstack([gate.T for gate in np.hsplit(array, gates)])

    def biases(array: np.ndarray) -> np.ndarray:
        both = array.reshape(2, -1)
        return both.sum(axis=0) if gates == 4 else both

    half = bias.shape[0] // 2
    return {
        "kernel": computed_array([kernel], kernel.shape, input_kernel),
        "recurrent_kernel": computed_array([recurrent], recurrent.shape, state_kernel),
        "bias": computed_array([bias], (half,) if gates == 4 else (2, half), biases),
    }


def _converted_kernel(kind: str, kernel: StoredArray, dims: str) -> StoredArray:
    if kind == "Conv1D" or (not kind and len(kernel.shape) == 4 and kernel.shape[3] == 1 != kernel.shape[1]):
        return _converted_kernel_1d(kernel, dims)
    axes = tuple(range(len(kernel.shape)))
    if dims != "tf":
        axes = (*axes[2:], 0, 1) if kind == "Conv2DTranspose" else (*axes[2:], 1, 0)
    elif kind == "Conv2DTranspose":
        axes = (0, 1, 3, 2)
    flipped = tuple(range(len(axes) - 2)) if dims == "th flipped" else ()
    if axes == tuple(range(len(axes))) and not flipped:
        return kernel
    shape = tuple(kernel.shape[axis] for axis in axes)
    return computed_array([kernel], shape, lambda array: np.flip(array.transpose(axes), flipped))


def _converted_kernel_1d(kernel: StoredArray, dims: str) -> StoredArray:
    """[steps, 1, in, out] in the last versions of Keras 1, [out, in, steps, 1] before: [steps, in, out]."""
    steps, one, channels, filters = kernel.shape
    axes = (0, 1, 2, 3)
    if one != 1:
        axes, (filters, channels, steps, _) = (2, 3, 1, 0), kernel.shape
    flipped = (0,) if dims == "th flipped" else ()
    shape = (steps, channels, filters)
    return computed_array([kernel], shape, lambda array: np.flip(array.transpose(axes).reshape(shape), flipped))


def kernel_order(kernels: list[tuple[int, ...]]) -> str:
    """Which order the kernels of a file of Keras 1 have that does not say it: "th" [out, in, *size] or "tf"
    [*size, in, out], by their sizes, of which an image's are equal and smaller than its channels."""
    votes = 0
    for shape in kernels:
        th, tf = shape[2:], shape[:-2]
        fits_th, fits_tf = len(set(th)) == 1, len(set(tf)) == 1
        votes += (fits_th and (not fits_tf or prod(th) < prod(tf))) - (fits_tf and (not fits_th or prod(tf) < prod(th)))
    return "th" if votes > 0 else "tf"
