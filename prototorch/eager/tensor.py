"""The tensor of eager mode: an array with a place on the tape, PyTorch's meaning, and the ops of the declared models.

x = pt.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
x.grad            # tensor([2., 4.])

The class holds what a tensor is; its functions (``x.clamp(min=0)``, ``x + y``) are in `prototorch.eager.functions`, and
are registered on it (`prototorch.eager.registry`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prototorch.eager.dtype import DTYPES, DType
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import recording
from prototorch.eager.printing import tensor_as_text
from prototorch.eager.size import Size
from prototorch.eager.storage import Storage, has_overlap
from prototorch.errors import GradientError, UsageError, warn_user
from prototorch.ops.operators import OperatorMixin
from prototorch.ops.view_update import apply_view_steps
from prototorch.spec import Spec

if TYPE_CHECKING:
    from prototorch.eager.view_info import ViewInfo

__all__ = ["Tensor", "make_tensor"]


class Tensor(OperatorMixin):
    """An array of one element type on one device.

    grad: the gradient after `backward`, a Tensor, else None. mask: which elements count (a bool Tensor, see
    `layers.mask_shapes`), or None. interpreter: runs the ops on it. storage: its memory, shared with its views.
    spec: shape and element type. array: that of the backend (NumPy's or CuPy's).

    For the modules of eager mode alone: recorded_edge is the `Edge` of the op that made it, None for a leaf, and of a
    view whose base was changed since it is out of date (`edge` is not); leaf_requires_grad: whether a gradient was
    asked for a leaf; stored_grad: `grad` without its warning; view_info: what a view knows of its base, else None.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "array",
        "interpreter",
        "leaf_requires_grad",
        "mask",
        "recorded_edge",
        "spec",
        "storage",
        "stored_grad",
        "view_info",
    )

    array: Any
    recorded_edge: Any
    view_info: ViewInfo | None
    stored_grad: Tensor | None
    leaf_requires_grad: bool
    mask: Tensor | None
    interpreter: Any
    spec: Spec
    storage: Storage

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    # ------------------------------------------------------------------ what it is

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions, as a `Size` (a tuple; ``size(dim)`` is one of them)."""
        return Size(self.spec.shape)

    @property
    def dtype(self) -> DType:
        """The element type, such as `prototorch.float32`."""
        return DTYPES[self.spec.dtype]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self.interpreter.device

    # ------------------------------------------------------------------ its place on the tape

    @property
    def edge(self) -> Any:
        """Its place on the tape: an `Edge`; the tensor itself, where it is a leaf with a gradient; None for neither."""
        view = self.view_info
        if view is not None and view.graph_version != self.storage.graph_version:
            _refresh_view(self)
        return self.recorded_edge if self.recorded_edge is not None else (self if self.leaf_requires_grad else None)

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is computed for it: it was asked for, or it was computed from such a tensor."""
        return self.leaf_requires_grad or self.edge is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value and not self.is_leaf:
            raise GradientError(
                "requires_grad: a tensor that was computed from others has a gradient if they have; take detach()"
            )
        if value and not self.spec.is_float:
            raise GradientError(f"requires_grad: a tensor of dtype {self.spec.dtype} has no gradient")
        self.leaf_requires_grad = bool(value) and self.is_leaf

    @property
    def grad(self) -> Tensor | None:
        """The gradient after `backward`; None before. Warns where the tensor is no leaf, whose gradient is not kept
        without `retain_grad`."""
        gradient = self.stored_grad
        if gradient is None and self.recorded_edge is not None and "retained" not in self.__dict__:
            warn_user(
                "grad is read of a tensor that is no leaf, whose gradient backward() does not keep; call retain_grad() "
                "on it first, or read grad of the leaf that it was computed from",
                UserWarning,
            )
        return gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise UsageError(f"grad: expected a tensor or None, got {type(value).__name__}")
            if value is self:
                raise GradientError("grad: a tensor cannot be its own gradient")
            if value.spec != self.spec or value.device != self.device:
                raise GradientError(
                    f"grad: expected a tensor {self.spec} on {self.device}, as the tensor is, got {value.spec} on "
                    f"{value.device}"
                )
        self.stored_grad = value

    @grad.deleter
    def grad(self) -> None:
        self.stored_grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether it is no leaf and keeps its gradient (see `retain_grad`)."""
        return "retained" in self.__dict__

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op has made it."""
        edge = self.edge
        return edge is None or edge is self

    @property
    def grad_fn(self) -> Any:
        """The tape's entry of the op that made it, or None."""
        edge = self.edge
        return edge.entry if type(edge) is Edge else None

    @property
    def output_nr(self) -> int:
        """Which output of its op it is."""
        edge = self.edge
        return edge.output if type(edge) is Edge else 0

    @property
    def _version(self) -> int:
        """How often its elements have been changed in place."""
        return self.storage.version

    @property
    def _base(self) -> Tensor | None:
        """The tensor that it is a view of, or None."""
        return None if self.view_info is None else self.view_info.base

    def is_overlapping(self) -> bool:
        """Whether several elements share one memory location (after `expand`, or `unfold` with a small step)."""
        array = self.array
        return not array.flags.c_contiguous and has_overlap(array.shape, array.strides, self.dtype.itemsize)

    @property
    def data(self) -> Tensor:
        """The same memory without the tape, and with a version counter of its own (PyTorch): what is changed through it
        is not noticed by the tape. Setting it takes the array of another tensor."""
        return make_tensor(self.array, self.spec, self.interpreter, Storage())

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise UsageError(f"data: expected a tensor, got {type(value).__name__}")
        if self.leaf_requires_grad and not value.spec.is_float:
            raise UsageError(f"data: a tensor of dtype {value.spec.dtype} cannot require a gradient")
        self.rebind(value.array, value.storage, value.interpreter)

    def rebind(self, array: Any, storage: Storage, interpreter: Any = None) -> None:
        """Take another array; the tensor stays what it is on the tape."""
        self.array, self.storage = array, storage
        self.spec = Spec(tuple(array.shape), str(array.dtype))
        self.interpreter = interpreter or self.interpreter
        self.view_info = None

    def detach(self) -> Tensor:
        """The same memory (and version counter) without the tape."""
        return make_tensor(self.array, self.spec, self.interpreter, self.storage)

    # ------------------------------------------------------------------ Python's and NumPy's protocols

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array: of the same memory on the CPU, else a copy.

        Unlike PyTorch it also takes tensors that require a gradient; ``force`` is accepted for its sake.
        """
        host_array: np.ndarray = self.interpreter.to_numpy(self.array)
        return host_array

    def item(self) -> Any:
        """The only element as a Python number. Raises UsageError where there are more, or none."""
        return self._only_element("item()")

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        return self.numpy().tolist()

    def _only_element(self, what: str) -> Any:
        if self.spec.size != 1:
            raise UsageError(
                f"{what} takes a tensor of one element, and this one has the shape {list(self.shape)}: reduce it "
                "first, e.g. by sum() or mean(); numpy() gives all elements"
            )
        return self.numpy().item()

    def __len__(self) -> int:
        if not self.spec.shape:
            raise UsageError("len(): the tensor has no dimension; item() gives its number")
        return self.spec.shape[0]

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Tensor | bool | int | float | np.generic | np.ndarray):
            raise UsageError(f"in: a tensor has numbers for elements, got {value!r:.60}")
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
        if self.spec.size != 1 or np.dtype(self.spec.dtype).kind not in "iu":
            raise UsageError(
                f"an index is a tensor of one integer, and this one has the shape {list(self.shape)} and dtype "
                f"{self.spec.dtype}: take int(tensor)"
            )
        return int(self._only_element("an index"))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self.interpreter.is_trace:
            return f"tensor(<{self.spec}, not known while a function is compiled>)"
        return tensor_as_text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.spec.shape else object.__format__(self, spec)


def _refresh_view(view: Tensor) -> None:
    """Compute the place on the tape of a view whose base has been changed."""
    info = view.view_info
    assert info is not None
    info.check_base()
    token = recording.set(True)
    try:
        result = apply_view_steps(info.base, info.steps)
    finally:
        recording.reset(token)
        view.view_info = info._replace(graph_version=view.storage.graph_version)
    view.recorded_edge, view.array = result.recorded_edge, result.array


_new = object.__new__


def make_tensor(array: Any, spec: Spec, interpreter: Any, storage: Storage) -> Tensor:
    """A tensor of an array without a copy. It is no view, and has no gradient."""
    t = _new(Tensor)
    t.array, t.spec, t.interpreter, t.storage = array, spec, interpreter, storage
    t.recorded_edge = t.view_info = t.stored_grad = t.mask = None
    t.leaf_requires_grad = False
    return t
