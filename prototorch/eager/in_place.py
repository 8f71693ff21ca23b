"""Changing a tensor in place: the one way by which its elements change, with versions and gradients.

What is written enters the tape as PyTorch has it (CopySlices): a tensor that is not a view takes the place of the new
value; where a view is written to, the tensor that it is a view of becomes a `view_update`, and other views of it find
their new place when they are next used.
"""

from __future__ import annotations

from collections.abc import Callable

from prototorch import ops
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import recording
from prototorch.eager.observers import observers
from prototorch.eager.retained_grad import move_retained
from prototorch.eager.tape import protect_saved
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.eager.tracing import active_trace
from prototorch.errors import GradientError, ShapeError, UsageError
from prototorch.ops.core import Op

__all__ = ["assign", "place_output", "update_directly"]


def assign(target: Tensor, value: Tensor, name: str = "an in-place change", since: int | None = None) -> Tensor:
    """Overwrite the elements of ``target`` with ``value``, which is cast to its dtype and broadcast to its shape.

    name: the function, for messages. since: a number below those of the tape entries that computed ``value`` from the
    old elements; what they saved of these is copied first.

    Gives the target. Raises GradientError for a leaf that requires a gradient while ops are recorded, for a tensor of
    which several elements share one memory location (after `expand`), and ShapeError where the shapes do not fit.
    """
    if value is target:
        return target
    _check_shape(target, value, name)
    if target.is_overlapping():
        raise UsageError(
            f"{name}: several elements of the tensor share one memory location (after expand or unfold); clone() it "
            "first"
        )
    is_recorded = recording.get() and target.spec.is_float and (target.requires_grad or value.requires_grad)
    if is_recorded:
        _check_leaf(target, name)
        if target.view_info is not None:
            target.view_info.check_base()
    if value.spec.dtype != target.spec.dtype:
        value = ops.cast(value, dtype=target.spec.dtype)
    if is_recorded:
        if value.shape != target.shape:
            value = ops.broadcast_to(value, shape=target.spec.shape)
        if since is not None and value.edge is not None:
            protect_saved([value.edge], target.storage, since)
    target.interpreter.write(target, value)
    if is_recorded:
        _move_on_tape(target, value)
    return target


def update_directly(target: Tensor, op: Op, other: Tensor) -> bool:
    """Write ``op(target, other)`` over the target without a temporary array, where nothing is recorded and the arrays
    are such that each element is read before it is written. Gives whether that was done."""
    interpreter = target.interpreter
    if (
        active_trace.get() is not None
        or type(other) is not Tensor
        or other.interpreter is not interpreter
        or interpreter.is_trace
        or (recording.get() and (target.requires_grad or other.requires_grad))
        or observers.get() is not None
        or other.spec.dtype != target.spec.dtype
        or not target.spec.is_float
        or (other.storage is target.storage and other is not target)
        or not target.array.flags.c_contiguous
    ):
        return False
    signature = interpreter.find_signature(op, (target, other), {})
    if signature.outs[0] is not target.spec or 0 not in op.inplace_map({}).values():
        return False
    interpreter.call_kernel(signature, [target.array, other.array], [target.array])
    target.storage.mark_changed()
    return True


def _check_shape(target: Tensor, value: Tensor, name: str) -> None:
    wide, narrow = target.spec.shape, value.spec.shape
    if not narrow or narrow == wide:
        return
    extra = len(narrow) - len(wide)
    fits = all(n == 1 for n in narrow[: max(extra, 0)]) and all(
        b in (1, a) for a, b in zip(reversed(wide), reversed(narrow), strict=False)
    )
    if not fits or extra > 0:
        raise ShapeError(
            f"{name}: a tensor of shape {list(wide)} cannot take elements of shape {list(narrow)}, which do not "
            "broadcast to it"
        )


def _check_leaf(target: Tensor, name: str) -> None:
    base = target if target.view_info is None else target.view_info.base
    for tensor, what in ((target, "a leaf tensor"), (base, "a view of a leaf tensor")):
        if tensor.is_leaf and tensor.requires_grad:
            raise GradientError(
                f"{name}: {what} that requires a gradient is changed in place; do it inside `with pt.no_grad():` "
                "(an update of a weight), or compute with a copy (clone())"
            )


def _move_on_tape(target: Tensor, value: Tensor) -> None:
    """Give the target the value's place on the tape, and the tensor that it is a view of a new one."""
    view, storage = target.view_info, target.storage
    if view is None:
        _take_place(target, value)
        storage.graph_version += 1
        return
    view.check_base()
    base = view.base
    interpreter = base.interpreter
    updated = interpreter.view_update(base, value, view.steps)
    storage.graph_version += 1
    _take_place(base, updated)  # the target finds its own place when it is next used, as all views of the base do


def _take_place(target: Tensor, value: Tensor) -> None:
    edge = value.edge
    if edge is not None and not isinstance(edge, Edge):  # a leaf: the target is what an op made of it
        edge = value.interpreter.identity_edge(value)
    before, target.recorded_edge = target.recorded_edge, edge
    target.leaf_requires_grad = False
    if before is not None and edge is not None:
        move_retained(target, before)


def become_view(target: Tensor, make_view: Callable[[Tensor], Tensor], name: str) -> Tensor:
    """Make a tensor the view of it that ``make_view`` gives; its elements stay where they are. Gives the tensor.

    name: the function, for messages. Raises GradientError for a leaf that requires a gradient while ops are recorded.
    """
    if recording.get() and target.view_info is None:
        _check_leaf(target, name)
    source = target
    if target.view_info is None:  # what owns the memory from now on, in the shape that it had
        source = make_tensor(target.array, target.spec, target.interpreter, target.storage)
        source.recorded_edge = target.recorded_edge
    view = make_view(source)
    target.array, target.spec = view.array, view.spec
    target.view_info, target.recorded_edge = view.view_info, view.recorded_edge
    return target


def place_output(target: Tensor, edge: Edge, is_changed: bool, name: str) -> None:
    """Give the output of a function its place on the tape. is_changed: whether it is an input that the function has
    changed in place. Raises GradientError for a leaf that requires a gradient, and a view of one."""
    if not is_changed:
        target.recorded_edge = edge
        return
    _check_leaf(target, name)
    value = make_tensor(target.array, target.spec, target.interpreter, target.storage)
    value.recorded_edge = edge
    _move_on_tape(target, value)
