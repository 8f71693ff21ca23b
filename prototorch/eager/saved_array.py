"""Arrays that the tape keeps for derivatives, with the versions of their storages, and hooks that pack them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.observers import Observers, use_observers
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.errors import GradientError, UsageError
from prototorch.spec import Spec

__all__ = ["PackHooks", "PackedArray", "SavedArray", "check_version", "pack_arrays", "unpack_array"]


class SavedArray(NamedTuple):
    """An array that a derivative reads. storage: None for a copy of the tape's own, which nobody changes, and for a
    `PackedArray` in the array's place. version: that of the storage when it was saved."""

    array: Any
    storage: Storage | None
    version: int


class PackHooks(NamedTuple):
    """Functions that pack what the tape saves, and unpack it (PyTorch's saved_tensors_hooks)."""

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]


class PackedArray:
    """What a pack hook has made of an array."""

    __slots__ = ("hooks", "spec", "value")

    def __init__(self, tensor: Tensor, hooks: PackHooks):
        self.hooks, self.spec = hooks, tensor.spec
        self.value = hooks.pack(tensor)

    def unpack(self) -> Tensor:
        """The tensor. Raises UsageError where the hook gives something else."""
        tensor = self.hooks.unpack(self.value)
        if not isinstance(tensor, Tensor):
            raise UsageError(f"an unpack hook must return a tensor, not {type(tensor).__name__}")
        if tensor.spec != self.spec:
            raise UsageError(f"an unpack hook must return a tensor {self.spec}, as was packed, not {tensor.spec}")
        return tensor


def check_version(storage: Storage | None, version: int, op: str, what: str, spec: Spec) -> None:
    """Raises GradientError where a saved tensor has been changed in place."""
    if storage is not None and storage.version != version:
        raise GradientError(
            f"the gradient of {op} needs its {what}, a tensor {spec}, which has been changed in place since: it is at "
            f"version {storage.version}, expected {version}; compute with a copy (clone()), or change it after "
            "backward()"
        )


def pack_arrays(watching: Observers, tensors: Sequence[Tensor]) -> list[SavedArray]:
    """What the tape keeps of tensors while pack hooks are in use."""
    hooks = watching.pack_hooks[-1]
    with use_observers(pack_hooks=()), no_grad():
        return [SavedArray(PackedArray(t.detach(), hooks), None, 0) for t in tensors]


def unpack_array(saved: SavedArray, signature: Any, position: int, is_output: bool) -> Tensor:
    """A tensor of a saved array. Raises GradientError where its elements have been changed since it was saved."""
    array, storage, version = saved
    spec = (signature.outs if is_output else signature.ins)[position]
    if storage is None:
        if type(array) is PackedArray:
            tensor = array.unpack()
            return make_tensor(tensor.array, tensor.spec, tensor.interpreter, Storage())
        storage = Storage()
    elif storage.version != version:
        check_version(storage, version, signature.op.name, f"{'output' if is_output else 'input'} {position}", spec)
    return make_tensor(array, spec, signature.interpreter, storage)
