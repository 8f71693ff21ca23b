"""What the tape saves and how: hooks that pack saved tensors, nodes, hooks on several gradients at once.

with pt.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), pt.tensor):
    y = (x * x).sum()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from prototorch.eager.accumulate_node import accumulate_node
from prototorch.eager.edge import Edge
from prototorch.eager.observers import Observers, observers, use_observers
from prototorch.eager.saved_array import PackHooks
from prototorch.eager.tape import TapeEntry as Node
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """A context in which what the tape saves for gradients is packed: ``pack_hook(tensor)`` gives anything,
    ``unpack_hook`` makes the tensor of it when the gradient is computed. The innermost context counts.

    Raises GradientError inside `disable_saved_tensors_hooks`.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        if not callable(pack_hook) or not callable(unpack_hook):
            raise UsageError("saved_tensors_hooks: expected two functions")
        self._hooks = PackHooks(pack_hook, unpack_hook)
        self._contexts: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        watching = observers.get() or Observers()
        if watching.hooks_refusal is not None:
            raise GradientError(watching.hooks_refusal)
        context = use_observers(pack_hooks=(*watching.pack_hooks, self._hooks))
        context.__enter__()
        self._contexts.append(context)

    def __exit__(self, *details: Any) -> None:
        self._contexts.pop().__exit__(*details)


class save_on_cpu(saved_tensors_hooks):
    """A context in which what the tape saves lies in the memory of the host, and returns to its device for the
    gradient.

    pin_memory, device_type: accepted as in PyTorch; the copies are made by the driver.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(_to_host, _from_host)


def _to_host(tensor: Tensor) -> tuple[Any, Any]:
    return tensor.interpreter, tensor.numpy().copy()


def _from_host(value: tuple[Any, Any]) -> Tensor:
    interpreter, array = value
    tensor: Tensor = interpreter.constant(array)
    return tensor


def disable_saved_tensors_hooks(error_message: str) -> AbstractContextManager[None]:
    """A context in which `saved_tensors_hooks` raises GradientError with this message."""
    return use_observers(hooks_refusal=str(error_message))


class GradientEdge(NamedTuple):
    """A node, and the number of one of its outputs."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The node that made a tensor; of a leaf, the node that adds to its ``grad``. Raises GradientError for a tensor
    that requires no gradient."""
    edge = tensor.edge
    if edge is None:
        raise GradientError("get_gradient_edge: the tensor does not require a gradient")
    return GradientEdge(edge.entry, edge.output) if type(edge) is Edge else GradientEdge(accumulate_node(tensor), 0)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a change of the tensor's elements that was made behind prototorch's back, such as by NumPy."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        t.storage.mark_changed()


class _MultiHandle:
    """Removes hooks from several tensors."""

    def __init__(self, handles: Sequence[Any]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook from each of the tensors."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _MultiHandle:
    """Call ``fn`` once in each backward pass: with the gradients of all tensors when the last was computed (``mode``
    "all"), or with the first one ("any").

    A tensor whose gradient a backward pass does not reach would be waited for; each pass must reach all of them.
    """
    if mode not in ("all", "any"):
        raise UsageError(f"register_multi_grad_hook: mode is 'all' or 'any', not {mode!r}")
    count = len(tensors)
    gradients_so_far: dict[int, Tensor] = {}

    def make_hook(k: int) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            gradients_so_far[k] = gradient
            if mode == "any" and len(gradients_so_far) == 1:
                fn(gradient)
            if len(gradients_so_far) == count:
                gradients = [gradients_so_far[i] for i in range(count)]
                gradients_so_far.clear()
                if mode == "all":
                    fn(gradients)

        return hook

    return _MultiHandle([t.register_hook(make_hook(k)) for k, t in enumerate(tensors)])
