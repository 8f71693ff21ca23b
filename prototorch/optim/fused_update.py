"""The update of all parameters of a kind in one call: a fused op for each, whose outputs are the parameters' memory."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.devices import backend_for
from prototorch.engine.backends.registry import KernelFn
from prototorch.ops.fused import fused
from prototorch.optim.formula import Formula, coefficient_dtype, record_formula
from prototorch.spec import Spec

__all__ = ["FusedUpdate", "cpu_backend", "update_backend"]


@cache
def cpu_backend() -> Backend:
    """The backend that updates parameters in the memory of the host."""
    return backend_for("cpu")


def update_backend(tensor: Tensor) -> Backend:
    """The backend that updates a tensor: on the CPU the fastest level, for one compiled kernel serves all shapes."""
    backend: Backend = tensor.interpreter.backend
    return backend if backend.has_device_memory else cpu_backend()


class FusedUpdate:
    """The bound update of some parameters of one dtype on one device.

    Args:
        formula, variant, names: as for `record_formula`; all parameters have the same coefficients.
        arrays: for each parameter its array and those of its slots, of one shape.
        backend: that of their memory, see `update_backend`.
    """

    def __init__(
        self,
        formula: Formula,
        variant: Hashable,
        names: tuple[str, ...],
        arrays: Sequence[Sequence[Any]],
        backend: Backend,
    ):
        self.arrays = [tuple(row) for row in arrays]
        self._flat = list(chain.from_iterable(arrays))
        self._backend = backend
        dtype = str(arrays[0][0].dtype)
        attrs = record_formula(formula, variant, names, len(arrays[0]) - 1, dtype)
        exact = coefficient_dtype(dtype)
        self._coefficients = np.zeros(len(names), exact)
        shared = self._backend.asarray(self._coefficients)  # on the CPU the same memory
        self._write = None if shared is self._coefficients else self._backend.make_writer(shared)
        self._scalars = [shared[i : i + 1].reshape(()) for i in range(len(names))]
        steps = [self._bind(attrs, row, dtype, exact) for row in self.arrays]
        self._is_flat = [_is_contiguous(*row) for row in self.arrays]
        self._call = self._backend.link_rebindable(steps, operand=1)

    def matches(self, arrays: Sequence[Sequence[Any]]) -> bool:
        """Whether these are the arrays that it is bound to."""
        flat = list(chain.from_iterable(arrays))
        return len(flat) == len(self._flat) and all(map(operator.is_, flat, self._flat))

    def run(self, coefficients: Sequence[float], gradients: Sequence[Any]) -> None:
        """Update the parameters and slots by these gradients, of the parameters' shapes and dtype."""
        self._coefficients[:] = coefficients
        if self._write is not None:
            self._write(self._coefficients)
        flat = [
            (g if g.flags.c_contiguous else self._backend.copy(g)).reshape(-1) if is_flat else g
            for g, is_flat in zip(gradients, self._is_flat, strict=True)
        ]
        self._call(flat)

    def _reference(self, attrs: dict[str, Any]) -> KernelFn:
        run = self._backend.reference(fused, attrs)
        if not self._backend.has_device_memory:
            return run
        return lambda ins, outs: self._backend.enqueue("fused", lambda: run(ins, outs))

    def _bind(
        self, attrs: dict[str, Any], row: Sequence[Any], dtype: str, exact: str
    ) -> tuple[KernelFn, tuple[Any, ...], tuple[Any, ...]]:
        """The op of one parameter, bound to its arrays, with the parameter's own in the gradient's stead."""
        is_flat = _is_contiguous(*row)
        own = tuple(a.reshape(-1) if is_flat else a for a in row)
        spec = Spec(tuple(own[0].shape), dtype)
        ins = (spec,) * (1 + len(own)) + (Spec((), exact),) * len(self._scalars)
        outs = (spec,) * len(own)
        kernel = self._backend.prepare(fused, ins, outs, attrs) if is_flat else self._reference(attrs)
        return kernel, (own[0], own[0], *own[1:], *self._scalars), own


def _is_contiguous(*arrays: Any) -> bool:
    return all(a.flags.c_contiguous for a in arrays)
