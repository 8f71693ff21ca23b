"""Eager tensors: ops on them run at once, with a tape for gradients, in the style of PyTorch and on the same ops.

x = pt.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
x.grad            # tensor([2., 4.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.backends.core import Backend
from prototorch.backends.cpu import eager_backend
from prototorch.backends.registry import KernelFn
from prototorch.eager.layer_call import run_layer
from prototorch.errors import UsageError
from prototorch.ops.core import Op, backward_pass, set_default_interpreter
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.operators import OperatorMixin
from prototorch.spec import Spec

_recording: ContextVar[bool] = ContextVar("prototorch_recording", default=True)


@contextmanager
def no_grad():
    """Ops called inside are not put on the tape."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


class TapeEntry:
    """One op that ran: its inputs, attributes and outputs. ``number`` gives the order."""

    __slots__ = ("attrs", "inputs", "number", "op", "outputs")
    _numbers = count()

    def __init__(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: tuple[Tensor, ...]):
        self.op, self.inputs, self.attrs, self.outputs = op, tuple(inputs), attrs, outputs
        self.number = next(self._numbers)


class EagerInterpreter:
    """Runs ops at once on one backend, and records them on the tape where a gradient may be needed."""

    def __init__(self, backend: Backend):
        self.backend = backend
        self._tapes: list[list[TapeEntry]] = []
        self._prepare_cached = lru_cache(maxsize=4096)(self._prepare)

    def _prepare(self, op: Op, ins: tuple[Spec, ...], attrs: tuple) -> tuple[tuple[Spec, ...], bool, KernelFn]:
        outs = op.infer_spec(*ins, **dict(attrs))
        several = isinstance(outs, tuple)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return outs, several, self.backend.prepare(op, ins, outs, dict(attrs))

    def apply(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Run the op now; gives a tensor, or a tuple of them for an op with several outputs."""
        outs, several, run = self._prepare_cached(op, tuple(t.spec for t in inputs), tuple(sorted(attrs.items())))
        arrays = tuple(self.backend.empty(s) for s in outs)
        with self.backend.run_context():
            run(tuple(t.data for t in inputs), arrays)
        outputs = self.record(op, inputs, attrs, arrays)
        return outputs if several else outputs[0]

    def record(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], arrays: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        """The results of an op as tensors, with an entry on the tape where a gradient may be needed."""
        needs_entry = bool(self._tapes) or (_recording.get() and any(t.requires_grad for t in inputs))
        outputs = tuple(Tensor(a) for a in arrays)
        if needs_entry:
            entry = TapeEntry(op, inputs, attrs, outputs)
            for t in outputs:
                t._entry, t.requires_grad = entry, t.spec.is_float
            for tape in self._tapes:
                tape.append(entry)
        return outputs

    def constant(self, array: Any) -> Tensor:
        """A tensor without a gradient."""
        return Tensor(self.backend.asarray(np.asarray(array) if isinstance(array, LazyArray) else array))

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[TapeEntry]]:
        """The result of ``work()``, and the tape entries of its ops."""
        self._tapes.append([])
        try:
            return work(), self._tapes[-1]
        finally:
            self._tapes.pop()


class Tensor(OperatorMixin):
    """An array with a gradient.

    data: the backend's array; grad: the gradient, a Tensor, after `backward`, else None; mask: a bool Tensor or None.
    """

    __slots__ = ("__weakref__", "_entry", "data", "grad", "mask", "requires_grad", "spec")

    def __init__(self, data: Any, requires_grad: bool = False):
        self.data = data
        self.spec = Spec(tuple(data.shape), str(data.dtype))
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.mask: Tensor | None = None
        self._entry: TapeEntry | None = None
        if requires_grad and not self.spec.is_float:
            raise UsageError(f"requires_grad: a tensor of dtype {self.spec.dtype} has no gradient")

    @property
    def interpreter(self) -> EagerInterpreter:
        """Runs the ops on tensors."""
        return eager_interpreter

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """The element type by NumPy's name."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    def apply_layer(self, layer: Any, inputs: tuple[Any, ...]) -> Any:
        """A layer called on tensors runs at once (see `engine.eager_layer`)."""
        if not all(isinstance(i, Tensor) for i in inputs):
            raise UsageError(f"{type(layer).__name__} is called on tensors and other values at the same time")
        return run_layer(parameter, layer, inputs)

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array."""
        return eager_interpreter.backend.to_numpy(self.data)

    def item(self) -> float:
        """The only element as a Python number. Raises UsageError where there are more, or none."""
        return self._only_element("item()")

    def _only_element(self, what: str) -> Any:
        if self.spec.size != 1:
            raise UsageError(
                f"{what} takes a tensor of one element, and this one has the shape {list(self.shape)}: reduce it "
                "first, e.g. by sum() or mean(); numpy() gives all elements"
            )
        return self.numpy().item()

    def detach(self) -> Tensor:
        """The same array without the tape."""
        return Tensor(self.data)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """The sum over some axes, or all."""
        return ops.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """The mean over some axes, or all."""
        return ops.mean(self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: int) -> Tensor:
        """The same elements in another shape."""
        return ops.reshape(self, shape=shape)

    def backward(self, gradient: Tensor | None = None) -> None:
        """Add to ``grad`` of all tensors with ``requires_grad=True`` that this one was computed from; see `grad`."""
        leaves = _leaves(self)
        for leaf, g in zip(leaves, grad(self, leaves, gradient), strict=True):
            leaf.grad = g if leaf.grad is None else Tensor(leaf.grad.data + g.data)

    def __len__(self) -> int:
        if not self.shape:
            raise UsageError("len(): the tensor has no dimension; item() gives its number")
        return self.shape[0]

    def __contains__(self, value: Any) -> bool:
        return bool((self.numpy() == np.asarray(value)).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self._only_element("bool()"))

    def __float__(self) -> float:
        return float(self._only_element("float()"))

    def __int__(self) -> int:
        return int(self._only_element("int()"))

    def __index__(self) -> int:
        if self.spec.size != 1 or np.dtype(self.dtype).kind not in "iu":
            raise UsageError(
                f"an index is a tensor of one integer, and this one has the shape {list(self.shape)} and dtype "
                f"{self.dtype}: take int(tensor)"
            )
        return int(self._only_element("an index"))

    def __repr__(self) -> str:
        return f"tensor({np.array2string(self.numpy(), separator=', ', prefix='tensor(')})"


def tensor(data: Any, dtype: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data. Floats of Python become float32, integers int64."""
    array = np.array(data, dtype=dtype)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
        array = array.astype(np.float32)
    return Tensor(eager_interpreter.backend.asarray(array), requires_grad)


def parameter(array: np.ndarray, requires_grad: bool = True) -> Tensor:
    """A tensor for a weight, of the array itself without a copy."""
    return Tensor(eager_interpreter.backend.asarray(array), requires_grad)


def _tape_of(root: Tensor) -> list[TapeEntry]:
    entries: dict[int, TapeEntry] = {}
    pending = [root]
    while pending:
        entry = pending.pop()._entry
        if entry is not None and entry.number not in entries:
            entries[entry.number] = entry
            pending.extend(entry.inputs)
    return [entries[n] for n in sorted(entries)]


def _leaves(root: Tensor) -> list[Tensor]:
    leaves = {id(t): t for e in _tape_of(root) for t in e.inputs if t.requires_grad and t._entry is None}
    return list(leaves.values())


def grad(
    output: Tensor, inputs: Sequence[Tensor], gradient: Tensor | None = None, create_graph: bool = False
) -> list[Tensor]:
    """Gradients of ``output`` with respect to the inputs; zeros where it does not depend on one.

    gradient: of the output; default 1 for a scalar output. create_graph: whether the result can be differentiated
    again. Raises UsageError where the output does not depend on a tensor with ``requires_grad=True``.
    """
    if not output.requires_grad:
        raise UsageError("the output was not computed from any tensor with requires_grad=True")
    if gradient is None:
        if output.spec.size != 1:
            raise UsageError(f"the output has shape {list(output.shape)}; pass `gradient=`, or reduce it to a scalar")
        gradient = tensor(np.ones(output.shape, output.dtype))
    entries = _tape_of(output)
    token = _recording.set(create_graph)
    try:
        gradients = backward_pass(entries, [(output, gradient)], inputs)
    finally:
        _recording.reset(token)
    return [tensor(np.zeros(t.shape, t.dtype)) if g is None else g for t, g in zip(inputs, gradients, strict=True)]


eager_interpreter = EagerInterpreter(eager_backend())
set_default_interpreter(eager_interpreter)
