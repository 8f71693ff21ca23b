"""The arrays of a plan's buffers: views of its memories, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prototorch.engine.backends.executable_plan import Buffer
from prototorch.errors import ShapeError
from prototorch.spec import Spec

__all__ = ["BufferArrays"]


class BufferArrays:
    """Arrays of buffers.

    backend: for the array module and constants. arena: bytes. inputs: the arrays of the plan's inputs, by name.
    state(name): the array of a state. persistent(offset, nbytes): bytes of the persistent memory.
    """

    def __init__(
        self,
        backend: Any,
        arena: Any,
        inputs: Mapping[str, Any],
        state: Callable[[str], Any],
        persistent: Callable[[int, int], Any],
    ):
        self._backend, self._arena, self._inputs, self._state, self._persistent = (
            backend,
            arena,
            inputs,
            state,
            persistent,
        )
        self._arrays: dict[tuple[Buffer, int], Any] = {}

    def array(self, buffer: Buffer, iteration: int = 0) -> Any:
        """The array of a buffer; of a slice of the batch, in this iteration of its loop.

        Raises ShapeError for a state whose number of elements is not the plan's.
        """
        key = buffer, iteration if buffer.stride else 0
        array = self._arrays.get(key)
        if array is None:
            array = self._arrays[key] = self._make(buffer, buffer.stride * iteration)
        return array

    def _make(self, buffer: Buffer, displacement: int) -> Any:
        """The array of a buffer, so many bytes further on."""
        spec = buffer.spec
        if buffer.memory == "arena":
            begin = buffer.offset + displacement
            return self._with_layout(self._arena[begin : begin + spec.nbytes].view(spec.dtype), spec)
        if buffer.memory == "persistent":
            return self._with_layout(self._persistent(buffer.offset, spec.nbytes).view(spec.dtype), spec)
        if buffer.memory == "input":
            array = self._inputs[buffer.name]
            if buffer.stride:
                first = displacement // array.itemsize
                array = array.reshape(-1)[first : first + spec.size]
            return self._with_layout(array, spec)
        if buffer.memory == "state":
            array = self._state(buffer.name)
            if tuple(array.shape) != spec.shape and array.size != spec.size:
                raise ShapeError(f"{buffer.name}: the plan expects shape {list(spec.shape)}, got {list(array.shape)}")
            return self._with_layout(array, spec)
        array = np.reshape(np.asarray(buffer.constant), spec.shape)
        array = array if spec.layout is None else np.moveaxis(array, 1, -1)
        return self._with_layout(self._backend.asarray(np.ascontiguousarray(array), spec.dtype), spec)

    def _with_layout(self, array: Any, spec: Spec) -> Any:
        """Memory under a spec: for a layout other than the plain one a strided view of the logical shape."""
        if spec.layout is None:
            return array.reshape(spec.shape)
        n, channels, *spatial = spec.shape
        return self._backend.xp.moveaxis(array.reshape((n, *spatial, channels)), -1, 1)
