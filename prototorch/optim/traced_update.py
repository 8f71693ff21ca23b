"""The update of parameters inside a compiled function: the formula as ops of its plan.

The step is counted, and the coefficients are computed from it, by the host at each call; the plan takes them as inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any

from prototorch import ops
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import number
from prototorch.optim.formula import coefficient_dtype

__all__ = ["CallCoefficients", "record_update"]


class CallCoefficients(MutableMapping[str, float]):
    """The coefficients of a call: ``compute`` is called when the first of them is read, which counts the step.

    Each call reads each coefficient at most once, so that one that is read again belongs to the next call.
    """

    def __init__(self, compute: Callable[[], dict[str, float]]):
        self._compute = compute
        self._values: dict[str, float] = {}
        self._keys_read: set[str] = set()

    def __getitem__(self, key: str) -> float:
        if not self._values or key in self._keys_read:
            self._values = self._compute()
            self._keys_read.clear()
        self._keys_read.add(key)
        return self._values[key]

    def __setitem__(self, key: str, value: float) -> None:
        raise TypeError("coefficients are computed")

    __delitem__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def record_update(
    formula: Callable[..., Sequence[Any]],
    variant: Any,
    names: Sequence[str],
    source: CallCoefficients,
    members: Sequence[Sequence[Tensor]],
) -> None:
    """Record the update of parameters. members: for each the parameter and its slots; names: of the coefficients."""
    values = {name: number(source, name) for name in names}
    with no_grad():
        for p, *slots in members:
            exact = coefficient_dtype(p.spec.dtype)
            arrays = [_as(t, exact) for t in (p.detach(), p.grad.detach(), *slots)]  # type: ignore[union-attr]
            scalars = SimpleNamespace(**{name: _as(value, exact) for name, value in values.items()})
            results = formula(variant, arrays[0], arrays[1], scalars, *arrays[2:])
            for target, result in zip((p, *slots), results, strict=True):
                assign(target, _as(result, target.spec.dtype), "the step of an optimizer")


def _as(value: Any, dtype: str) -> Any:
    return value if value.spec.dtype == dtype else ops.cast(value, dtype=dtype)
