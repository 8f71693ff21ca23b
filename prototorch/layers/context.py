"""What a layer can ask for while it says itself in ops. The graph room fulfils it; layers know nothing of how."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol


class Context(Protocol):
    """Handed to `Layer.call` as ``ctx``."""

    #: whether the graph being built is the training graph
    training: bool

    def weight(self, name: str, shape: tuple[int, ...], initializer: Any, *, regularizer: Any = None,
               constraint: Any = None, trainable: bool = True, dtype: str | None = None,
               fans: tuple[int, int] | None = None) -> Any:  # fmt: skip
        """A weight of this layer as a value; the same one when it is asked for again.

        ``dtype`` is the net's floating-point type unless it is said.
        ``fans`` (in, out) are for initialisers that scale with them, where the shape does not tell them: by default
        [in, out] of a matrix, [filters, channels, *kernel] of a convolution.
        """

    def update(self, name: str, value: Any) -> None:
        """After this step the weight of that name (not trainable) becomes the value. Ignored outside training."""

    def key(self) -> Any:
        """The random key of this step: uint64[2], seed and step. Together with `site` it drives random ops."""

    def site(self) -> int:
        """A number that no other random op of the graph has, the same whenever the same net is traced."""

    def mask(self, value: Any) -> Any | None:
        """The mask of a value (bool, [batch, time], True where a step counts), or None."""

    def set_mask(self, value: Any, mask: Any) -> None:
        """Give an output a mask."""

    def sublayer(self, name: str, layer: Any, *inputs: Any) -> Any:
        """Say another layer inside this one; its weights bear the name in front."""

    def add_loss(self, value: Any) -> None:
        """A scalar that is added to the training loss."""

    def fail(self, message: str) -> NoReturn:
        """Raise a ShapeError that names the layer."""
