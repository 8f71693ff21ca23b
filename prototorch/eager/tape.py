"""The tape: what each op on tensors leaves behind for the backward pass.

An entry keeps the arrays that the op's derivative reads and no others, each with the version that its storage had. It
refers to the entries before it, never to its own outputs, so that a graph that nobody uses is freed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from prototorch.eager.storage import Storage
from prototorch.errors import UsageError
from prototorch.ops.core import Op
from prototorch.spec import Spec

__all__ = ["Edge", "SavedArray", "TapeEntry", "edge_key", "tape_before"]

#: changes the gradient of a value: (gradient) -> the new one, or None to leave it
Hook = Callable[[Any], Any]


class Edge(NamedTuple):
    """Output ``index`` of an entry; a tensor that no op has made (a leaf) stands for itself instead."""

    entry: TapeEntry
    output: int


class SavedArray:
    """An array that a derivative reads: ``storage`` is None for a copy of the tape's own, which nobody changes."""

    __slots__ = ("array", "storage", "version")

    def __init__(self, array: Any, storage: Storage | None):
        self.array, self.storage = array, storage
        self.version = 0 if storage is None else storage.version

    def unpack(self, op: Op, what: str, spec: Spec) -> Any:
        """The array. Raises UsageError where its elements have been changed since it was saved."""
        if self.storage is not None and self.storage.version != self.version:
            raise UsageError(
                f"the gradient of {op.name} needs its {what}, a tensor {spec.dtype}{list(spec.shape)}, which has been "
                f"changed in place since: it is at version {self.storage.version}, expected {self.version}; compute "
                "with a copy (clone()), or change it after backward()"
            )
        return self.array


class TapeEntry:
    """One op that ran. ``number`` gives the order; ``edges`` are those of the inputs (None: no gradient).

    saved_inputs, saved_outputs: by position, what the derivative reads. hooks: by output. user_saved: what a Function
    keeps. freed: whether a backward pass has given the saved arrays away.
    """

    __slots__ = ("attrs", "edges", "freed", "hooks", "in_specs", "interpreter", "number", "op", "out_specs",
                 "saved_inputs", "saved_outputs")  # fmt: skip
    _numbers = count()

    def __init__(self, interpreter: Any, op: Op, attrs: dict[str, Any], edges: tuple[Any, ...],
                 in_specs: tuple[Spec, ...], out_specs: tuple[Spec, ...]):  # fmt: skip
        self.interpreter, self.op, self.attrs, self.edges = interpreter, op, attrs, edges
        self.in_specs, self.out_specs = in_specs, out_specs
        self.saved_inputs: dict[int, SavedArray] = {}
        self.saved_outputs: dict[int, SavedArray] = {}
        self.hooks: dict[int, list[Hook]] | None = None
        self.freed = False
        self.number = next(self._numbers)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """The name that a tensor shows as its ``grad_fn``."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward"

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """The entries (or leaves) that made the inputs, as PyTorch's ``grad_fn.next_functions``."""
        return tuple((e.entry, e.output) if isinstance(e, Edge) else (e, 0) for e in self.edges)

    def release(self) -> None:
        """Give the saved arrays away."""
        if self.saved_inputs or self.saved_outputs:
            self.saved_inputs, self.saved_outputs = {}, {}
            self.freed = True

    def release_own_state(self) -> None:
        """Give away what a Function has saved."""
        release = getattr(self.op, "release", None)
        if release is not None:
            release()
            self.freed = True

    def protect(self, storage: Storage) -> None:
        """Copy the saved arrays that lie in a storage which is about to be changed by the op itself."""
        for saved in self.saved_inputs.values():
            if saved.storage is storage:
                saved.array, saved.storage = saved.array.copy(), None


def edge_key(edge: Any) -> tuple[int, int]:
    """What identifies an edge: entry and output, or the leaf."""
    return (edge.entry.number, edge.output) if type(edge) is Edge else (-1, id(edge))


def tape_before(edges: Iterable[Any], since: int = -1) -> list[TapeEntry]:
    """The entries that edges depend on, in the order in which they ran; those from number ``since`` on."""
    entries: dict[int, TapeEntry] = {}
    pending = [e.entry for e in edges if type(e) is Edge]
    while pending:
        entry = pending.pop()
        if entry.number >= since and entry.number not in entries:
            entries[entry.number] = entry
            pending.extend(e.entry for e in entry.edges if type(e) is Edge)
    return [entries[n] for n in sorted(entries)]


def protect_saved(edges: Sequence[Any], storage: Storage, since: int) -> None:
    """Before a tensor is changed in place by ops from number ``since`` on: what these saved of it is copied."""
    for entry in tape_before(edges, since):
        entry.protect(storage)


def next_entry_number() -> int:
    """A number below those of all entries that will be made."""
    return next(TapeEntry._numbers)
