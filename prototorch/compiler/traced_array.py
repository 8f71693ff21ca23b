"""Memory as a trace knows it: what a tensor's array is while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.graph.ir import Value
from prototorch.ops.view_update import ViewSteps, apply_view_steps, view_update
from prototorch.spec import Spec

__all__ = ["TracedArray"]


class TracedArray:
    """An array that is known by its spec, with the value that its memory has at this point of the trace.

    A view (``base``, ``steps``) reads and writes the memory of its base. ``layout`` is an array of the same shape and
    strides whose elements mean nothing: by it an op gives a view here where it gives one when it runs. ``version``
    counts the writes.
    """

    __slots__ = ("_seen", "_value", "base", "dtype", "layout", "shape", "steps", "version")

    def __init__(
        self,
        value: Value | None,
        spec: Spec,
        layout: Any = None,
        base: TracedArray | None = None,
        steps: ViewSteps = (),
    ):
        self.shape, self.dtype = spec.shape, spec.dtype
        self.layout = np.empty(spec.shape, np.dtype(spec.dtype)) if layout is None else layout
        self.base, self.steps, self.version = base, steps, 0
        self._value = value
        self._seen = -1 if value is None or base is None else base.version

    @property
    def flags(self) -> Any:
        """The flags of the memory: whether it is contiguous."""
        return self.layout.flags

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps of the memory along each dimension, in bytes."""
        return tuple(self.layout.strides)

    @property
    def value(self) -> Value:
        """What the memory holds now."""
        if self.base is not None and self._seen != self.base.version:
            self._value, self._seen = apply_view_steps(self.base.value, self.steps), self.base.version
        assert self._value is not None
        return self._value

    def write(self, value: Value) -> None:
        """Overwrite all elements."""
        if self.base is not None:
            self.base.write(view_update(self.base.value, value, steps=self.steps))
            self._seen = self.base.version
        self._value = value
        self.version += 1

    def view(self, value: Value, spec: Spec, layout: Any, step: tuple[str, tuple[tuple[str, Any], ...]]) -> TracedArray:
        """The view by one more op, whose result is a value."""
        base = self if self.base is None else self.base
        return TracedArray(value, spec, layout, base, (*self.steps, step))

    def copy(self) -> TracedArray:
        """Memory of its own with the same elements."""
        return TracedArray(self.value, Spec(self.shape, self.dtype))
