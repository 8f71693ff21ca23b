"""The backward pass over the tape: one reverse sweep, entry by entry, that frees what it has used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch.eager.anomaly import check_gradients, explain_error
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import recording
from prototorch.eager.node_hooks import NodeHooks, leaves_with_hooks, run_tensor_hooks
from prototorch.eager.observers import anomaly_mode
from prototorch.eager.tape import TapeEntry, tape_before
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError
from prototorch.ops.core import use_interpreter

__all__ = ["run_backward", "sweep_tape"]


def run_backward(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    targets: Sequence[Tensor] | None,
    *,
    retain_graph: bool,
    create_graph: bool,
) -> tuple[list[Any], list[Tensor | None]]:
    """The reverse sweep from outputs to targets, or, where these are None, to all leaves.

    Gives the targets' edges (leaves are their own) and their gradients, None where there is no path. Raises
    GradientError where an output has no gradient, a saved value was changed, or the graph was freed.
    """
    goals, gradients, _ = sweep_tape(outputs, seeds, targets, retain_graph, create_graph)
    return goals, gradients


def sweep_tape(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    targets: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
    accumulate: Callable[[Tensor, Tensor], None] | None = None,
) -> tuple[list[Any], list[Tensor | None], bool]:
    """As `run_backward`; gives also whether the user's code saw gradients, and may have kept them.

    accumulate: takes a leaf with hooks and its gradient as soon as that is complete; it is not among the results then.
    """
    for output in outputs:
        if not isinstance(output, Tensor):
            raise UsageError(f"backward: expected tensors, got {type(output).__name__}")
        if output.edge is None:
            raise GradientError(
                "the output was not computed from any tensor with requires_grad=True, or it was computed in no_grad()"
            )
    edges = [output.edge for output in outputs]
    sweep = _Sweep(retain_graph, create_graph, None if targets is None else [t.edge for t in targets], accumulate)
    for output, edge, seed in zip(outputs, edges, seeds, strict=True):
        sweep.add(edge, seed_of(output, seed))
    entries = tape_before(edges)
    token = recording.set(create_graph)
    try:
        with use_interpreter(outputs[0].interpreter):
            sweep.run(entries)
    finally:
        recording.reset(token)
    return (*sweep.results(), sweep.is_seen)


def seed_of(output: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient of an output: the given one, or 1 for a scalar. Raises GradientError where it does not fit."""
    if gradient is None:
        if output.spec.size != 1:
            raise GradientError(
                f"the output has shape {list(output.shape)}, and a gradient is that of a scalar: pass "
                "`gradient=`, or reduce it to a scalar, by sum() or mean()"
            )
        return output.interpreter.ones(output.spec)
    if not isinstance(gradient, Tensor) or gradient.spec.shape != output.spec.shape:
        got = list(gradient.shape) if isinstance(gradient, Tensor) else type(gradient).__name__
        raise GradientError(
            f"the gradient of an output of shape {list(output.shape)} must be a tensor of it, not {got}"
        )
    return gradient


class _Sweep:
    """The gradients of one backward pass.

    pending: by entry, a list of the gradients of its outputs. leaves: by id, each leaf with its gradient. goals: the
    edges whose gradients are asked for; None for all leaves.
    """

    def __init__(
        self,
        retain_graph: bool,
        create_graph: bool,
        goals: list[Any] | None,
        accumulate: Callable[[Tensor, Tensor], None] | None,
    ):
        self.retain_graph, self.create_graph = retain_graph, create_graph
        self.goals, self.accumulate = goals, accumulate
        self.pending: dict[TapeEntry, list[Any]] = {}
        self.leaves: dict[int, tuple[Tensor, Tensor]] = {}
        self.captures: dict[tuple[TapeEntry, int], Tensor] = {}
        self.captured_entries: set[TapeEntry] = set()
        self.goal_leaves: set[int] = set()
        self.is_seen = False  # whether the user's code saw gradients, and may have kept them
        for goal in goals or ():
            if type(goal) is Edge:
                self.captured_entries.add(goal.entry)
            else:
                self.goal_leaves.add(id(goal))

    def add(self, edge: Any, g: Tensor) -> None:
        """Add to the gradient of an edge."""
        if type(edge) is Edge:
            entry, output = edge
            row = self.pending.get(entry)
            if row is None:
                row = self.pending[entry] = [None] * len(entry.signature.outs)
            row[output] = g if row[output] is None else row[output] + g
            return
        leaf_entry = self.leaves.get(id(edge))
        self.leaves[id(edge)] = (edge, g if leaf_entry is None else leaf_entry[1] + g)

    def run(self, entries: list[TapeEntry]) -> None:
        """Differentiate the entries, last first; the list is emptied, so that each is freed when it is no more used."""
        needed = None if self.goals is None else self._entries_before_goals(entries)
        pending, goal_leaves, captured, mode = self.pending, self.goal_leaves, self.captured_entries, anomaly_mode()
        last_uses = self._last_uses(entries) if self.accumulate is not None and leaves_with_hooks else {}
        finished: list[Tensor] = []
        while entries:
            for leaf in finished:
                self._finish_leaf(leaf)
            entry = entries.pop()
            finished = last_uses.pop(entry, [])
            grads = pending.pop(entry, None)
            if grads is None:
                continue
            extras = entry.extras
            is_needed = needed is None or entry in needed
            if is_needed and captured and entry in captured:  # as PyTorch: before the hooks, unless it ends here
                self._capture(entry, grads)
            if extras is not None:
                self.is_seen = True
                _run_output_hooks(extras, grads)
            if not is_needed:
                self._capture(entry, grads)
                continue
            if needed is None:
                needs = [e is not None for e in entry.edges]
            else:
                needs = [
                    e is not None
                    and ((e.entry in needed or e.entry in captured) if type(e) is Edge else id(e) in goal_leaves)
                    for e in entry.edges
                ]
            if extras is not None and extras.pre_hooks:
                grads = _run_pre_hooks(extras, grads)
            try:
                results = entry.differentiate(grads, needs, self.create_graph)
            except Exception as exc:
                if mode is not None:
                    explain_error(entry, exc)
                raise
            if extras is not None and extras.post_hooks:
                results = _run_post_hooks(extras, results, grads)
            if mode is not None and mode.check_nan:
                check_gradients(entry, results)
            if entry.runs_user_code:
                self.is_seen = True
            if not self.retain_graph:
                entry.release()
            for edge, need, g in zip(entry.edges, needs, results, strict=True):
                if need and g is not None:
                    self.add(edge, g)
        for leaf in finished:
            self._finish_leaf(leaf)

    def _last_uses(self, entries: Sequence[TapeEntry]) -> dict[TapeEntry, list[Tensor]]:
        """The leaves with hooks by the entry that is the last one of the sweep to add to their gradient."""
        last_uses: dict[TapeEntry, list[Tensor]] = {}
        seen: set[int] = set()
        for entry in entries:
            for e in entry.edges:
                if e is not None and type(e) is not Edge and id(e) in leaves_with_hooks and id(e) not in seen:
                    seen.add(id(e))
                    last_uses.setdefault(entry, []).append(e)
        return last_uses

    def _finish_leaf(self, leaf: Tensor) -> None:
        """Add the complete gradient of a leaf to its ``grad``, where it has hooks that wait for that."""
        if id(leaf) not in self.leaves or (self.goals is not None and id(leaf) not in self.goal_leaves):
            return
        assert self.accumulate is not None
        self.is_seen = True
        _, gradient = self.leaves.pop(id(leaf))
        self.accumulate(leaf, run_tensor_hooks(gradient, leaf.__dict__.get("hooks", ())))

    def _capture(self, entry: TapeEntry, grads: list[Any]) -> None:
        for k, g in enumerate(grads):
            if g is not None:
                self.captures[entry, k] = g

    def _entries_before_goals(self, entries: list[TapeEntry]) -> set[TapeEntry]:
        """The entries whose gradients lead to a goal."""
        needed: set[TapeEntry] = set()
        for entry in entries:
            for e in entry.edges:
                if e is None:
                    continue
                if (
                    (e.entry in needed or e.entry in self.captured_entries)
                    if type(e) is Edge
                    else id(e) in self.goal_leaves
                ):
                    needed.add(entry)
                    break
        return needed

    def results(self) -> tuple[list[Any], list[Tensor | None]]:
        """The goals and their gradients, after the hooks of leaves."""
        self.is_seen = self.is_seen or any(leaf.__dict__.get("hooks") for leaf, _ in self.leaves.values())
        by_leaf = {
            key: (leaf, run_tensor_hooks(g, leaf.__dict__.get("hooks", ())))
            for key, (leaf, g) in self.leaves.items()
            if self.goals is None or key in self.goal_leaves
        }
        if self.goals is None:
            return [leaf for leaf, _ in by_leaf.values()], [g for _, g in by_leaf.values()]
        return self.goals, [
            self.captures.get((e.entry, e.output)) if type(e) is Edge else by_leaf.get(id(e), (None, None))[1]
            for e in self.goals
        ]


def _run_output_hooks(extras: NodeHooks, grads: list[Any]) -> None:
    for k, hooks in extras.tensor_hooks.items():
        if grads[k] is not None:
            grads[k] = run_tensor_hooks(grads[k], hooks)
    for k, keep in extras.retained.items():
        if grads[k] is not None:
            keep(grads[k])


def _run_pre_hooks(extras: NodeHooks, grads: list[Any]) -> list[Any]:
    for hook in list(extras.pre_hooks):
        changed = hook(tuple(grads))
        if changed is not None:
            grads = _as_gradients("prehook", changed, len(grads))
    return grads


def _run_post_hooks(extras: NodeHooks, results: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
    for hook in list(extras.post_hooks):
        changed = hook(tuple(results), tuple(grads))
        if changed is not None:
            results = _as_gradients("hook", changed, len(results))
    return results


def _as_gradients(what: str, values: Any, count: int) -> list[Any]:
    gradients = [values] if isinstance(values, Tensor) else list(values)
    if len(gradients) != count:
        raise UsageError(f"a {what} of a node must return None or {count} gradients, not {len(gradients)}")
    return gradients
