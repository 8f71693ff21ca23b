"""The base of layers whose constants are learned from data before the first step: Keras' ``adapt``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np

from prototorch.errors import UsageError
from prototorch.layers.base import Layer

__all__ = ["AdaptedLayer", "has_unadapted", "refuse_unadapted"]


class AdaptedLayer(Layer, abstract=True):
    """A layer with fields that data decide where they are left out.

    `adapt` learns them, and so does `Model.fit`, from the training data in one pass before the first step. They are
    fields: the model's text, its file and its exports hold them.
    """

    #: the fields that are learned
    learned_fields: ClassVar[tuple[str, ...]] = ()

    def is_adapted(self) -> bool:
        """Whether its constants are there, so that it can compute."""
        return all(getattr(self, name) is not None for name in self.learned_fields)

    def summarize(self, batch: np.ndarray, summary: Any) -> Any:
        """What is known of the data so far, with a further batch [samples, ...]. summary: None before the first one.

        Raises UsageError for a batch that it cannot learn from.
        """
        raise TypeError(f"{type(self).__name__} does not define summarize")

    def set_from_summary(self, summary: Any) -> None:
        """Set the fields to what a summary says."""
        raise TypeError(f"{type(self).__name__} does not define set_from_summary")

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the constants from an array [samples, ...], or from an iterable of such batches, in place (Keras).

        steps: the number of batches that are read; batch_size changes nothing. Raises UsageError for other data.
        """
        batches = [data] if hasattr(data, "__array__") or isinstance(data, list | tuple) else data
        if not isinstance(batches, Iterable):
            raise UsageError(f"{type(self).__name__}.adapt: expected an array or batches, got {type(data).__name__}")
        summary = None
        for number, batch in enumerate(batches):
            if steps is not None and number >= steps:
                break
            array = np.asarray(batch)
            if array.dtype.kind not in "biuf" or not array.size:
                raise UsageError(
                    f"{type(self).__name__}.adapt: expected numbers, got {array.dtype} {list(array.shape)}"
                )
            summary = self.summarize(array, summary)
        if summary is None:
            raise UsageError(f"{type(self).__name__}.adapt: there are no data")
        self.learn(summary)

    def learn(self, summary: Any) -> None:
        """Take over a summary; plans of models with this layer are made anew."""
        self.set_from_summary(summary)
        self.__dict__["_revision"] = self.revision + 1

    @property
    def revision(self) -> int:
        """How often it has been adapted."""
        return int(self.__dict__.get("_revision", 0))

    def set_field(self, name: str, value: Any) -> Self:
        """Set a field in place."""
        self.__dict__[name] = value
        return self

    def __hash__(self) -> int:
        return hash(type(self))  # `adapt` changes the fields

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_revision"}


def has_unadapted(layers: Iterable[Layer]) -> bool:
    """Whether one of these layers has no constants yet."""
    return any(isinstance(layer, AdaptedLayer) and not layer.is_adapted() for layer in layers)


def refuse_unadapted(layers: Iterable[Layer]) -> None:
    """Raise UsageError for the first layer whose constants are not known yet."""
    for layer in layers:
        if isinstance(layer, AdaptedLayer) and not layer.is_adapted():
            words = " and ".join(layer.learned_fields)
            raise UsageError(
                f"{layer.name or type(layer).__name__}: its {words} are not known yet: fit learns them from the "
                f"training data, adapt(data) from any, or write them into the text"
            )
