"""What a `Function` passes from its forward to its backward computation."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.observers import observers, use_observers
from prototorch.eager.saved_array import PackedArray, check_version
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["FunctionCtx", "save_tensors"]


class _SavedTensor(NamedTuple):
    """A tensor that a function has saved: the tensor itself, its elements alone (of an output, by number, which must
    not refer to itself), or what a pack hook made of it. A saved None has none of these."""

    tensor: Tensor | None
    pack: PackedArray | None
    output: int | None
    storage: Storage | None
    version: int


class FunctionCtx:
    """The ``ctx`` of a `Function`. Attributes may be set on it freely.

    needs_input_grad: for each argument of forward whether its gradient is needed.
    """

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads: bool = True
    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    packed_tensors: tuple[_SavedTensor, ...] | None = None  # what `saved_tensors` unpacks
    node_reference: Any = None  # a weak reference to the node on the tape

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs and others; None is kept as None) for `backward`, which reads them as
        ``saved_tensors``. A change in place after this is an error there."""
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise UsageError(
                    f"save_for_backward keeps tensors, and argument {k} is a {type(t).__name__}; set other values as "
                    "attributes: ctx.name = value"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted as in PyTorch; what it saves is read in forward mode, which does not exist here."""

    def mark_dirty(self, *args: Tensor) -> None:
        """Name the inputs that `forward` changes in place; it must return them."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name the outputs that have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the gradient of an output that nothing depends on is given as zeros (the default), or as None."""
        self.materialize_grads = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` has kept. Raises GradientError where the backward pass has freed it, and where a
        tensor was changed in place since."""
        if self.packed_tensors is None:
            return tuple(self.to_save)
        if self.node_reference is not None and (node := self.node_reference()) is not None and node.freed:
            raise GradientError(
                f"the saved tensors of {type(self).__name__} have been freed by a backward pass: call it with "
                "retain_graph=True, or compute the result again"
            )
        return tuple(self._unpack(k, saved) for k, saved in enumerate(self.packed_tensors))

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`."""
        return self.saved_tensors

    def _unpack(self, position: int, saved: _SavedTensor) -> Any:
        if saved.pack is not None:
            tensor = saved.pack.unpack()
            return self._at_output(tensor, saved.output) if saved.output is not None else tensor
        if saved.tensor is None:
            return None
        name = type(self).__name__
        check_version(saved.storage, saved.version, name, f"saved tensor {position}", saved.tensor.spec)
        return saved.tensor if saved.output is None else self._at_output(saved.tensor, saved.output)

    def _at_output(self, tensor: Tensor, output: int) -> Tensor:
        recorded = make_tensor(tensor.array, tensor.spec, tensor.interpreter, tensor.storage)
        node = None if self.node_reference is None else self.node_reference()
        if node is not None and tensor.spec.is_float and output not in node.without_gradient:
            recorded.recorded_edge = Edge(node, output)
        return recorded


def save_tensors(ctx: FunctionCtx, node: Any, outputs: tuple[Tensor, ...], originals: tuple[Any, ...]) -> None:
    """Turn what a function asked to save into what its node keeps.

    outputs: the function's, which are on the tape. originals: what `forward` returned in their places.
    """
    ctx.node_reference = weakref.ref(node)
    watching = observers.get()
    hooks = watching.pack_hooks[-1] if watching is not None and watching.pack_hooks else None
    positions = {id(t): k for k, t in [*enumerate(originals), *enumerate(outputs)]}
    saved = []
    for t in ctx.to_save:
        if t is None:
            saved.append(_SavedTensor(None, None, None, None, 0))
            continue
        output = positions.get(id(t))
        if hooks is not None:
            with use_observers(pack_hooks=()), no_grad():
                saved.append(
                    _SavedTensor(None, PackedArray(t.detach() if output is not None else t, hooks), output, None, 0)
                )
            continue
        saved.append(_SavedTensor(t if output is None else t.detach(), None, output, t.storage, t.storage.version))
    ctx.packed_tensors, ctx.to_save = tuple(saved), ()
