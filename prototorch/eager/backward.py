"""The backward pass over the tape: `backward` and `grad`, by the reverse sweep that graphs use, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from prototorch.eager.grad_mode import recording
from prototorch.eager.storage import Storage
from prototorch.eager.tape import Edge, TapeEntry, edge_key, tape_before
from prototorch.eager.tensor import Tensor, make_tensor
from prototorch.errors import UsageError
from prototorch.ops.core import backward_pass
from prototorch.spec import Spec

__all__ = ["accumulate_grad", "run_backward"]


class _Sweep:
    """The values of one backward pass: one tensor for each edge, whose array is there only while an entry is
    differentiated."""

    def __init__(self, create_graph: bool, retain_graph: bool):
        self.create_graph, self.retain_graph = create_graph, retain_graph
        self.values: dict[tuple[int, int], Tensor] = {}

    def value(self, edge: Any, spec: Spec, interpreter: Any) -> Tensor:
        """The tensor that stands for an edge."""
        key = edge_key(edge)
        found = self.values.get(key)
        if found is None:
            found = self.values[key] = make_tensor(None, spec, interpreter, Storage())
            found._edge = edge
        return found


class _Application:
    """An entry of the tape, for `backward_pass`; it is its op itself, so that it can unpack what was saved."""

    __slots__ = ("attrs", "entry", "inputs", "op", "outputs", "sweep")

    def __init__(self, sweep: _Sweep, entry: TapeEntry):
        self.sweep, self.entry, self.attrs, self.op = sweep, entry, entry.attrs, self
        self.inputs = tuple([
            sweep.value(edge, spec, entry.interpreter) if edge is not None
            else make_tensor(None, spec, entry.interpreter, Storage())
            for edge, spec in zip(entry.edges, entry.in_specs, strict=True)
        ])  # fmt: skip
        self.outputs = tuple([
            sweep.value(Edge(entry, k), spec, entry.interpreter) for k, spec in enumerate(entry.out_specs)
        ])  # fmt: skip

    def vjp(self, grads: Sequence[Any], outputs: Sequence[Tensor], inputs: Sequence[Tensor], needs: Sequence[bool],
            attrs: dict[str, Any]) -> Sequence[Any]:  # fmt: skip
        """See `Op.vjp`."""
        entry = self.entry
        if entry.freed:
            raise UsageError(
                f"backward() a second time over {entry.op.name}, whose saved arrays the first one has freed: call the "
                "first one with retain_graph=True, or compute the result again"
            )
        if entry.hooks:
            grads = [_run_hooks(g, entry.hooks.get(k, ())) for k, g in enumerate(grads)]
        filled: list[Tensor] = []
        for saved, values, what in ((entry.saved_inputs, inputs, "input"), (entry.saved_outputs, outputs, "output")):
            for k, one in saved.items():
                values[k]._array = one.unpack(entry.op, f"{what} {k}", values[k].spec)
                filled.append(values[k])
        try:
            results = entry.op.vjp(grads, outputs, inputs, needs, attrs)
            own = set(map(id, filled))
            return [_alias(g) if id(g) in own else g for g in results]
        finally:
            for t in filled:
                t._array = None
            if not self.sweep.retain_graph:
                entry.release()
                entry.release_own_state()


def _alias(value: Tensor) -> Tensor:
    made = make_tensor(value._array, value.spec, value.interpreter, Storage())
    made._edge = value._edge
    return made


def _run_hooks(gradient: Any, hooks: Sequence[Any]) -> Any:
    for hook in hooks if gradient is not None else ():
        changed = hook(gradient)
        if changed is not None:
            if not isinstance(changed, Tensor) or changed.shape != gradient.shape:
                raise UsageError(
                    f"a hook must return None or a tensor {list(gradient.shape)}, not "
                    f"{list(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__}"
                )
            gradient = changed
    return gradient


def seed_of(output: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient of an output: the given one, or 1 for a scalar. Raises UsageError where it does not fit."""
    if gradient is None:
        if output.spec.size != 1:
            raise UsageError(
                f"the output has shape {list(output.shape)}, and a gradient is that of a scalar: pass "
                "`gradient=`, or reduce it to a scalar, by sum() or mean()"
            )
        return output.interpreter.constant(np.ones(output.spec.shape, output.spec.dtype))
    if not isinstance(gradient, Tensor) or gradient.shape != output.shape:
        got = list(gradient.shape) if isinstance(gradient, Tensor) else type(gradient).__name__
        raise UsageError(f"the gradient of an output of shape {list(output.shape)} must be a tensor of it, not {got}")
    return gradient


def run_backward(outputs: Sequence[Tensor], seeds: Sequence[Tensor | None], targets: Sequence[Tensor] | None, *,
                 retain_graph: bool, create_graph: bool) -> tuple[list[Any], list[Tensor | None]]:  # fmt: skip
    """The reverse sweep from outputs to targets, or, where these are None, to all leaves.

    Gives the targets' edges (leaves are their own) and their gradients, None where there is no path. Raises UsageError
    where an output has no gradient, a saved value was changed, or the graph was freed.
    """
    for output in outputs:
        if not isinstance(output, Tensor) or output.edge is None:
            raise UsageError("the output was not computed from any tensor with requires_grad=True")
    pairs = [(output, seed_of(output, seed)) for output, seed in zip(outputs, seeds, strict=True)]
    edges = [output.edge for output in outputs]
    entries = tape_before(edges)
    sweep = _Sweep(create_graph, retain_graph)
    applications = [_Application(sweep, entry) for entry in entries]
    if targets is None:
        leaves = {id(e): e for entry in entries for e in entry.edges if e is not None and type(e) is not Edge}
        leaves.update({id(e): e for e in edges if type(e) is not Edge})
        goals: list[Any] = list(leaves.values())
        specs = [leaf.spec for leaf in goals]
    else:
        goals, specs = [t.edge for t in targets], [t.spec for t in targets]
    values = [sweep.value(e, s, outputs[0].interpreter) if e is not None else None
              for e, s in zip(goals, specs, strict=True)]  # fmt: skip
    token = recording.set(create_graph)
    try:
        roots = [(sweep.value(o.edge, o.spec, o.interpreter), g) for o, g in pairs]
        found = backward_pass(cast(Any, applications), roots, [v for v in values if v is not None])
    finally:
        recording.reset(token)
    grads = iter(found)
    results = [None if v is None else next(grads) for v in values]
    for k, (goal, g) in enumerate(zip(goals, results, strict=True)):
        if g is not None:
            hooks = goal.entry.hooks.get(goal.output, ()) if type(goal) is Edge and goal.entry.hooks else ()
            hooks = hooks if type(goal) is Edge else goal.__dict__.get("hooks", ())
            results[k] = _run_hooks(g, list(hooks))
    return goals, results


def accumulate_grad(leaf: Tensor, gradient: Tensor, create_graph: bool, used: set[int]) -> None:
    """Add a gradient to that of a leaf. ``used``: the ids of tensors that must not become gradients themselves."""
    if leaf.grad is None:
        is_own = id(gradient) not in used and gradient._view is None and gradient._array is not None
        used.add(id(gradient))
        leaf.grad = gradient if is_own or create_graph else gradient.interpreter.copy(gradient)
    elif create_graph:
        leaf.grad = leaf.grad + gradient
    else:
        leaf.grad.interpreter.add_into(leaf.grad, gradient)
