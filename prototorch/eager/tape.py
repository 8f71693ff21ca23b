"""The tape: what each op on tensors leaves behind for the backward pass.

An entry keeps the arrays that the op's derivative reads and no others, each with the version that its storage had. It
refers to the entries before it, never to its own outputs, so that a graph that nobody uses is freed at once. To users
an entry is a tensor's ``grad_fn``, with PyTorch's members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from prototorch.eager.accumulate_node import accumulate_node
from prototorch.eager.edge import Edge
from prototorch.eager.node_hooks import NodeHooks, RemovableHandle
from prototorch.eager.node_names import node_name
from prototorch.eager.saved_array import SavedArray, unpack_array
from prototorch.eager.signature import Signature
from prototorch.eager.storage import Storage
from prototorch.errors import GradientError

__all__ = ["TapeEntry", "entry_class", "next_entry_number", "protect_saved", "tape_before"]


_next_number: Callable[[], int] = count().__next__


class TapeEntry:
    """One op that ran. ``number`` gives the order; ``edges`` are those of the inputs (None: no gradient).

    signature: the op, its attributes and specs. saved: what the derivative reads, by the positions of
    ``saved_positions`` (inputs, then outputs). extras: hooks and where the op was called, where there are any. freed:
    whether a backward pass has given the saved arrays away.
    """

    __slots__ = ("__weakref__", "edges", "extras", "freed", "number", "saved", "saved_positions", "signature")

    runs_user_code = False  #: whether the derivative is the user's own
    signature: Signature
    edges: tuple[Any, ...]
    saved: list[SavedArray]
    saved_positions: tuple[tuple[int, ...], tuple[int, ...]]
    extras: NodeHooks | None

    def __init__(self, signature: Signature, edges: tuple[Any, ...], positions: Any, saved: list[SavedArray]):
        self.signature, self.edges, self.saved_positions, self.saved = signature, edges, positions, saved
        self.extras, self.freed, self.number = None, False, _next_number()

    # ------------------------------------------------------------------ what users see

    def name(self) -> str:
        """The name, by PyTorch's scheme: ``MulBackward0``."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that made the inputs, each with the number of its output; of a leaf the node that adds to its
        ``grad``."""
        return tuple(
            (e.entry, e.output) if type(e) is Edge else (None if e is None else accumulate_node(e), 0)
            for e in self.edges
        )

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        return self.ensure_extras().metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node's gradients are computed; what it returns, if not None,
        takes the place of ``grad_inputs``. Gives a handle whose `remove` takes the hook away."""
        return RemovableHandle.register(self.ensure_extras().post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node's gradients are computed; what it returns, if not None, takes
        the place of ``grad_outputs``."""
        return RemovableHandle.register(self.ensure_extras().pre_hooks, fn)

    def ensure_extras(self) -> NodeHooks:
        """The hooks, which an entry has none of until they are asked for."""
        if self.extras is None:
            self.extras = NodeHooks()
        return self.extras

    # ------------------------------------------------------------------ the backward pass

    def differentiate(self, grads: Sequence[Any], needs: Sequence[bool], create_graph: bool) -> Sequence[Any]:
        """The gradients of the inputs that need one (else None) from those of the outputs.

        Raises GradientError where the saved arrays were freed or have been changed in place.
        """
        if self.freed:
            raise GradientError(
                f"backward() a second time over {self.signature.op.name}, whose saved arrays the first one has freed: "
                "call the first one with retain_graph=True, or compute the result again"
            )
        signature = self.signature
        inputs: list[Any] = list(signature.input_placeholders)
        outputs: list[Any] = list(signature.output_placeholders)
        input_positions, output_positions = self.saved_positions
        saved = iter(self.saved)
        tensors = []
        for k in input_positions:
            t = inputs[k] = unpack_array(next(saved), signature, k, False)
            tensors.append(t)
            if create_graph:
                t.recorded_edge = self.edges[k]
        for k in output_positions:
            t = outputs[k] = unpack_array(next(saved), signature, k, True)
            tensors.append(t)
            if create_graph:
                t.recorded_edge = Edge(self, k)
        results: Sequence[Any] = signature.op.vjp(grads, outputs, inputs, needs, signature.attrs)
        if tensors and not create_graph:  # what was saved must not become the gradient of a leaf, which is added to
            for t in tensors:
                for g in results:
                    if g is t:
                        own = [id(t) for t in tensors]
                        return [g.interpreter.copy(g) if id(g) in own else g for g in results]
        return results

    def release(self) -> None:
        """Give the saved arrays away."""
        if self.saved:
            self.saved = []
            self.freed = True

    def protect(self, storage: Storage) -> None:
        """Copy the saved arrays that lie in a storage which is about to be changed by the op itself."""
        inputs = len(self.saved_positions[0])
        for k, (array, owner, _) in enumerate(self.saved[:inputs]):
            if owner is storage:
                self.saved[k] = SavedArray(self.signature.interpreter.copy_array(array), None, 0)


@lru_cache(maxsize=4096)
def entry_class(op_name: str) -> type[TapeEntry]:
    """The class of the entries of an op, which bears the name that PyTorch gives to its gradient."""
    return type(node_name(op_name), (TapeEntry,), {"__slots__": (), "__doc__": TapeEntry.__doc__})


def tape_before(edges: Iterable[Any], since: int = -1) -> list[TapeEntry]:
    """The entries that edges depend on, in the order in which they ran; those from number ``since`` on."""
    entries: dict[int, TapeEntry] = {}
    pending = [e.entry for e in edges if type(e) is Edge]
    while pending:
        entry = pending.pop()
        number = entry.number
        if number >= since and number not in entries:
            entries[number] = entry
            for e in entry.edges:
                if type(e) is Edge:
                    pending.append(e.entry)
    return [entries[n] for n in sorted(entries)]


def protect_saved(edges: Sequence[Any], storage: Storage, since: int) -> None:
    """Before a tensor is changed in place by ops from number ``since`` on: what these saved of it is copied."""
    for entry in tape_before(edges, since):
        entry.protect(storage)


def next_entry_number() -> int:
    """A number below those of all entries that will be made."""
    return _next_number()
