"""Page-locked memory of the host, from which a GPU copies while the host goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.cuda.availability import is_available
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.errors import warn_user
from prototorch.utils.data.arrays import as_tensor, is_host_array

__all__ = ["pin_batch", "pin_memory"]


def pin_memory(batch: Any) -> Any:
    """A batch whose tensors are in pinned memory; as it is, with a warning, where there is no GPU."""
    if not is_available():
        warn_user("pin_memory: there is no GPU here, and batches stay in ordinary memory", UserWarning)
        return batch
    return pin_batch(batch, interpreter_for("cuda").backend.batch_memory.empty)


def pin_batch(batch: Any, allocate: Callable[[tuple[int, ...], Any], np.ndarray | None]) -> Any:
    """A batch whose tensors are copied to arrays of ``allocate(shape, dtype)``; where that gives None, they stay.

    Mappings, named tuples, tuples and lists are entered; an object with a method ``pin_memory()`` is asked for it; the
    rest stays as it is.
    """
    if isinstance(batch, Tensor):
        if not is_host_array(batch):
            return batch
        array = batch.numpy()
        memory = allocate(array.shape, array.dtype)
        if memory is None:
            return batch
        memory[...] = array
        return as_tensor(memory)
    if isinstance(batch, str | bytes):
        return batch
    if isinstance(batch, Mapping):
        pinned = {key: pin_batch(value, allocate) for key, value in batch.items()}
        return pinned if type(batch) is dict else type(batch)(pinned)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(pin_batch(value, allocate) for value in batch))
    if isinstance(batch, Sequence):
        values = [pin_batch(value, allocate) for value in batch]
        return tuple(values) if isinstance(batch, tuple) else values
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch
