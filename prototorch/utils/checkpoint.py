"""Checkpoints: parts of a computation whose intermediate values are computed again for the gradient, not kept.

y = pt.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prototorch.autograd.graph import saved_tensors_hooks
from prototorch.eager.generator import default_generator
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.layer_call import is_training, training
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["checkpoint", "checkpoint_sequential"]

ContextPair = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


def _no_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextPair = _no_contexts,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """The result of ``function(*args, **kwargs)``; what its gradient needs is computed again in the backward pass
    instead of being kept.

    use_reentrant: accepted; both values give the form of ``False``, in which gradients flow to all tensors that the
    function uses. context_fn: gives two contexts, one for the call and one for the computation again.
    determinism_check: "default" compares shapes and element types of both, "none" nothing. debug: accepted.
    preserve_rng_state: whether random numbers are drawn again as they were. early_stop: whether the function is left
    once all that is needed was computed.

    Raises GradientError where the function saves other tensors the second time, UsageError for a wrong argument.
    """
    if determinism_check not in ("default", "none"):
        raise UsageError(f"checkpoint: determinism_check is 'default' or 'none', not {determinism_check!r}")
    if not callable(function):
        raise UsageError(f"checkpoint: expected a function, got {type(function).__name__}")
    forward_context, repeat_context = context_fn()
    frame = _Frame(function, args, kwargs, repeat_context, determinism_check, preserve_rng_state, early_stop)
    with frame.hooks, forward_context:
        return function(*args, **kwargs)


class _Holder:
    """Stands for a tensor that is computed again. number: how many were saved before it."""

    __slots__ = ("__weakref__", "number", "spec", "tensor")

    def __init__(self, number: int, spec: Any):
        self.number, self.spec = number, spec
        self.tensor: Tensor | None = None


class _Finished(Exception):
    """All that is needed was computed again."""


class _Frame:
    """One call of a checkpointed function."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        repeat_context: AbstractContextManager[Any],
        determinism_check: str,
        preserve_rng_state: bool,
        early_stop: bool,
    ):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.repeat_context, self.determinism_check, self.early_stop = repeat_context, determinism_check, early_stop
        self.state = default_generator.get_state() if preserve_rng_state else None
        self.phase = is_training()
        self.holders: list[weakref.ref[_Holder]] = []
        self.hooks = saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(len(self.holders), tensor.spec)
        self.holders.append(weakref.ref(holder))
        return holder

    def _unpack(self, holder: _Holder) -> Tensor:
        if holder.tensor is None:
            self._compute_again()
        tensor = holder.tensor
        if tensor is None:
            raise GradientError(
                f"checkpoint: the function saved {len(self.holders)} tensors and fewer when it was computed again; it "
                "must do the same both times"
            )
        holder.tensor = None
        return tensor

    def _compute_again(self) -> None:
        """Run the function once more, and give the holders what it saves."""
        before = default_generator.get_state()
        number = 0
        last = max((k for k, ref in enumerate(self.holders) if ref() is not None), default=-1)

        def pack(tensor: Tensor) -> None:
            nonlocal number
            if number >= len(self.holders):
                if self.early_stop and number > last:
                    raise _Finished
                raise GradientError(
                    f"checkpoint: the function saves more than the {len(self.holders)} tensors of its first call; it "
                    "must do the same both times"
                )
            holder = self.holders[number]()
            number += 1
            if holder is not None:
                self._check(holder, tensor)
                holder.tensor = tensor
            if self.early_stop and number > last:
                raise _Finished

        try:
            if self.state is not None:
                default_generator.set_state(self.state)
            with enable_grad(), training(self.phase), self.repeat_context, saved_tensors_hooks(pack, _refuse_unpack):
                self.function(*map(_detach, self.args), **{k: _detach(v) for k, v in self.kwargs.items()})
        except _Finished:
            pass
        finally:
            if self.state is not None:
                default_generator.set_state(before)

    def _check(self, holder: _Holder, tensor: Tensor) -> None:
        if self.determinism_check == "default" and holder.spec != tensor.spec:
            raise GradientError(
                f"checkpoint: saved tensor {holder.number} was {holder.spec}, and is {tensor.spec} when the function "
                "is computed again; it must do the same both times"
            )


def _refuse_unpack(value: Any) -> Tensor:
    raise GradientError("checkpoint: backward() inside of the function, while it is computed again, is not possible")


def _detach(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    copy = value.detach()
    copy.requires_grad = value.requires_grad
    return copy


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **options: Any
) -> Any:
    """The result of functions (or modules, such as an nn.Sequential) that are called one after the other, in segments
    of which all but the last are checkpoints.

    Raises UsageError where ``segments`` is not in 1 .. the number of functions.
    """
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not isinstance(segments, int) or not 1 <= segments <= len(steps):
        raise UsageError(f"checkpoint_sequential: segments={segments!r} must be in 1 .. {len(steps)}, the functions")
    unknown = options.keys() - {"preserve_rng_state"}
    if unknown:
        raise UsageError(f"checkpoint_sequential: unknown argument {sorted(unknown)[0]!r}")
    size = len(steps) // segments
    value = input
    for k in range(segments - 1):
        value = checkpoint(_chain(steps[k * size : (k + 1) * size]), value, use_reentrant=use_reentrant, **options)
    return _chain(steps[(segments - 1) * size :])(value)


def _chain(steps: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run
