"""The interface that a layer's `call` uses besides ops: weights, state updates, random keys, masks, sublayers.

`graph.trace` implements it for graphs and `eager.layer_call` for eager mode; layers know neither. `graph.decoding`
implements `DecodingContext`.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol


class ArrayValue(Protocol):
    """What ops take and return: a value of a graph, or an eager tensor.

    Operators are ops: ``x + 1``, ``x @ w``, ``x[:, 0]``. Operands may also be Python numbers and NumPy arrays.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the batch dimension included."""

    @property
    def dtype(self) -> str:
        """The element type by NumPy's name."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""

    def __add__(self, other: Any) -> ArrayValue: ...
    def __radd__(self, other: Any) -> ArrayValue: ...
    def __sub__(self, other: Any) -> ArrayValue: ...
    def __rsub__(self, other: Any) -> ArrayValue: ...
    def __mul__(self, other: Any) -> ArrayValue: ...
    def __rmul__(self, other: Any) -> ArrayValue: ...
    def __truediv__(self, other: Any) -> ArrayValue: ...
    def __rtruediv__(self, other: Any) -> ArrayValue: ...
    def __pow__(self, other: Any) -> ArrayValue: ...
    def __matmul__(self, other: Any) -> ArrayValue: ...
    def __neg__(self) -> ArrayValue: ...
    def __getitem__(self, key: Any) -> ArrayValue: ...


class Context(Protocol):
    """Handed to `Layer.call` as ``ctx``."""

    #: whether the graph being built is the training graph
    training: bool

    @property
    def trainable(self) -> bool:
        """Whether the layer is trained: neither it nor the layer that it is in is frozen."""

    def weight(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: Any,
        *,
        regularizer: Any = None,
        constraint: Any = None,
        trainable: bool = True,
        dtype: str | None = None,
        fans: tuple[int, int] | None = None,
    ) -> ArrayValue:
        """A weight of this layer as a value; the same value for the same name.

        ``dtype`` defaults to the net's floating-point type.
        ``fans`` (in, out) are for initializers that scale with them, if the shape does not determine them: by default
        [in, out] of a matrix, [filters, channels, *kernel] of a convolution.
        """

    def update(self, name: str, value: Any, always: bool = False) -> None:
        """Assign the value to the non-trainable weight of that name after this step. Ignored outside training.

        With ``always`` it is recorded outside training, too, for callers that keep the statistics of a forward pass
        (a Caffe net); `Model.predict` and `Model.evaluate` change no weight.
        """

    def key(self) -> ArrayValue:
        """The random key of this step: uint64[2], seed and step. Together with `site` it drives random ops."""

    def site(self) -> int:
        """An integer unique to this random op in the graph, the same for every trace of the same net."""

    def mask(self, value: Any) -> ArrayValue | None:
        """The mask of a value (bool, True where an element counts; see `layers.mask_shapes`), or None."""

    def set_mask(self, value: Any, mask: Any) -> None:
        """Set the mask of an output: bool, of a prefix of its shape (see `layers.mask_shapes`); None for no mask."""

    def sublayer(self, name: str, layer: Any, *inputs: Any) -> Any:
        """The outputs of another layer inside this one; its weights have ``name/`` as a prefix."""

    def add_loss(self, value: Any) -> None:
        """Add a scalar to the training loss."""

    def warn(self, message: str) -> None:
        """Issue a ModelWarning that names the layer."""

    def fail(self, message: str) -> NoReturn:
        """Raise a ShapeError that names the layer."""


class DecodingContext(Context, Protocol):
    """Handed to `Layer.decode_steps` as ``ctx``: the layer gets the next steps of sequences, and has caches of what it
    needs of the earlier ones. Values [batch, steps, ...] that follow from the sequences are streams."""

    #: the context without the sequences, for layers inside that work within a step
    layer_context: Any
    #: the largest number of steps of a sequence
    capacity: int
    #: which of the steps count, bool [batch, steps]: those of a shorter sequence come first
    given_steps: Any

    def is_stream(self, value: Any) -> bool:
        """Whether a value follows from the sequences; any other one is whole, and the same at each call."""

    def append(self, name: str, value: ArrayValue) -> ArrayValue:
        """The steps of a value so far, [batch, capacity, ...]: the earlier ones, with these of ``value`` [batch, steps,
        ...] behind them."""

    def with_earlier_steps(self, name: str, value: ArrayValue, count: int) -> ArrayValue:
        """The next steps of a value with ``count`` earlier ones before them, [batch, count + steps, ...]: zeros before
        the first step of a sequence."""

    def visible_steps(self, steps: int) -> ArrayValue:
        """Which of the steps so far each of the next steps sees, itself and those before it: bool [batch, 1, steps,
        capacity]."""

    def state(self, name: str, first: ArrayValue) -> ArrayValue:
        """The value that `set_state` kept under this name at the last call; ``first`` at a sequence's first step."""

    def set_state(self, name: str, value: ArrayValue) -> None:
        """Keep a value [batch, ...] for the next call."""

    def table_rows(self, table: Any) -> ArrayValue:
        """The rows of a table [positions, ...] for the next steps, [batch, steps, ...].

        Raises ShapeError for a table of fewer rows than ``capacity``.
        """
