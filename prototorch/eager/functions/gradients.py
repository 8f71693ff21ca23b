"""Gradients: `Tensor.backward`, `requires_grad_`, hooks, `retain_grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.eager.backward import run_backward, sweep_tape
from prototorch.eager.node_hooks import RemovableHandle, leaves_with_hooks
from prototorch.eager.registry import tensor_method
from prototorch.eager.retained_grad import retain
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["backward", "grad"]


@tensor_method(name="backward")
def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to ``grad`` of all leaves that this tensor was computed from its gradient; see `backward`."""
    backward([self], [gradient], retain_graph, create_graph, inputs)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of tensors to ``grad`` of the leaves that they were computed from (PyTorch's
    autograd.backward).

    grad_tensors: the gradients of the tensors; None is 1, for a scalar. retain_graph: whether it can be called again
    (default: ``create_graph``). create_graph: whether the gradients can be differentiated. inputs: the tensors whose
    ``grad`` is added to, instead of all leaves.

    Raises GradientError where a tensor has no gradient, where a value that the gradient needs was changed in place, and
    where an earlier call has freed the graph.
    """
    outputs = _as_list(tensors)
    seeds = [None] * len(outputs) if grad_tensors is None else _as_list(grad_tensors)
    if len(seeds) != len(outputs):
        raise UsageError(f"backward: {len(seeds)} gradients for {len(outputs)} tensors")
    targets = None if inputs is None else _as_list(inputs)
    keep = create_graph if retain_graph is None else retain_graph
    used = {id(s) for s in seeds if s is not None}

    def accumulate_early(leaf: Tensor, gradient: Tensor) -> None:
        _add_to_leaf(leaf, gradient, create_graph, used, True)

    goals, gradients, is_seen = sweep_tape(outputs, seeds, targets, keep, create_graph, accumulate_early)
    for k, (goal, g) in enumerate(zip(goals, gradients, strict=True)):
        leaf = goal if isinstance(goal, Tensor) else None if targets is None else targets[k]
        if g is not None and leaf is not None:
            _add_to_leaf(leaf, g, create_graph, used, is_seen)


def _add_to_leaf(leaf: Tensor, gradient: Tensor, create_graph: bool, used: set[int], is_seen: bool) -> None:
    """Add a gradient to that of a leaf, between the hooks of its node. ``used``: the ids of tensors that must not
    become gradients themselves; nor may any where the user's code has seen them (``is_seen``)."""
    hooks = leaf.__dict__.get("node_hooks")
    is_seen = is_seen or hooks is not None
    if hooks is not None:
        for hook in list(hooks.pre_hooks):
            changed = hook((gradient,))
            if changed is not None:
                gradient = changed if isinstance(changed, Tensor) else changed[0]
    before = leaf.stored_grad
    if before is None:
        is_own = not is_seen and id(gradient) not in used and gradient.view_info is None
        used.add(id(gradient))
        leaf.stored_grad = gradient if is_own or create_graph else gradient.interpreter.copy(gradient)
    elif create_graph:
        leaf.stored_grad = before + gradient
    else:
        before.interpreter.add_into(before, gradient)
    for post_hook in list(leaf.__dict__.get("post_hooks", ())):
        post_hook(leaf)
    if hooks is not None:
        for hook in list(hooks.post_hooks):
            hook((), (gradient,))


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of outputs with respect to inputs, a tuple; ``grad`` of no tensor changes (PyTorch's
    autograd.grad).

    grad_outputs: the gradients of the outputs; None is 1, for a scalar. retain_graph: whether the graph can be used
    again (default: ``create_graph``). create_graph: whether the result can be differentiated. allow_unused: an input
    that no output depends on gives None instead of an error; ``materialize_grads``: zeros instead of None.

    Raises GradientError as `backward` does, and for an input that no output depends on.
    """
    if not only_inputs or is_grads_batched:
        raise UsageError("grad: only_inputs=False and is_grads_batched=True are not possible; call grad for each")
    if materialize_grads and allow_unused is False:
        raise UsageError("grad: materialize_grads=True gives zeros for unused inputs; leave out allow_unused=False")
    results, targets = _as_list(outputs), _as_list(inputs)
    seeds = [None] * len(results) if grad_outputs is None else _as_list(grad_outputs)
    if len(seeds) != len(results):
        raise UsageError(f"grad: {len(seeds)} gradients for {len(results)} outputs")
    for k, t in enumerate(targets):
        if not isinstance(t, Tensor) or not t.requires_grad:
            raise GradientError(f"grad: input {k} does not require a gradient: set requires_grad=True before its use")
    _, gradients = run_backward(
        results,
        seeds,
        targets,
        create_graph=create_graph,
        retain_graph=create_graph if retain_graph is None else retain_graph,
    )
    for k, (t, g) in enumerate(zip(targets, gradients, strict=True)):
        if g is None:
            if materialize_grads:
                gradients[k] = t.interpreter.zeros(t.spec)
            elif not allow_unused:
                raise GradientError(
                    f"grad: no output depends on input {k}, of shape {list(t.shape)}; allow_unused=True gives None for "
                    "it, materialize_grads=True zeros"
                )
    return tuple(gradients)


def _as_list(values: Any) -> list[Any]:
    return [values] if isinstance(values, Tensor) else list(values)


@tensor_method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook(gradient)`` when the gradient of this tensor is computed; what it returns, if not None, is the
    gradient from there on (PyTorch). Gives a handle whose `remove` takes the hook away. Raises GradientError for a
    tensor that requires no gradient."""
    edge = self.edge
    if edge is None:
        raise GradientError("register_hook: the tensor does not require a gradient, so that none would be computed")
    if edge is self:
        return RemovableHandle.register(self.__dict__.setdefault("hooks", []), hook)
    return RemovableHandle.register(edge.entry.ensure_extras().tensor_hooks.setdefault(edge.output, []), hook)


@tensor_method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call ``hook(tensor)`` as soon as a backward pass has added to the ``grad`` of this leaf: before the gradients of
    what was computed before it are there, so that a step of its own may free the gradient (PyTorch)."""
    if not self.is_leaf or not self.requires_grad:
        raise GradientError("register_post_accumulate_grad_hook: expected a leaf that requires a gradient")
    leaves_with_hooks[id(self)] = self
    return RemovableHandle.register(self.__dict__.setdefault("post_hooks", []), hook)


@tensor_method
def retain_grad(self: Tensor) -> None:
    """Have a tensor that was computed from others keep its gradient in ``grad``, too (PyTorch)."""
    if not self.requires_grad:
        raise GradientError("retain_grad: the tensor does not require a gradient")
    if not self.is_leaf:
        retain(self)


@tensor_method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set ``requires_grad``; gives the tensor."""
    self.requires_grad = requires_grad
    return self


@tensor_method
def detach_(self: Tensor) -> Tensor:
    """Take the tensor off the tape, in place (PyTorch); gives the tensor. Raises GradientError for a view, whose
    gradient is that of the tensor that it is a view of: use detach()."""
    if self.view_info is not None:
        raise GradientError("detach_: a view cannot be taken off the tape; use detach()")
    self.recorded_edge, self.leaf_requires_grad = None, False
    return self
