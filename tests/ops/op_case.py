"""One case of the table of ops: an op on inputs, beside an oracle that shares no code with it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.ops.core import Op, run_on_arrays
from prototorch.ops.operators import OPS

#: shapes that break what only works on ordinary ones: a scalar, one element, none, ones between, an odd length
SHAPES = [(), (1,), (0, 3), (2, 1, 3), (7,)]


@dataclass
class Case:
    """Inputs are float64 where they are floating-point numbers; the checks make float32 of them as well.

    constant: floating-point inputs that are held fixed. zero: inputs by which the derivative is 0 wherever it exists,
    so that there is no gradient. gradient: False for an op that is not differentiated. kept: inputs that stay as they
    are in the float32 check.
    """

    op: str
    inputs: tuple[Any, ...]
    oracle: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    constant: tuple[int, ...] = ()
    zero: tuple[int, ...] = ()
    gradient: bool = True
    second: bool = True
    kept: tuple[int, ...] = ()
    tolerance: float = 1e-12
    tolerance32: float = 2e-5
    number: int = 0

    def __str__(self) -> str:
        shapes = "x".join("(" + ",".join(map(str, np.shape(a))) + ")" for a in self.inputs)
        return f"{self.op}-{self.number}-{shapes}"

    def arrays(self, dtype: str) -> tuple[np.ndarray, ...]:
        """The inputs, floating-point ones in a type."""
        return tuple(
            a.astype(dtype) if a.dtype.kind == "f" and i not in self.kept else a
            for i, a in enumerate(map(np.asarray, self.inputs))
        )

    def call(self, *values: Any) -> Any:
        """The op on values."""
        return OPS[self.op](*values, **self.attrs)

    def reference(self, arrays: Sequence[Any], xp: Any = np) -> tuple[Any, ...]:
        """The plain body's outputs."""
        made = the_op(self.op).reference(xp, *arrays, **self.attrs)
        return made if isinstance(made, tuple) else (made,)


def the_op(name: str) -> Op:
    """An op by name."""
    op = OPS[name]
    assert isinstance(op, Op)
    return op


CASES: list[Case] = []


def case(
    op: str, *inputs: Any, oracle: Callable[..., Any], attrs: dict[str, Any] | None = None, **options: Any
) -> None:
    """Enter a case."""
    number = sum(1 for c in CASES if c.op == op)
    CASES.append(Case(op, inputs, oracle, attrs or {}, number=number, **options))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng([seed, *shape, 1]).standard_normal(shape)


def away(
    *shape: int, kinks: Sequence[float] = (0.0,), gap: float = 0.05, seed: int = 0, scale: float = 2.0
) -> np.ndarray:
    """Normal numbers of a scale that keep a distance from the places where a derivative jumps."""
    x = normal(*shape, seed=seed) * scale
    for kink in kinks:
        near = np.abs(x - kink) < gap
        x = np.where(near, kink + np.where(x < kink, -gap, gap), x)
    return x


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.3 and 2.3."""
    return np.random.default_rng([seed, *shape, 2]).random(shape) * 2 + 0.3


def integers(*shape: int, below: int, seed: int = 0, dtype: str = "int64") -> np.ndarray:
    """Whole numbers from 0."""
    return np.random.default_rng([seed, *shape, 3]).integers(0, below, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    """True and False."""
    return np.random.default_rng([seed, *shape, 4]).random(shape) < 0.5


def each(function: Callable[..., Any], dtype: str | None = None) -> Callable[..., Any]:
    """An oracle that calls a function of numbers for each element, inputs broadcast."""

    def oracle(*arrays: Any, **attrs: Any) -> np.ndarray:
        wide = np.broadcast_arrays(*arrays)
        made = [function(*(a.item() for a in v), **attrs) for v in zip(*(w.reshape(-1) for w in wide), strict=True)]
        return np.array(made, dtype=dtype or wide[-1].dtype).reshape(wide[0].shape)

    return oracle


__all__ = [
    "CASES",
    "SHAPES",
    "Case",
    "away",
    "bools",
    "case",
    "each",
    "integers",
    "normal",
    "positive",
    "run_on_arrays",
    "the_op",
]


def import_cases() -> dict[str, str]:
    """Import the modules of cases, which add theirs to `CASES`; why a module cannot be, by its name: the oracle of some
    is PyTorch, which a machine may lack."""
    missing = {}
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        try:
            importlib.import_module(f"{__package__}.{path.stem}")
        except ModuleNotFoundError as error:
            missing[path.stem] = str(error)
    return missing
