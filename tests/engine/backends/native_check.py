"""How a native kernel is checked: against the op's plain body in float64, in memory that would show every element
missed, overrun or read from outside, in the layouts asked for, on one thread and on more.

    check("max_pool", x, layouts="channels_last", kernel=(2, 2), strides=(2, 2), pads=((0, 0), (0, 0)))

The fixture ``bits`` (conftest.py) runs a test once for each width of vector.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu import cpu, worker_pool
from prototorch.engine.backends.cpu.native import cache_key, cpu_features, kernel_api
from prototorch.engine.backends.registry import kernels_of
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

CHANNELS_LAST = "channels_last"
GUARD = 256  # bytes before and after each array
ODD = 8  # and arrays begin at addresses that are no multiple of a vector
cpu("native")  # enters the kernels


def widest() -> int:
    """The width of this machine's vectors in bits."""
    return cpu_features._max_vector_bits()


@contextmanager
def vector_bits(bits: int) -> Iterator[None]:
    """Kernels made inside are of this width (or the machine's, where that is narrower)."""
    before = os.environ.get("PROTOTORCH_VECTOR_BITS")
    os.environ["PROTOTORCH_VECTOR_BITS"] = str(bits)
    _forget()
    try:
        yield
    finally:
        if before is None:
            del os.environ["PROTOTORCH_VECTOR_BITS"]
        else:
            os.environ["PROTOTORCH_VECTOR_BITS"] = before
        _forget()


def _forget() -> None:
    cpu_features.vector_bits.cache_clear()
    cache_key.clear_caches()
    kernel_api.clear_caches()


class Guarded:
    """An array between two zones of NaN that must stay as they are; it lies in memory as its spec says."""

    def __init__(self, of: Spec):
        start = GUARD + ODD
        raw = np.full(2 * start + of.nbytes + 64, 0xFF, np.uint8)
        self.raw = raw[-raw.ctypes.data % 64 :]
        self.inner = slice(start, start + of.nbytes)
        shape = (of.shape[0], *of.shape[2:], of.shape[1]) if of.layout == CHANNELS_LAST else of.shape
        held = self.raw[self.inner].view(of.dtype).reshape(shape)
        self.array = np.moveaxis(held, -1, 1) if of.layout == CHANNELS_LAST else held
        if of.dtype == "bool":
            self.raw[self.inner] = 1
        else:
            self.array[...] = np.nan if of.is_float else 77

    def intact(self) -> bool:
        around = self.raw.copy()
        around[self.inner] = 0xFF
        return bool((around == 0xFF).all())


def specs_of(arrays: Any, layouts: Any) -> tuple[Spec, ...]:
    """Specs of arrays. A layout by name is that of all arrays of the largest rank, if it is 3 or more."""
    rank = max((np.ndim(a) for a in arrays), default=0)
    if layouts is None or isinstance(layouts, str):
        layouts = [layouts if np.ndim(a) == rank >= 3 else None for a in arrays]
    return tuple(Spec(tuple(a.shape), str(a.dtype), lay) for a, lay in zip(arrays, layouts, strict=True))


def outputs_of(name: str, ins: tuple[Spec, ...], attrs: dict[str, Any], layouts: Any) -> tuple[Spec, ...]:
    """Specs of an op's outputs; without ``layouts`` they lie as the input of the same rank does."""
    made = OPS[name].infer_spec(*(replace(s, layout=None) for s in ins), **attrs)
    made = made if isinstance(made, tuple) else (made,)
    if layouts is None:
        laid = {s.ndim for s in ins if s.layout is not None}
        layouts = [o.layout or (CHANNELS_LAST if o.ndim in laid else None) for o in made]
        if name == "reorder":
            layouts = [o.layout for o in made]
    elif isinstance(layouts, str):
        layouts = [layouts if o.ndim >= 3 else None for o in made]
    return tuple(replace(o, layout=lay) for o, lay in zip(made, layouts, strict=True))


def oracle(name: str, arrays: Any, attrs: dict[str, Any], outs: tuple[Spec, ...]) -> list[np.ndarray]:
    """What the plain body makes of the same numbers in float64."""
    wide = [np.asarray(a, "float64") if a.dtype == np.float32 else a for a in arrays]
    with np.errstate(all="ignore"):
        made = OPS[name].reference(np, *wide, **attrs)
        made = made if isinstance(made, tuple) else (made,)
        return [np.broadcast_to(np.asarray(m), o.shape).astype(o.dtype) for m, o in zip(made, outs, strict=True)]


def prepared(
    name: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any], level: str = "native"
) -> Any:
    """The runner of the first kernel of the level that takes it; None where none does."""
    made = (candidate(ins, outs, dict(attrs)) for candidate in kernels_of(level, name))
    return next((runner for runner in made if runner is not None), None)


def run_native(
    name: str,
    arrays: Any,
    ins: tuple[Spec, ...],
    outs: tuple[Spec, ...],
    attrs: dict[str, Any],
    over: tuple[tuple[int, int], ...] = (),
    level: str = "native",
) -> list[np.ndarray]:
    """The native kernel's outputs; asserts that one ran, wrote within its outputs and left its inputs alone.

    ``over`` are pairs (output, input) that share their memory.
    """
    runner = prepared(name, ins, outs, attrs, level)
    assert runner is not None, f"no native kernel takes {name} of {ins} {attrs}"
    given, made = [Guarded(s) for s in ins], [Guarded(s) for s in outs]
    for output, source in over:
        given[source] = made[output]
    for g, a in zip(given, arrays, strict=True):
        g.array[...] = a
    runner.make_program([g.array for g in given], [m.array for m in made])()  # bound: nothing is copied on the way
    assert all(g.intact() for g in (*given, *made)), "written outside an output"
    written = {source for _, source in over}
    for i, (g, a) in enumerate(zip(given, arrays, strict=True)):
        if i not in written:
            np.testing.assert_array_equal(g.array, a, err_msg=f"input {i} was changed")
    return [m.array for m in made]


def close(got: Any, want: Any, rtol: float, atol: float) -> None:
    """Within the tolerances; atol is a share of the largest finite number that is wanted."""
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind == "f" else np.zeros(0)
        scale = float(finite.max()) if finite.size else 1.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * scale)


def check(
    name: str,
    *arrays: Any,
    layouts: Any = None,
    out_layouts: Any = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    threads: tuple[int, ...] = (1, 2),
    level: str = "native",
    **attrs: Any,
) -> list[np.ndarray]:
    """The native kernel against the plain body in float64, in place where the op allows it, with the same bits for
    every number of threads; gives back its outputs.

    ``layouts``: one for all arrays of the largest rank, or one per array; likewise ``out_layouts``. ``rtol`` is
    relative to each element, ``atol`` to the largest of the output.
    """
    ins = specs_of(arrays, layouts)
    outs = outputs_of(name, ins, attrs, out_layouts)
    want = oracle(name, arrays, attrs, outs)
    before, made = worker_pool.num_threads(), []
    try:
        for count in threads:
            worker_pool.set_num_threads(count)
            made.append(run_native(name, arrays, ins, outs, attrs, level=level))
    finally:
        worker_pool.set_num_threads(before)
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            assert a.tobytes() == b.tobytes(), "other bits with another number of threads"
    close(made[0], want, rtol, atol)
    for pair in OPS[name].inplace_map(attrs).items():
        if outs[pair[0]] == ins[pair[1]]:
            close(run_native(name, arrays, ins, outs, attrs, (pair,), level), want, rtol, atol)
    return made[0]
