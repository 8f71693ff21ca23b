"""How a kernel is checked: against the op's plain body, in memory that would show every element missed or overrun."""

from __future__ import annotations

import numpy as np

from prototorch.engine.backends.cpu import cpu, worker_pool
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

GUARD = 256  # bytes before and after each output
_BACKEND = cpu("numpy")


def spec(array: np.ndarray) -> Spec:
    return Spec(tuple(array.shape), str(array.dtype))


class Guarded:
    """An array filled with NaN (77 for whole numbers) between two zones that must stay as they are."""

    def __init__(self, of: Spec):
        self.raw = np.full(2 * GUARD + of.nbytes, 0xA5, np.uint8)
        self.array = self.raw[GUARD : GUARD + of.nbytes].view(of.dtype).reshape(of.shape)
        if of.dtype == "bool":
            self.raw[GUARD : GUARD + of.nbytes] = 1
        else:
            self.array[...] = np.nan if of.is_float else 77

    def intact(self) -> bool:
        end = len(self.raw) - GUARD
        return bool((self.raw[:GUARD] == 0xA5).all() and (self.raw[end:] == 0xA5).all())


def scattered(array: np.ndarray) -> np.ndarray:
    """The same numbers in memory that is not contiguous."""
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    view = wide[(*(slice(None, None, 2) for _ in array.shape), ...)]
    view[...] = array
    return view


def outputs_of(name, arrays, attrs):
    specs = OPS[name].infer_spec(*map(spec, arrays), **attrs)
    return specs if isinstance(specs, tuple) else (specs,)


def plain(name, arrays, attrs):
    with np.errstate(all="ignore"):
        made = OPS[name].reference(np, *arrays, **attrs)
        made = made if isinstance(made, tuple) else (made,)
        outs = outputs_of(name, arrays, attrs)
        return tuple(np.asarray(a).astype(o.dtype) for a, o in zip(made, outs, strict=True))


def run_kernel(name, arrays, attrs):
    """The kernel's outputs; asserts that a kernel ran, wrote within its outputs and left its inputs alone."""
    op, outs = OPS[name], outputs_of(name, arrays, attrs)
    ins = tuple(map(spec, arrays))
    assert _BACKEND.kernel_level(op, ins, outs, attrs) == "numpy"
    runner = _BACKEND.prepare(op, ins, outs, attrs)
    before = [a.copy() for a in arrays]
    guarded = [Guarded(o) for o in outs]
    with _BACKEND.run_context():
        runner(tuple(arrays), tuple(g.array for g in guarded))
    assert all(g.intact() for g in guarded), "written outside an output"
    for old, new in zip(before, arrays, strict=True):
        np.testing.assert_array_equal(old, new, err_msg="an input was changed")
    return [g.array for g in guarded]


def run_in_place(name, arrays, attrs, output, source):
    """The outputs when one of them is written over an input."""
    op, outs = OPS[name], outputs_of(name, arrays, attrs)
    runner = _BACKEND.prepare(op, tuple(map(spec, arrays)), outs, attrs)
    arrays, guarded = list(arrays), [Guarded(o) for o in outs]
    guarded[output].array[...] = arrays[source]
    arrays[source] = guarded[output].array
    with _BACKEND.run_context():
        runner(tuple(arrays), tuple(g.array for g in guarded))
    assert all(g.intact() for g in guarded), "written outside an output"
    return [g.array for g in guarded]


def close(got, want, rtol, atol):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def same_bits(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.tobytes() == b.tobytes()


def check(name, *arrays, rtol=0.0, atol=0.0, threads_agree=True, **attrs):
    """The kernel against the plain body; in place where the op allows it; scattered inputs; the same bits again.

    ``rtol`` and ``atol`` are the float32 (or float64) distance allowed, 0 where the kernel does the same operations.
    ``threads_agree`` asks for the same bits on one thread as on three.
    """
    want = plain(name, arrays, attrs)
    got = run_kernel(name, arrays, attrs)
    close(got, want, rtol, atol)
    same_bits(run_kernel(name, arrays, attrs), got)
    close(run_kernel(name, [scattered(a) for a in arrays], attrs), want, rtol, atol)
    outs = outputs_of(name, arrays, attrs)
    for output, source in OPS[name].inplace.items():
        if outs[output] == spec(arrays[source]):
            close(run_in_place(name, arrays, attrs, output, source), want, rtol, atol)
    if threads_agree:
        threads = worker_pool.num_threads()
        try:
            worker_pool.set_num_threads(1)
            one = run_kernel(name, arrays, attrs)
            worker_pool.set_num_threads(3)
            same_bits(run_kernel(name, arrays, attrs), one)
        finally:
            worker_pool.set_num_threads(threads)
